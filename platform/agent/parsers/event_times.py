"""Reads the time that a line gives: ISO 8601, seconds or milliseconds since the epoch, or a strptime pattern. Pure."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ...errors import HeadraceError
from .access_log import time_of_stamp

FORMATS = ("iso8601", "epoch_ms", "epoch_s", "access_log")
"""Any other format is a strptime pattern and holds a `%`."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_NUMBER = re.compile(r"\d{1,19}(?:\.\d{1,18})?", re.ASCII)
_MOST_MS = 1 << 62


class TimeFormatRefused(HeadraceError):
    """The setting is no time format."""


class TimeFormat:
    """Reads times of one format. A time without an offset is of `zone`; where clocks go back, it is the earlier of the two."""

    def __init__(self, name: str, zone: str = "UTC") -> None:
        """Raises `TimeFormatRefused`."""
        self.name = name
        if name not in FORMATS and "%" not in name:
            raise TimeFormatRefused(
                f"{name!r} is no time format: give one of {', '.join(FORMATS)}, or a strptime pattern such as %Y-%m-%d %H:%M:%S"
            )
        try:
            self.zone: tzinfo = UTC if zone == "UTC" else ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise TimeFormatRefused(f"{zone!r} is no time zone here: give UTC, or one such as Europe/Berlin") from error
        readers: dict[str, Callable[[str], int | None]] = {
            "iso8601": self._iso,
            "epoch_ms": lambda text: _scaled(text, 1),
            "epoch_s": lambda text: _scaled(text, 1000),
            "access_log": lambda text: time_of_stamp(text if text.startswith("[") else f"[{text}]"),
        }
        # Neighbouring lines share their second; strptime takes ten microseconds.
        self._read = lru_cache(maxsize=1024)(readers.get(name, self._by_pattern))

    def ms_of(self, value: Any) -> int | None:
        """Return the instant in ms since the epoch; None for what is no time of this format, and for times before the epoch."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return None
        time_ms = self._read(value if isinstance(value, str) else repr(value))
        return time_ms if time_ms is not None and 0 <= time_ms < _MOST_MS else None

    def _iso(self, text: str) -> int | None:
        try:
            return self._ms(datetime.fromisoformat(text.strip()))
        except (ValueError, OverflowError):
            return None

    def _by_pattern(self, text: str) -> int | None:
        try:
            return self._ms(datetime.strptime(text, self.name))
        except (ValueError, OverflowError):
            return None

    def _ms(self, at: datetime) -> int:
        return ((at if at.tzinfo is not None else at.replace(tzinfo=self.zone)) - _EPOCH) // _MILLISECOND


def _scaled(text: str, factor: int) -> int | None:
    if _NUMBER.fullmatch(text) is None:
        return None
    try:
        return int(Decimal(text) * factor)
    except InvalidOperation:
        return None
