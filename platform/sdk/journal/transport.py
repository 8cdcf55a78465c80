"""The application's side of a journal: events go into mapped files, and never to the network.

An event is taken when its record is in the mapping: a kill of the process does not lose it. No lock is taken per event.
Where one is needed (a segment is full), a signal handler or `__del__` that interrupts its holder finds the journal full then.
A child of a fork never writes here.
"""

import mmap
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ...audit.model.messages import DROPPED_JOURNAL_FULL
from ...audit.model.windows import window_start_ms
from ...runtime.clock import Clock
from ...runtime.logs import get_library_logger
from ...wire.quarantine_record import QuarantineRecord
from ..errors import LoggerClosed, LoggerForked
from ..transport import Ledger, LoggerRun
from .doorbell import Doorbell
from .enrolment import enrolled_topics, is_announced
from .errors import JournalNotDurable
from .files.folder import NewJournal, make_journal
from .files.layout import Kind, size_of
from .files.segment_writer import Numbers, SegmentWriter
from .group_sync import GroupSync
from .room import REFUSED_BY_SCHEMA, Room, check_first
from .settings import JournalSettings

log = get_library_logger(__name__)

TOO_LARGE = "dropped_too_large"
RETRY_MS = 20
"""How long a full journal stays full without a look at the disk."""
_TELL_EVERY_MS = 60_000


class JournalTransport:
    """The transport of a logger with a journal. `start` before the first use."""

    def __init__(self, run: LoggerRun, settings: JournalSettings, clock: Clock) -> None:
        """Raises `JournalRefused` for settings that cannot be."""
        settings.check()
        self._run = run
        self._settings = settings
        self._clock = clock
        self._made_in = os.getpid()
        self._numbers = Numbers()
        self._quarantined = Numbers()
        self._given_up: Counter[Kind] = Counter()
        self._rolling = threading.RLock()
        self._is_closed = False
        self._is_close_wanted = False
        self._is_announced = False
        self._retry_at_ms = -RETRY_MS
        self._tell_at_ms = -_TELL_EVERY_MS
        self._journal: NewJournal
        self._room: Room
        self._sync: GroupSync
        self._segment: SegmentWriter
        self._doorbell: Doorbell
        self._is_armed: mmap.mmap | bytearray
        self._durable: GroupSync | None = None

    def start(self) -> None:
        """Make the journal. Raises `JournalRefused`: no folder, no rights, no room, the root's quota used up."""
        run, settings = self._run, self._settings
        check_first(settings.root, settings.segment_bytes, settings.root_quota_bytes)
        self._journal, self._segment = journal, first = make_journal(
            settings.root,
            topic=run.topic,
            schema=run.schema,
            application=run.application,
            instance=run.instance,
            server_name=run.server_name,
            now_ms=self._clock.now_ms(),
            lateness_ms=run.lateness_ms,
            only_between_ms=run.only_between_ms,
            segment_bytes=settings.segment_bytes,
            is_durable=settings.is_durable,
            numbers=self._numbers,
        )
        self._room = Room(
            journal.folder,
            settings.root,
            journal.head,
            quota_bytes=settings.quota_bytes,
            root_quota_bytes=settings.root_quota_bytes,
            window_ms=run.window_ms,
        )
        self._doorbell = Doorbell(settings.root)
        self._is_armed = self._doorbell.is_armed
        self._sync = GroupSync(journal.folder, first)
        self._durable = self._sync if settings.is_durable else None
        _forget_in_children(self)
        if not enrolled_topics(settings.root):
            log.warning(
                "journal_without_agent",
                root=str(settings.root),
                advice="events stay there until `headrace agent run` ships them; until then the audit does not know of them",
            )

    def start_without_waiting(self) -> None:
        """As `start`: a journal waits for no network."""
        self.start()

    @property
    def folder(self) -> Path:
        """Where the journal stands."""
        return self._journal.folder

    @property
    def is_announced(self) -> bool:
        """Return whether the audit knows this journal, or waits for the agent that will report it."""
        if not self._is_announced:
            self._is_announced = is_announced(self._settings.root, self._journal.folder, self._run.topic)
        return self._is_announced

    @property
    def take_may_block(self) -> bool:
        return self._durable is not None or self._settings.when_full == "block"

    def has_room(self, size_bytes: int) -> bool:
        """Return True: a journal without room drops or waits as its settings say."""
        return True

    def must_wait(self, timestamp_ms: int) -> bool:
        return False

    def take(self, body: bytes, timestamp_ms: int, key: bytes | None, max_block_ms: int) -> str | None:
        """Return None once the event is in the journal, else the name of the loss that was counted. Hot.

        Raises `JournalNotDurable`, only with `is_durable`: whether a power cut would lose the event is not known.
        """
        segment = self._segment
        if not segment.append(1, timestamp_ms, key, body):
            return self._append_elsewhere(segment, Kind.EVENT, timestamp_ms, key, body, max_block_ms)
        if self._is_armed[0]:
            self._doorbell.ring()
        if self._durable is not None:
            self._make_durable(segment.segment)
        return None

    def take_many(self, records: Sequence[tuple[bytes, int, bytes | None]]) -> int:
        """Return how many of the first (body, timestamp in ms, key) are in the journal; the others found no room.

        Counts no loss and does not wait: who hands them over still has them. `is_durable`: one flush of the disk for all; raises
        `JournalNotDurable` as `take`.
        """
        taken = 0
        for body, timestamp_ms, key in records:
            segment = self._segment
            if not segment.append(1, timestamp_ms, key, body):
                self._check_usable()
                if size_of(key, body) > self._settings.largest_record_bytes:
                    break
                if self._append_to_next(segment, Kind.EVENT, timestamp_ms, key, body) is None:
                    break
            taken += 1
        if taken and self._is_armed[0]:
            self._doorbell.ring()
        if taken and self._durable is not None:
            self._make_durable(self._segment.segment)
        return taken

    def quarantine(self, record: QuarantineRecord, *, max_block_ms: int) -> None:
        """Take a refused event; without room it is counted as `refused_by_schema`, in its window."""
        body, at_ms = record.to_json(), record.window_start_ms
        segment = self._segment
        if segment.append(Kind.QUARANTINE, at_ms, record.key(), body):
            if self._is_armed[0]:
                self._doorbell.ring()
            if self._durable is not None:
                self._make_durable(segment.segment)
        elif self._append_elsewhere(segment, Kind.QUARANTINE, at_ms, record.key(), body, max_block_ms) is not None:
            return
        self._quarantined.take()

    def lost(self, window_start_ms: int, name: str, count: int = 1) -> None:
        """Count events that were refused to the caller."""
        self._check_usable()
        self._journal.losses.add(window_start_ms, name, count)

    def flush(self, timeout_ms: int) -> None:
        """Return once everything taken before is on the disk; a disk cannot be hurried, so `timeout_ms` has no effect.

        Raises `JournalNotDurable`.
        """
        self._check_usable()
        self._make_durable(self._segment.segment)

    def close(self, timeout_ms: int) -> None:
        """End the journal and make it durable. Raises `JournalNotDurable`. A second call does nothing."""
        if self._made_in != os.getpid():
            return
        if self._rolling._is_owned():  # type: ignore[attr-defined]
            # A signal handler closes while its own thread is changing segments: that thread closes when it is done.
            self._is_close_wanted = True
            return
        with self._rolling:
            if self._is_closed:
                return
            self._is_closed = True
            try:
                self._end_journal()
                self._make_durable(self._segment.segment)
                self._sync.flush_losses()
            except OSError as error:
                raise JournalNotDurable(
                    f"{self._journal.folder} is closed, and perhaps not on the disk: {error.strerror}"
                ) from error
            finally:
                os.close(self._journal.lock)

    def is_inside(self) -> bool:
        return bool(self._rolling._is_owned())  # type: ignore[attr-defined]

    def abandon_after_fork(self) -> None:
        """Let go of the parent's journal, without a lock: another thread of the parent may have held it."""
        if self._made_in == os.getpid() or self._is_closed:
            return
        self._is_closed = True
        self._segment = _Abandoned(self._made_in)
        os.close(self._journal.lock)

    def ledger(self) -> Ledger:
        """Return what became of the events so far; exact when no other thread is logging."""
        dropped = Counter(self._journal.losses.by_name())
        for (_, name), count in self._room.dropped.losses.items():
            dropped[name] += count
        quarantined = self._quarantined.given
        taken = self._numbers.given - quarantined - self._given_up[Kind.EVENT]
        return Ledger(
            taken=taken,
            acknowledged=0,
            journaled=taken,
            quarantined=quarantined - self._given_up[Kind.QUARANTINE],
            dropped=dict(dropped),
        )

    def _append_elsewhere(
        self, full: SegmentWriter, kind: Kind, timestamp_ms: int, key: bytes | None, body: bytes, max_block_ms: int
    ) -> str | None:
        """The segment has no room for this record: append it to the next one, or count it as a loss."""
        self._check_usable()
        name = TOO_LARGE
        if size_of(key, body) <= self._settings.largest_record_bytes:
            name = DROPPED_JOURNAL_FULL
            deadline_ms = self._clock.monotonic_ms() + (max_block_ms if self._settings.when_full == "block" else 0)
            while True:
                if (found := self._append_to_next(full, kind, timestamp_ms, key, body)) is not None:
                    if self._durable is not None:
                        self._make_durable(found.segment)
                    return None
                full = self._segment
                self._check_usable()
                left_ms = deadline_ms - self._clock.monotonic_ms()
                if left_ms <= 0 or self._rolling._is_owned():  # type: ignore[attr-defined]
                    break
                time.sleep(min(left_ms, RETRY_MS) / 1_000)
        if kind == Kind.QUARANTINE:
            name = REFUSED_BY_SCHEMA
        self._journal.losses.add(window_start_ms(timestamp_ms, self._run.window_ms), name)
        self._tell(name)
        return name

    def _append_to_next(
        self, full: SegmentWriter, kind: Kind, timestamp_ms: int, key: bytes | None, body: bytes
    ) -> SegmentWriter | None:
        """Return the segment behind `full` in which the record stands now; None: there is no room for another segment."""
        while self._roll(full):
            full = self._segment
            if full.append(kind, timestamp_ms, key, body):
                if self._is_armed[0]:
                    self._doorbell.ring()
                return full
        return None

    def _roll(self, full: SegmentWriter) -> bool:
        """Return whether another segment than `full` is in use; make it, if there is room."""
        if self._rolling._is_owned():  # type: ignore[attr-defined]
            return False  # This call interrupted its own thread in here.
        try:
            with self._rolling:
                if self._segment is not full:
                    return True
                now_ms = self._clock.monotonic_ms()
                if self._is_closed or now_ms < self._retry_at_ms:
                    return False
                try:
                    if self._make_room(full.segment):
                        self._begin_segment(full, Kind.END_OF_SEGMENT)
                        return True
                except OSError as error:
                    log.debug("journal_segment_not_made", folder=str(self._journal.folder), reason=str(error))
                self._retry_at_ms = now_ms + RETRY_MS
                return False
        finally:
            if self._is_close_wanted:
                self._is_close_wanted = False
                self.close(0)

    def _make_room(self, current: int) -> bool:
        while not self._room.has_room():
            kinds = self._room.give_up_oldest(current) if self._settings.when_full == "drop_oldest" else None
            if kinds is None:
                return False
            self._given_up += kinds
        return True

    def _begin_segment(self, full: SegmentWriter, kind: Kind) -> None:
        head = self._journal.head
        following = SegmentWriter(self._journal.folder, head.id_bytes, full.segment + 1, head.segment_bytes, self._numbers)
        # Only now: until here, smaller records may still find room in the old one.
        full.fill(kind)
        self._segment = following

    def _end_journal(self) -> None:
        if not self._segment.fill(Kind.END_OF_JOURNAL):
            # No room for the mark. Without one the journal ends with the writer's lock.
            self._begin_segment(self._segment, Kind.END_OF_SEGMENT)
            self._segment.fill(Kind.END_OF_JOURNAL)

    def _make_durable(self, written: int) -> None:
        try:
            self._sync.flush(written, lambda: self._segment)
        except OSError as error:
            if not self._is_closed and (segment := self._segment).segment < self._sync.failed_below:
                self._roll(segment)
            raise JournalNotDurable(
                f"{self._journal.folder} could not be written to the disk ({error.strerror}): its last events are in the "
                "journal, but a power cut may lose them. Look at the disk"
            ) from error

    def _check_usable(self) -> None:
        if self._made_in != os.getpid():
            raise LoggerForked(self._made_in, os.getpid())
        if self._is_closed:
            raise LoggerClosed(f"this EventLogger of {self._run.topic!r} is closed: make a new one")

    def _tell(self, name: str) -> None:
        """Warn of drops, once in a while; each is counted in the table."""
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._tell_at_ms:
            self._tell_at_ms = now_ms + _TELL_EVERY_MS
            log.warning("journal_drops", folder=str(self._journal.folder), name=name, dropped=self._journal.losses.by_name())


class _Abandoned(SegmentWriter):
    """What a forked child has in the place of its parent's segment."""

    def __init__(self, made_in: int) -> None:
        self._made_in = made_in

    def append(self, kind: int, timestamp_ms: int, key: bytes | None, body: bytes) -> NoReturn:
        raise LoggerForked(self._made_in, os.getpid())


_open: "weakref.WeakSet[JournalTransport]" = weakref.WeakSet()
_is_hooked = False


def _forget_in_children(transport: JournalTransport) -> None:
    """See to it that no child of a fork writes this journal. The hook is set by the first journal, not by an import."""
    global _is_hooked
    _open.add(transport)
    if not _is_hooked:
        _is_hooked = True
        os.register_at_fork(after_in_child=_abandon_all)


def _abandon_all() -> None:
    for transport in list(_open):
        transport.abandon_after_fork()
