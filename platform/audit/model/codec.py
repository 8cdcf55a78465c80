"""Reports as JSON and back. JSON, not registry Avro: the books must be readable when the registry is what is broken.

Every field is checked when read; a message that fails is refused whole, with the field's name. Layouts: docs/FORMATS.md.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from .errors import MalformedReport
from .messages import MAX_WINDOWS, ProducerReport, ProducerWindow, RangeReport, RangeWindow, Report, Retirement
from .tiers import PRODUCER

VERSION = 1
_INT64_MAX = (1 << 63) - 1
_MOST_COUNT = 1 << 40
"""The largest count believed: sums of them stay far inside 64 bits."""
_MOST_PARTITION = (1 << 31) - 1
_MAX_TEXT = 300
_TIER = re.compile(r"[a-z][a-z0-9_-]*(:[A-Za-z0-9._-]{1,200})?")
_LOSS = re.compile(r"[a-z][a-z_]{0,39}")
_DECIMAL = re.compile(r"-?[0-9]{1,19}")


def encode(report: Report) -> bytes:
    """Return the report as compact UTF-8 JSON."""
    match report:
        case ProducerReport():
            words = _producer_words(report)
        case RangeReport():
            words = _range_words(report)
        case Retirement():
            words = {"v": VERSION, "kind": "retirement", **asdict(report)}
    return json.dumps(words, separators=(",", ":")).encode()


def decode(value: bytes | memoryview | None) -> Report:
    """Return the report that `value` holds; MalformedReport names what is wrong otherwise.

    Raises nothing else, whatever the bytes.
    """
    if value is None:
        raise MalformedReport("the audit message has no value: a report is a JSON object")
    try:
        words = json.loads(bytes(value))
    except (ValueError, RecursionError) as error:
        raise MalformedReport(f"the audit message is not JSON: {error}") from None
    reader = _Fields(words, "report")
    version = reader.integer("v")
    if version != VERSION:
        raise MalformedReport(f"the audit message has version v={version}; this audit reads v={VERSION}: upgrade the service")
    match reader.text("kind"):
        case "producer":
            return _read_producer(reader)
        case "range":
            return _read_range(reader)
        case "retirement":
            return _read_retirement(reader)
        case other:
            raise MalformedReport(f"the audit message has kind={other[:40]!r}; known are 'producer', 'range' and 'retirement'")


def _producer_words(report: ProducerReport) -> dict[str, Any]:
    words: dict[str, Any] = {
        "v": VERSION,
        "kind": "producer",
        "tier": PRODUCER,
        "instance": report.instance,
        "epoch": report.epoch,
        "sequence": report.sequence,
        "at_ms": report.at_ms,
        "state": report.state,
        "producer_ids": list(report.producer_ids),
        "topics": list(report.topics),
        "moved_past_ms": report.moved_past_ms,
        "windows": [
            {
                "topic": window.topic,
                "window_start_ms": window.window_start_ms,
                "counts": {str(partition): count for partition, count in window.counts.items()},
                "losses": dict(window.losses),
            }
            for window in report.windows
        ],
    }
    if report.restates_from is not None:
        words["restates_from"] = report.restates_from
    return words


def _range_words(report: RangeReport) -> dict[str, Any]:
    words: dict[str, Any] = {
        "v": VERSION,
        "kind": "range",
        "tier": report.tier,
        "instance": report.instance,
        "at_ms": report.at_ms,
        "topic": report.topic,
        "partition": report.partition,
        "from_offset": report.from_offset,
        "to_offset": report.to_offset,
        "windows": {str(start): _range_window_words(window) for start, window in report.windows.items()},
        "redelivered": report.redelivered,
    }
    if report.parts > 1:
        words |= {"part": report.part, "parts": report.parts}
    return words


def _range_window_words(window: RangeWindow) -> dict[str, int]:
    words = {"count": window.count, "quarantined": window.quarantined}
    if window.redelivered:
        words["redelivered"] = window.redelivered
    return words


def _read_producer(reader: "_Fields") -> ProducerReport:
    state = reader.text("state")
    if state not in ("open", "closed"):
        raise MalformedReport(f"{reader.where}: state={state[:40]!r} is neither 'open' nor 'closed'")
    windows = reader.objects("windows", most=MAX_WINDOWS)
    return ProducerReport(
        instance=reader.text("instance"),
        epoch=reader.integer("epoch", least=0),
        sequence=reader.integer("sequence", least=0),
        at_ms=reader.integer("at_ms"),
        state="closed" if state == "closed" else "open",
        producer_ids=reader.integers("producer_ids"),
        topics=reader.texts("topics"),
        moved_past_ms=reader.optional_integer("moved_past_ms"),
        restates_from=reader.optional_integer("restates_from"),
        windows=tuple(_read_producer_window(window) for window in windows),
    )


def _read_producer_window(reader: "_Fields") -> ProducerWindow:
    return ProducerWindow(
        topic=reader.text("topic"),
        window_start_ms=reader.integer("window_start_ms"),
        counts=reader.counts_by_integer("counts"),
        losses=reader.counts_by_name("losses"),
    )


def _read_range(reader: "_Fields") -> RangeReport:
    tier = reader.text("tier")
    if not _TIER.fullmatch(tier) or tier == PRODUCER:
        raise MalformedReport(f"{reader.where}: tier={tier[:60]!r} is not the name of a tier that reads a log")
    from_offset = reader.integer("from_offset", least=0)
    to_offset = reader.integer("to_offset", least=0)
    if to_offset < from_offset:
        raise MalformedReport(f"{reader.where}: to_offset={to_offset} is before from_offset={from_offset}")
    parts = reader.integer("parts", least=1, most=10_000, default=1)
    part = reader.integer("part", least=0, default=0)
    if part >= parts:
        raise MalformedReport(f"{reader.where}: part={part} of parts={parts} cannot be (parts count from 0)")
    windows = reader.mapping("windows")
    if len(windows) > MAX_WINDOWS:
        raise MalformedReport(
            f"{reader.where}: {len(windows)} windows in one message; the most is {MAX_WINDOWS}: send it in parts"
        )
    return RangeReport(
        tier=tier,
        instance=reader.text("instance"),
        at_ms=reader.integer("at_ms"),
        topic=reader.text("topic"),
        partition=reader.integer("partition", least=0, most=_MOST_PARTITION),
        from_offset=from_offset,
        to_offset=to_offset,
        windows={_whole(start, f"{reader.where}.windows"): _read_range_window(start, words) for start, words in windows.items()},
        redelivered=reader.count("redelivered", default=0),
        part=part,
        parts=parts,
    )


def _read_range_window(start: str, words: Any) -> RangeWindow:
    reader = _Fields(words, f"window {start[:20]}")
    return RangeWindow(
        count=reader.count("count"),
        quarantined=reader.count("quarantined", default=0),
        redelivered=reader.count("redelivered", default=0),
    )


def _read_retirement(reader: "_Fields") -> Retirement:
    return Retirement(
        instance=reader.text("instance"),
        epoch=reader.integer("epoch", least=0),
        at_ms=reader.integer("at_ms"),
        by=reader.text("by"),
        reason=reader.text("reason"),
    )


def _whole(text: str, where: str) -> int:
    number = int(text) if _DECIMAL.fullmatch(text) else None
    if number is None or abs(number) > _INT64_MAX:
        raise MalformedReport(f"{where}: key {text[:40]!r} is not a whole number of 64 bits")
    return number


class _Fields:
    """One JSON object, read field by field; each reading method raises MalformedReport with the field's name."""

    def __init__(self, words: Any, where: str) -> None:
        if not isinstance(words, dict):
            raise MalformedReport(f"{where} is {type(words).__name__}, not a JSON object")
        self._words: dict[str, Any] = words
        self.where = where

    def _wrong(self, name: str, expected: str) -> MalformedReport:
        found = repr(self._words[name])[:60] if name in self._words else "absent"
        return MalformedReport(f"{self.where}: {name} is {found}; expected {expected}")

    def integer(self, name: str, *, least: int = -_INT64_MAX, most: int = _INT64_MAX, default: int | None = None) -> int:
        value: Any = self._words.get(name, default)
        if not _is_integer(value, least, most):
            raise self._wrong(name, f"a whole number from {least} to {most}")
        return int(value)

    def count(self, name: str, *, default: int | None = None) -> int:
        return self.integer(name, least=0, most=_MOST_COUNT, default=default)

    def optional_integer(self, name: str) -> int | None:
        return None if self._words.get(name) is None else self.integer(name)

    def text(self, name: str) -> str:
        value = self._words.get(name)
        if not isinstance(value, str) or not 0 < len(value) <= _MAX_TEXT or not value.isprintable():
            raise self._wrong(name, f"printable text of 1 to {_MAX_TEXT} characters")
        return value

    def _list(self, name: str, most: int) -> list[Any]:
        value = self._words.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise self._wrong(name, f"a list of at most {most}")
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        values = self._list(name, 10_000)
        if not all(_is_integer(value, -1) for value in values):
            raise self._wrong(name, "a list of whole numbers")
        return tuple(values)

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._list(name, 10_000)
        if not all(isinstance(value, str) and 0 < len(value) <= _MAX_TEXT and value.isprintable() for value in values):
            raise self._wrong(name, "a list of printable texts")
        return tuple(values)

    def objects(self, name: str, *, most: int) -> "list[_Fields]":
        return [_Fields(value, f"{self.where}.{name}[{index}]") for index, value in enumerate(self._list(name, most))]

    def mapping(self, name: str) -> Mapping[str, Any]:
        value = self._words.get(name)
        if not isinstance(value, dict):
            raise self._wrong(name, "a JSON object")
        return value

    def counts_by_integer(self, name: str) -> dict[int, int]:
        counts = {_whole(key, f"{self.where}.{name}"): count for key, count in self.mapping(name).items()}
        if not all(_is_integer(count, 0, _MOST_COUNT) for count in counts.values()) or any(
            not 0 <= key <= _MOST_PARTITION for key in counts
        ):
            raise self._wrong(name, "partition → count, whole numbers from 0")
        return counts

    def counts_by_name(self, name: str) -> dict[str, int]:
        counts = dict(self.mapping(name)) if name in self._words else {}
        if not all(_LOSS.fullmatch(key) and _is_integer(count, 0, _MOST_COUNT) for key, count in counts.items()):
            raise self._wrong(name, "name of a loss (a-z_) → count, whole numbers from 0")
        return counts


def _is_integer(value: Any, least: int, most: int = _INT64_MAX) -> bool:
    # bool is an int to Python, not to a reader of counts
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
