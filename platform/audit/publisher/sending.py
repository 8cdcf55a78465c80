"""The door to the audit topic: what a reporter needs of a producer, and how a report goes through it."""

from collections.abc import Sequence
from typing import Protocol

from ...runtime.clock import Clock
from ...runtime.layout import AUDIT_TOPIC
from ..model.codec import encode
from ..model.errors import AuditError
from ..model.messages import KnownDifference, PublishedHour, RangeReport, Report, TierChange
from ..model.tiers import MAIN, PRODUCER


class ReportSender(Protocol):
    """The two methods of `client.Producer` that reporters use."""

    def send(self, topic: str, value: bytes, *, key: bytes | None = None, timestamp_ms: int) -> object: ...

    def flush(self, timeout_ms: int, /) -> object:
        """Return (not False) once everything sent is acknowledged; raise or return False when it is not in time."""
        ...


class ReportNotSent(AuditError):
    """A report did not reach the audit topic. What it says is kept and said again."""

    retriable = True


def send_and_flush(sender: ReportSender, clock: Clock, reports: Sequence[Report], timeout_ms: int) -> None:
    """Return once all `reports` are on the audit topic, in order. Raises ReportNotSent with the cause."""
    who = ""
    try:
        for report in reports:
            tier = report.tier if isinstance(report, RangeReport | KnownDifference | TierChange) else PRODUCER
            tier = MAIN if isinstance(report, PublishedHour) else tier
            who = f"{tier} {report.by if isinstance(report, KnownDifference | TierChange) else report.instance}"
            sender.send(AUDIT_TOPIC, encode(report), key=tier.encode(), timestamp_ms=clock.now_ms())
        arrived = sender.flush(timeout_ms)
    except Exception as error:  # whatever a sender raises, what was to be said must survive it
        raise ReportNotSent(f"reporting to {AUDIT_TOPIC} by {who}: {error}: what it says is kept and said again") from error
    if arrived is False:
        raise ReportNotSent(
            f"reporting to {AUDIT_TOPIC} by {who}: not acknowledged within {timeout_ms} ms: what it says is kept and said again"
        )
