"""What a publish asks the audit service, and how."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ...audit.client import ServiceRefused, ServiceUnreachable, completeness, sequences
from ..errors import AuditUnreachable
from .gate import HOUR_MS, AuditedWindow

ASK_TIMEOUT_MS = 20_000

Ask = Callable[[str], Sequence[AuditedWindow]]
"""Returns the audit's windows of a topic. Raises AuditUnreachable."""
AskDays = Callable[[str], Collection[int]]
"""Returns the hours of which the audit has added windows to their days. Raises AuditUnreachable."""
AskSequences = Callable[[str, int], Mapping[int, Mapping[str, Any]]]
"""Returns window start → the sequence numbers that producers named, for an hour of a topic. Raises AuditUnreachable."""


def ask_audit(url: str) -> Ask:
    """Return a function that asks the audit service at `url` for a topic's windows."""

    def ask(topic: str) -> Sequence[AuditedWindow]:
        try:
            return [AuditedWindow.of(one) for one in completeness(url, topic, timeout_ms=ASK_TIMEOUT_MS)]
        except (ServiceUnreachable, ServiceRefused) as error:
            raise AuditUnreachable(str(error)) from error

    return ask


def ask_days_of_audit(url: str) -> AskDays:
    """Return a function that asks the audit service at `url` for the hours of windows that it has added to their days."""

    def ask(topic: str) -> Collection[int]:
        try:
            days = completeness(url, topic, by="day", timeout_ms=ASK_TIMEOUT_MS)
            return {(day["window_start_ms"] + offset) // HOUR_MS for day in days for offset in day["offsets"]}
        except (ServiceUnreachable, ServiceRefused, KeyError, TypeError) as error:
            raise AuditUnreachable(f"cannot read the audit's days of {topic}: {error}") from error

    return ask


def ask_for_sequences(url: str) -> AskSequences:
    """Return a function that asks the audit service at `url` for what producers sent in an hour."""

    def ask(topic: str, hour: int) -> Mapping[int, Mapping[str, Any]]:
        begin = hour * HOUR_MS
        try:
            found = sequences(url, topic, from_ms=begin, to_ms=begin + HOUR_MS, timeout_ms=ASK_TIMEOUT_MS)
        except (ServiceUnreachable, ServiceRefused) as error:
            raise AuditUnreachable(str(error)) from error
        return {one["window_start_ms"]: {"ranges": one["ranges"], "more": one["more"]} for one in found}

    return ask
