"""The journal that a receiver writes: what is in it survives a kill of the agent, which ships it like any application's.

A run of the agent is a run of its own in the audit. Any thread may write.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...audit.model.windows import window_start_ms
from ...runtime.clock import Clock
from ...sdk.encoding.event_encoder import EventEncoder
from ...sdk.journal import JournalSettings, JournalTransport
from ...sdk.transport import Ledger, LoggerRun
from ...wire.quarantine_record import Origin, ProcessOrigin, QuarantineRecord, head_of

ROOT = "received"
"""In the state's folder: the journals of receivers."""
Taken = tuple[bytes, int, bytes | None]
"""Avro body, event time in ms, key."""
DROPPED_AT_SOCKET = "dropped_buffer_full"
"""The loss of datagrams that the kernel dropped, because the socket was not read fast enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxSettings:
    """Where a receiver's events stand, and how they are named."""

    root: Path
    topic: str
    application: str
    host: str
    name: str
    """Of agent and section."""
    lateness_ms: int = 60_000
    quota_bytes: int = 256 << 20
    is_durable: bool = False


class Inbox:
    """One journal; `open` before the first use."""

    def __init__(self, settings: InboxSettings, encoder: EventEncoder, clock: Clock) -> None:
        self.settings = settings
        self.encoder = encoder
        self._clock = clock
        self._instance = f"{settings.host}/{settings.application}/{settings.name}-{uuid.uuid4().hex[:12]}"
        self._refusals = 0
        segment_bytes = min(8 << 20, settings.quota_bytes // 2 // 4096 * 4096)
        self._transport = JournalTransport(
            LoggerRun(
                topic=settings.topic,
                schema=encoder.text,
                record_name=encoder.record_name,
                application=settings.application,
                instance=self._instance,
                server_name=settings.host,
                lateness_ms=settings.lateness_ms,
            ),
            JournalSettings(
                root=settings.root,
                segment_bytes=segment_bytes,
                quota_bytes=settings.quota_bytes,
                root_quota_bytes=max(4 << 30, settings.quota_bytes),
                is_durable=settings.is_durable,
            ),
            clock,
        )

    def open(self) -> None:
        """Make the journal. Raises JournalRefused."""
        self._transport.start()

    def take(self, records: Sequence[Taken]) -> int:
        """Return how many of the first records are journaled (on the disk, if `is_durable`); for the others there is no room.

        Raises JournalNotDurable.
        """
        return self._transport.take_many(records)

    def take_or_lose(self, records: Sequence[Taken]) -> int:
        """As `take`; what finds no room is counted as lost."""
        taken = self.take(records)
        for body, timestamp_ms, key in records[taken:]:
            if self._transport.take(body, timestamp_ms, key, 0) is None:
                taken += 1
        return taken

    def quarantine(self, payload: bytes, *, code: str, reason: str, origin: Origin | None = None) -> None:
        """Put aside what can be no event; without room it is counted as a loss. Its window is that of its arrival."""
        now_ms = self._clock.now_ms()
        self._refusals += 1
        record = QuarantineRecord(
            topic=self.settings.topic,
            stage="agent",
            code=code,
            reason=reason,
            origin=origin or ProcessOrigin(instance=self._instance, sequence=self._refusals),
            window_start_ms=window_start_ms(now_ms),
            window_from="clock",
            at_ms=now_ms,
            payload=head_of(payload),
        )
        self._transport.quarantine(record, max_block_ms=0)

    def lost(self, name: str, count: int) -> None:
        """Count what was lost before it could be journaled, in the window of now."""
        if count > 0:
            self._transport.lost(window_start_ms(self._clock.now_ms()), name, count)

    def ledger(self) -> Ledger:
        return self._transport.ledger()

    def close(self) -> None:
        """End the journal and make it durable. Raises JournalNotDurable."""
        self._transport.close(0)
