"""Compares the replicas of the partitions that this broker leads, in the background, batch by batch.

Closed segments below the high watermark only: their bytes never change. One range at a time, of all partitions one after another,
so memory is bounded by one range of each replica and the disk by `bytes_per_second`. Lives on the loop thread; a worker reads.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ...runtime.logs import get_logger
from ...runtime.rate_limited_log import RateLimitedLog
from ...wire.errors import MalformedFrame
from ..event_loop.loop import Loop
from ..log import BadRange, RangeDigest, digest_of
from . import scrub_messages
from .asking import Peers
from .damage_book import DamageBook
from .driver import ReplicaDriver
from .messages import Key
from .replicas import Replicas
from .scrub_messages import COMPARE_KEY, Compare, Kind, State
from .scrub_vote import judge

log = get_logger(__name__)

RANGE_BYTES = 1 << 20
"""Offsets that are compared at once, about; at least one batch."""
FIRST_ROUND_MS = 600_000
"""The first round begins so long after the start, or sooner where the interval is shorter."""
PARTITIONS_A_TURN = 200
ANSWER_MS = 5_000
AGAIN_MS = 100
"""After the worker had no room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubSettings:
    """`log.scrub.interval.ms` and `log.scrub.bytes.per.second`; an interval of 0: replicas are not compared."""

    interval_ms: int
    bytes_per_second: int


class Scrub:
    """See the module. `found` is called with a replica of this broker that is wrong, and where."""

    def __init__(
        self,
        loop: Loop,
        replicas: Replicas,
        peers: Peers,
        book: DamageBook,
        settings: ScrubSettings,
        found: Callable[[ReplicaDriver, tuple[BadRange, ...]], None],
    ) -> None:
        self._loop, self._replicas, self._peers, self._book, self._settings = loop, replicas, peers, book, settings
        self._found = found
        self._left: deque[Key] = deque()
        self._cursor = 0
        self._round_began_ms = 0
        self._silent: set[int] = set()
        """Brokers that have not answered in this round: one that is frozen costs a deadline a round, not one a range."""
        self._faults = RateLimitedLog(log, lambda: loop.now_ms)

    def start(self) -> None:
        if self._settings.interval_ms > 0:
            self._loop.call_at(self._loop.now_ms + min(FIRST_ROUND_MS, self._settings.interval_ms), self._begin_round)

    def _begin_round(self) -> None:
        self._round_began_ms = self._loop.now_ms
        for key in self._book.undecided_keys():
            driver = self._replicas.find(key)
            if driver is None or not driver.leads:
                self._book.forget_undecided(key)
        self._left.extend(driver.key for driver in self._replicas.drivers() if driver.leads)
        self._cursor = 0
        self._silent.clear()
        self._go_on()

    def _end_round(self) -> None:
        self._book.rounds += 1
        self._loop.call_at(
            max(self._loop.now_ms + AGAIN_MS, self._round_began_ms + self._settings.interval_ms), self._begin_round
        )

    def _later(self, after_ms: int) -> None:
        self._loop.call_at(self._loop.now_ms + after_ms, self._go_on)

    def _next_partition(self) -> None:
        self._left.popleft()
        self._cursor = 0

    def _go_on(self) -> None:
        for _ in range(PARTITIONS_A_TURN):
            if not self._left:
                self._end_round()
                return
            driver = self._replicas.find(self._left[0])
            comparable = None if driver is None or not driver.leads else driver.comparable_log
            if driver is None or comparable is None:
                self._next_partition()
                continue
            try:
                span = comparable.comparison.next_range(self._cursor, RANGE_BYTES, driver.machine.high_watermark)
            except OSError as error:
                self._not_compared(driver, self._cursor, error)
                span = None
            if span is None:
                self._next_partition()
                continue
            self._read(driver, *span)
            return
        self._later(1)

    def _read(self, driver: ReplicaDriver, from_offset: int, to_offset: int) -> None:
        """Compute the digest here, then ask the others."""

        def done(own: RangeDigest) -> None:
            self._book.compared_bytes += to_offset - from_offset
            self._ask(driver, from_offset, to_offset, own)

        def failed(error: Exception) -> None:
            self._not_compared(driver, from_offset, error)
            self._cursor = to_offset
            self._pause(to_offset - from_offset)

        try:
            parts = driver.log.comparison.parts(from_offset, to_offset)
        except OSError as error:
            failed(error)
            return
        if parts is None:
            self._next_partition()
            self._later(1)
        elif not self._replicas.behind_upkeep(lambda: digest_of(parts), done, failed):
            self._later(AGAIN_MS)

    def _not_compared(self, driver: ReplicaDriver, from_offset: int, error: Exception) -> None:
        self._faults.warning(
            "replica_not_compared", topic=driver.topic, partition=driver.index, from_offset=from_offset, why=str(error)
        )

    def _ask(self, driver: ReplicaDriver, from_offset: int, to_offset: int, own: RangeDigest) -> None:
        node = driver.node
        others = (
            [] if node is None else [one for one in node.copies if one != self._replicas.broker_id and one not in self._silent]
        )
        epoch = 0 if node is None else node.leader_epoch
        asked = Compare(Kind.DIGEST, driver.key, epoch, from_offset, to_offset, sum=own.sum)
        answers = {self._replicas.broker_id: own}
        waits = set(others)

        def heard(broker_id: int) -> None:
            waits.discard(broker_id)
            if not waits:
                self._compare(driver, asked, answers)

        def answered(broker_id: int, body: bytes) -> None:
            try:
                state, digest = scrub_messages.decode_compared(body)
                if state is State.SAME:
                    answers[broker_id] = own
                elif digest is not None:
                    answers[broker_id] = digest
            except MalformedFrame as error:
                self._faults.warning("replica_not_compared", broker_id=broker_id, why=str(error))
            heard(broker_id)

        def failed(broker_id: int, _: Exception) -> None:
            self._silent.add(broker_id)  # it is down, or away: the next round compares it
            heard(broker_id)

        body = scrub_messages.encode_compare(asked)
        if not others:
            self._compare(driver, asked, answers)
        for one in others:
            self._peers.ask(
                one,
                COMPARE_KEY,
                body,
                lambda answer, one=one: answered(one, answer),  # type: ignore[misc]
                lambda error, one=one: failed(one, error),  # type: ignore[misc]
                deadline_ms=ANSWER_MS,
            )

    def _compare(self, driver: ReplicaDriver, asked: Compare, answers: dict[int, RangeDigest]) -> None:
        self._cursor = asked.to_offset
        self._pause(asked.to_offset - asked.from_offset)
        node = driver.node
        if driver.is_gone or not driver.leads or node is None or node.leader_epoch != asked.leader_epoch:
            return
        verdict = judge(answers, len(node.replicas))
        span = asked.from_offset, asked.to_offset
        for begin, end in self._book.compared(driver.key, driver.topic, *span, verdict.undecided, self._replicas.wall_ms):
            log.error(
                "replicas_differ",
                topic=driver.topic,
                partition=driver.index,
                from_offset=begin,
                to_offset=end,
                why="no bytes have a majority: nothing is changed",
            )
        for broker_id, wrong in verdict.wrong.items():
            if broker_id == self._replicas.broker_id:
                self._found(driver, wrong)
                continue
            for bad in wrong:
                told = asked._replace(
                    kind=Kind.DAMAGED, from_offset=bad.from_offset, to_offset=bad.to_offset, sum=b"", reason=bad.reason
                )
                log.error(
                    "replica_is_wrong",
                    topic=driver.topic,
                    partition=driver.index,
                    broker_id=broker_id,
                    from_offset=bad.from_offset,
                    to_offset=bad.to_offset,
                    why=bad.reason,
                )
                # Not heard: the next round finds it again.
                self._peers.ask(broker_id, COMPARE_KEY, scrub_messages.encode_compare(told), lambda _: None, lambda _: None)

    def _pause(self, size_bytes: int) -> None:
        """Continue when so many bytes are within the rate."""
        self._later(max(1, size_bytes * 1_000 // self._settings.bytes_per_second))
