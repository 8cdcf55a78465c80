"""Planned changes of leader: a leader asks a member of the in-sync set to take over. Messages, and the leader's side of them.

    hand over (key 20007)   leader stops int8 · count int32 · [topic id 16 · partition int32 · leader epoch int32]
    response                count int32 · [accepted int8], in the order of the request

The member takes over by its own swap, as after a failure. The leader serves until it reads that swap, so clients wait for one
swap only, and the answer to a refused produce request names the new leader. Bounded: so many partitions at a time for each
member, so that a broker with thousands of leaderships does not fill ZooKeeper with swaps. Lives on the loop thread.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from ...runtime.logs import get_logger
from ...wire.errors import MalformedFrame
from ..event_loop.loop import Loop
from ..replication import reassignment
from ..replication.replica import Leading
from .asking import Peers
from .driver import ReplicaDriver
from .messages import Key

log = get_logger(__name__)

HAND_OVER_KEY = 20_007
MOST_AT_ONCE = 100
"""Partitions that one member is asked to take over at a time."""
ANSWER_MS = 2_000
LOOK_EVERY_MS = 10
TAKES_MS = 3_000
"""A member that has not taken over within so long is not asked again while this broker stops."""
EVEN_MS = 200
"""A member that lacks what another one has is asked anyway after so long."""
QUIET_MS = 1_000
"""For so long followers get nothing new while one of them is asked to lead."""

_HEAD = struct.Struct(">bi")
_COUNT = struct.Struct(">i")
_ROW = struct.Struct(">16sii")

Asked = tuple[Key, int]
"""A partition, and the epoch in which it is led."""


def encode_request(asked: Sequence[Asked], *, leader_stops: bool) -> bytes:
    rows = (_ROW.pack(topic_id.bytes, partition, epoch) for (topic_id, partition), epoch in asked)
    return _HEAD.pack(leader_stops, len(asked)) + b"".join(rows)


def decode_request(body: memoryview) -> tuple[list[Asked], bool]:
    """Return what is asked, and whether the leader stops. Raises MalformedFrame."""
    try:
        leader_stops, count = _HEAD.unpack_from(body)
        if not 0 <= count <= MOST_AT_ONCE or len(body) != _HEAD.size + count * _ROW.size:
            raise MalformedFrame(f"a request to take {count} partitions over, in {len(body)} bytes")
        rows = (_ROW.unpack_from(body, _HEAD.size + at * _ROW.size) for at in range(count))
        return [((UUID(bytes=raw), partition), epoch) for raw, partition, epoch in rows], bool(leader_stops)
    except struct.error:
        raise MalformedFrame(f"a request to take partitions over of {len(body)} bytes is cut") from None


def encode_response(accepted: Sequence[bool]) -> bytes:
    return _COUNT.pack(len(accepted)) + bytes(accepted)


def decode_response(body: bytes, count: int) -> list[bool]:
    """Return for each partition whether the member begins to take over. Raises MalformedFrame."""
    if len(body) != _COUNT.size + count or _COUNT.unpack_from(body)[0] != count:
        raise MalformedFrame(f"an answer about {count} partitions to take over has {len(body)} bytes")
    return [bool(each) for each in body[_COUNT.size :]]


class HandOvers:
    """Asks members to take over. `drivers` returns the replicas here."""

    def __init__(self, loop: Loop, peers: Peers, drivers: Callable[[], Iterable[ReplicaDriver]]) -> None:
        self._loop, self._peers, self._drivers = loop, peers, drivers
        self._due: dict[int, dict[Key, int]] = {}
        self._under_way: set[int] = set()
        """Brokers that have a question."""
        self._is_leaving = False
        self._refused: Callable[[Key], None] = lambda key: None
        self._refusing: dict[Key, set[int]] = {}
        """While this broker stops: who has not taken a partition over."""

    def ask(self, key: Key, to: int, leader_epoch: int) -> None:
        """Ask a member soon. A question that fails is forgotten: it is asked again as long as it is needed."""
        self._due.setdefault(to, {})[key] = leader_epoch
        self._loop.at_turn_end(lambda: self._send(to))

    def _send(self, to: int) -> None:
        due = self._due.get(to)
        if not due or to in self._under_way:
            return
        asked = list(due.items())[:MOST_AT_ONCE]
        for key, _ in asked:
            del due[key]

        def ended(accepted: Sequence[bool]) -> None:
            self._under_way.discard(to)
            for (key, _), is_accepted in zip(asked, accepted, strict=True):
                if not is_accepted:
                    self._refusing.setdefault(key, set()).add(to)
                    self._refused(key)
            self._send(to)

        def answered(body: bytes) -> None:
            try:
                ended(decode_response(body, len(asked)))
            except MalformedFrame as error:
                failed(error)

        def failed(error: Exception) -> None:
            log.info("leadership_not_taken", broker_id=to, partitions=len(asked), why=str(error))
            ended([False] * len(asked))

        self._under_way.add(to)
        request = encode_request(asked, leader_stops=self._is_leaving)
        self._peers.ask(to, HAND_OVER_KEY, request, answered, failed, deadline_ms=ANSWER_MS)

    def leave(self, done: Callable[[int], None], within_ms: int) -> None:
        """Hand over every leadership that another member can take, and leave the sets, so that no leader waits for this broker.
        Then call `done` with the number of leaderships left here.

        Where this broker leads, the member that takes over removes it from the set with the same swap. Otherwise the new leader's
        first acknowledgements would wait until this broker follows it.
        """
        until_ms = self._loop.now_ms + within_ms
        asked_ms: dict[Key, tuple[int, int]] = {}
        self._refusing.clear()
        self._is_leaving = True
        led = [driver for driver in self._drivers() if isinstance(driver.machine.role, Leading)]
        for driver in led:
            driver.leave()
        evening: dict[Key, tuple[int, int]] = {}
        """The members that are to be asked next, and since when they get what other followers have."""
        by_key = {driver.key: driver for driver in led}
        self._refused = lambda key: by_key[key].end_hand_over() if key in by_key else None

        def look() -> None:
            now_ms = self._loop.now_ms
            busy: dict[int, int] = {}
            fresh: list[tuple[ReplicaDriver, int, int]] = []
            left = waiting = 0
            for driver in list(led):
                role, node = driver.machine.role, driver.machine.node
                if not isinstance(role, Leading) or node is None:
                    led.remove(driver)
                    continue
                left += 1
                refusing = self._refusing.setdefault(driver.key, set())
                to, since_ms = asked_ms.get(driver.key, (-1, 0))
                if to >= 0 and to not in refusing:
                    if now_ms - since_ms < TAKES_MS:
                        busy[to] = busy.get(to, 0) + 1
                        waiting += 1
                        continue
                    refusing.add(to)
                    evening.pop(driver.key, None)
                after_ms = driver.machine.now_ms - driver.machine.silent_ms
                found = reassignment.successor(node, role.progress, driver.machine.broker_id, after_ms=after_ms, but=refusing)
                if found is not None:
                    fresh.append((driver, found, role.leader_epoch))
            for driver, to, epoch in fresh:
                waiting += 1
                if busy.get(to, 0) >= MOST_AT_ONCE:
                    continue
                busy[to] = busy.get(to, 0) + 1
                was, since_ms = evening.get(driver.key, (-1, 0))
                if was != to:
                    since_ms = now_ms
                    evening[driver.key] = to, since_ms
                if driver.begin_hand_over(to, QUIET_MS) or now_ms - since_ms >= EVEN_MS:
                    asked_ms[driver.key] = to, now_ms
                    self.ask(driver.key, to, epoch)
            is_over = not waiting and all([driver.leave() for driver in self._drivers()])
            if is_over or now_ms >= until_ms:
                done(left)
            else:
                self._loop.call_at(now_ms + LOOK_EVERY_MS, look)

        look()
