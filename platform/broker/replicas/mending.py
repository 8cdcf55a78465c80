"""Repairs this broker's damaged replicas from the others, and answers what others ask about damage.

Damage is known from the start's checks, from a read, or from a comparison. A leader that has damage asks an undamaged member to
lead, then repairs. One repair at a time, one batch or 1 MiB: so memory is bounded. Lives on the loop thread; a worker writes.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ...runtime.logs import get_logger
from ...runtime.rate_limited_log import RateLimitedLog
from ..event_loop.deferred_response import DeferredResponse
from ..event_loop.loop import Loop
from ..log import BadRange, LogError, PartitionLog, RangeDigest, RepairJob, RepairRefused, digest_of
from . import scrub_messages
from .asking import Peers
from .damage_book import DamageBook, Repair
from .driver import ReplicaDriver
from .messages import Key
from .replicas import Replicas
from .scrub_messages import COMPARE_KEY, READ_KEY, Compare, Kind, Read, State

log = get_logger(__name__)

LOOK_EVERY_MS = 250
READ_BYTES = 1 << 20
"""Of one repair: at least one batch."""
MOST_ANSWER_BYTES = 128 << 20
"""As large as a batch may be between replicas."""
PAUSE_MS = 5_000
"""After no other replica could give a range."""
LEAD_MS = 10_000
"""How long a damaged leader waits for another one to lead, before it repairs its own log while it leads."""
RECENT_MS = 10_000
"""What a comparison says of a range that was repaired so short a time ago is not believed."""
ASK_AGAIN_MS = 1_000
ANSWER_MS = 10_000


@dataclass(slots=True)
class _Patience:
    """Of one replica."""

    leading_since_ms: int = -1
    asked_to_lead_ms: int = -ASK_AGAIN_MS
    next_try_ms: int = 0


class Mending:
    """See the module."""

    def __init__(self, loop: Loop, replicas: Replicas, peers: Peers, book: DamageBook) -> None:
        self._loop, self._replicas, self._peers, self._book = loop, replicas, peers, book
        self._patience: dict[Key, _Patience] = {}
        self._is_repairing = False
        self._faults = RateLimitedLog(log, lambda: loop.now_ms)

    def start(self) -> None:
        self._look()

    def found(self, driver: ReplicaDriver, wrong: tuple[BadRange, ...]) -> None:
        """Serve these ranges of this broker's replica no more."""
        comparable = driver.comparable_log
        if comparable is None:
            return
        for bad in wrong:
            # A digest may be older than the repair of what it found. If the range is still wrong, the next round says so.
            if not self._book.has_repaired(driver.topic, driver.index, bad, self._replicas.wall_ms - RECENT_MS):
                comparable.comparison.note_bad(bad)
        driver.damage_noted()
        self._see(driver, comparable)

    def _look(self) -> None:
        """Note the damage that is known now, and repair the next one that can be."""
        self._loop.call_at(self._loop.now_ms + LOOK_EVERY_MS, self._look)
        damaged = [driver for driver in self._replicas.drivers() if driver.is_damaged]
        if not damaged and not self._patience:
            return  # nearly always
        keys = {driver.key for driver in damaged}
        for key in self._patience.keys() - keys:
            del self._patience[key]
            driver = self._replicas.find(key)
            comparable = None if driver is None else driver.comparable_log
            if driver is None or comparable is None:
                self._book.forget(key)
            else:
                self._see(driver, comparable)
        for driver in damaged:
            comparable = driver.comparable_log
            if comparable is None:
                continue
            self._see(driver, comparable)
            patience = self._patience.setdefault(driver.key, _Patience())
            if self._is_repairing or comparable.failure is not None or self._loop.now_ms < patience.next_try_ms:
                continue
            bad_ranges = comparable.bad_ranges
            if bad_ranges and not self._is_handing_over(driver, patience):
                self._repair(driver, comparable, bad_ranges[0])

    def _see(self, driver: ReplicaDriver, comparable: PartitionLog) -> None:
        for bad in self._book.saw(driver.key, driver.topic, comparable.bad_ranges, self._replicas.wall_ms):
            log.error(
                "replica_range_damaged",
                topic=driver.topic,
                partition=driver.index,
                from_offset=bad.from_offset,
                to_offset=bad.to_offset,
                why=bad.reason,
            )

    # -- another leader ----------------------------------------------------------------------------

    def _is_handing_over(self, driver: ReplicaDriver, patience: _Patience) -> bool:
        """Ask an undamaged member to lead, and return whether to wait for it."""
        if not driver.leads:
            patience.leading_since_ms = -1
            return False
        now_ms = self._loop.now_ms
        if patience.leading_since_ms < 0:
            patience.leading_since_ms = now_ms
        heirs = driver.undamaged_members()
        if not heirs or now_ms - patience.leading_since_ms >= LEAD_MS:
            return False
        if now_ms - patience.asked_to_lead_ms >= ASK_AGAIN_MS:
            patience.asked_to_lead_ms = now_ms
            node = driver.node
            asked = Compare(Kind.LEAD, driver.key, 0 if node is None else node.leader_epoch, 0, 0)
            heir = heirs[(now_ms - patience.leading_since_ms) // ASK_AGAIN_MS % len(heirs)]
            log.info("damaged_leader_hands_over", topic=driver.topic, partition=driver.index, to_broker=heir)
            self._peers.ask(heir, COMPARE_KEY, scrub_messages.encode_compare(asked), lambda _: None, lambda _: None)
        return True

    # -- repairing ---------------------------------------------------------------------------------

    def _repair(self, driver: ReplicaDriver, comparable: PartitionLog, bad: BadRange) -> None:
        node, own = driver.node, self._replicas.broker_id
        if node is None:
            return
        members = [one.broker_id for one in node.members if one.broker_id != own]
        sources = sorted(members, key=lambda one: one != node.leader)
        self._is_repairing = True
        self._ask_next(driver, comparable, bad, sources, "no other replica is in sync")

    def _ask_next(self, driver: ReplicaDriver, comparable: PartitionLog, bad: BadRange, sources: list[int], why: str) -> None:
        if not sources or driver.comparable_log is not comparable:
            self._put_off(driver, bad, why)
            return
        source, rest = sources[0], sources[1:]

        def next_one(error: Exception) -> None:
            self._ask_next(driver, comparable, bad, rest, f"broker {source}: {error}")

        def answered(data: bytes) -> None:
            if driver.comparable_log is not comparable:
                self._is_repairing = False
                return
            aside = comparable.folder.with_name(f"{comparable.folder.name}.damaged.{self._replicas.wall_ms}")
            try:
                if not data:
                    raise RepairRefused("it does not have this range whole")
                job = comparable.comparison.repair_job(bad, memoryview(data), aside)
            except (RepairRefused, LogError) as error:
                next_one(error)
                return
            self._write(driver, comparable, job, source, next_one)

        # What was deleted needs no repair, and the others may not have it any more.
        from_offset = max(bad.from_offset, comparable.log_start_offset)
        body = scrub_messages.encode_read(Read(driver.key, from_offset, bad.to_offset))
        self._peers.ask(source, READ_KEY, body, answered, next_one, most_bytes=MOST_ANSWER_BYTES)

    def _write(
        self,
        driver: ReplicaDriver,
        comparable: PartitionLog,
        job: RepairJob,
        source: int,
        next_one: Callable[[Exception], None],
    ) -> None:
        def run() -> None:
            if not driver.is_log(comparable):
                raise OSError(0, "the log was cut meanwhile")
            job.run()

        def done(_: None) -> None:
            self._is_repairing = False
            if driver.comparable_log is not comparable:
                return
            made = job.done()
            self._book.repaired(
                Repair(driver.topic, driver.index, made.from_offset, made.to_offset, made.record_count, self._replicas.wall_ms)
            )
            log.warning(
                "replica_repaired",
                topic=driver.topic,
                partition=driver.index,
                from_offset=made.from_offset,
                to_offset=made.to_offset,
                records=made.record_count,
                from_broker=source,
                damaged_bytes_in=job.work.aside.name,
            )
            driver.damage_repaired()

        def failed(error: Exception) -> None:
            next_one(job.failed(error))

        if not self._replicas.behind_upkeep(run, done, failed):
            failed(OSError("too much waits for the disk already"))

    def _put_off(self, driver: ReplicaDriver, bad: BadRange, why: str) -> None:
        self._is_repairing = False
        patience = self._patience.get(driver.key)
        if patience is not None:
            patience.next_try_ms = self._loop.now_ms + PAUSE_MS
        self._faults.error(
            "replica_not_repaired",
            topic=driver.topic,
            partition=driver.index,
            from_offset=bad.from_offset,
            to_offset=bad.to_offset,
            why=why,
        )

    # -- what others ask ---------------------------------------------------------------------------

    def compare(self, body: memoryview) -> bytes | DeferredResponse:
        """Answer a leader's comparison, or obey it. Raises MalformedFrame."""
        asked = scrub_messages.decode_compare(body)
        driver = self._replicas.find(asked.key)
        comparable = None if driver is None else driver.comparable_log
        node = None if driver is None else driver.node
        if driver is None or comparable is None or node is None or driver.leads or node.leader_epoch != asked.leader_epoch:
            return scrub_messages.encode_state(State.NOT_HERE)
        if asked.kind is Kind.LEAD:
            is_led = not driver.is_damaged and self._replicas.take_over(asked.key, asked.leader_epoch)
            return scrub_messages.encode_state(State.SAME if is_led else State.NOT_HERE)
        if asked.kind is Kind.DAMAGED:
            self.found(driver, (BadRange(asked.from_offset, asked.to_offset, asked.reason),))
            return scrub_messages.encode_state(State.SAME)
        return self._digest(comparable, asked)

    def _digest(self, comparable: PartitionLog, asked: Compare) -> bytes | DeferredResponse:
        not_here = scrub_messages.encode_state(State.NOT_HERE)
        try:
            parts = comparable.comparison.parts(asked.from_offset, asked.to_offset)
        except OSError:
            parts = None
        if parts is None:
            return not_here
        later = DeferredResponse(deadline_ms=self._loop.now_ms + ANSWER_MS, at_deadline=lambda: (not_here,))

        def done(digest: RangeDigest) -> None:
            is_same = not digest.damaged and digest.sum == asked.sum
            later.complete((scrub_messages.encode_state(State.SAME) if is_same else scrub_messages.encode_digest(digest),))

        if not self._replicas.behind_upkeep(lambda: digest_of(parts), done, lambda _: later.complete((not_here,))):
            return not_here
        return later

    def read(self, body: memoryview) -> bytes | DeferredResponse:
        """Give a damaged replica whole batches below the high watermark. Raises MalformedFrame."""
        asked = scrub_messages.decode_read(body)
        driver = self._replicas.find(asked.key)
        comparable = None if driver is None else driver.comparable_log
        if driver is None or comparable is None:
            return b""
        up_to = min(driver.machine.high_watermark, comparable.log_end_offset)
        try:
            region = comparable.read(asked.from_offset, READ_BYTES, up_to)
        except LogError:
            return b""
        if region is None:
            return b""
        later = DeferredResponse(deadline_ms=self._loop.now_ms + ANSWER_MS, at_deadline=lambda: (b"",))
        if not self._replicas.behind_upkeep(region.read, lambda data: later.complete((data,)), lambda _: later.complete((b"",))):
            return b""
        return later
