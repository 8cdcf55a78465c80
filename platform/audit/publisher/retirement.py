"""Telling the audit that a producer is gone permanently: an operator's word, on the audit topic with all other words."""

from collections.abc import Iterable

from ...runtime.clock import Clock, SystemClock
from ..model.codec import decode, encode
from ..model.messages import Retirement
from .sending import ReportSender, send_and_flush


def retire(
    sender: ReportSender,
    instance: str,
    epochs: Iterable[int],
    *,
    by: str,
    reason: str,
    timeout_ms: int = 30_000,
    clock: Clock | None = None,
) -> None:
    """Return once the audit topic holds that these runs of `instance` will say nothing more.

    Raises MalformedReport for words that the audit would not read, ReportNotSent.
    """
    clock = clock or SystemClock()
    now_ms = clock.now_ms()
    told = [Retirement(instance=instance, epoch=epoch, at_ms=now_ms, by=by, reason=reason) for epoch in epochs]
    for one in told:
        decode(encode(one))
    send_and_flush(sender, clock, told, timeout_ms)
