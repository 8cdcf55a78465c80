"""The door to the audit topic: what a reporter needs of a producer, and how a report goes through it."""

from collections.abc import Sequence
from typing import Protocol

from ...runtime.clock import Clock
from ...runtime.layout import AUDIT_TOPIC
from ..model.codec import encode
from ..model.errors import AuditError
from ..model.messages import RangeReport, Report
from ..model.tiers import PRODUCER


class ReportSender(Protocol):
    """The two methods of `client.Producer` that reporters use."""

    def send(self, topic: str, value: bytes, *, key: bytes | None = None, timestamp_ms: int) -> object: ...

    def flush(self, timeout_ms: int, /) -> object:
        """Return (not False) once everything sent is acknowledged; raise or return False when it is not in time."""
        ...


class ReportNotSent(AuditError):
    """A report did not reach the audit topic. The counts are kept and go out with the next one."""

    retriable = True


def send_and_flush(sender: ReportSender, clock: Clock, reports: Sequence[Report], timeout_ms: int) -> None:
    """Return once all `reports` are on the audit topic, in order. Raises ReportNotSent with the cause."""
    who = ""
    try:
        for report in reports:
            tier = report.tier if isinstance(report, RangeReport) else PRODUCER
            who = f"{tier} {report.instance}"
            sender.send(AUDIT_TOPIC, encode(report), key=tier.encode(), timestamp_ms=clock.now_ms())
        arrived = sender.flush(timeout_ms)
    except Exception as error:  # whatever a sender raises, the counts must survive it
        raise ReportNotSent(
            f"reporting to {AUDIT_TOPIC} by {who}: {error}: counts are kept, the next report repeats them"
        ) from error
    if arrived is False:
        raise ReportNotSent(
            f"reporting to {AUDIT_TOPIC} by {who}: not acknowledged within {timeout_ms} ms: the next report repeats them"
        )
