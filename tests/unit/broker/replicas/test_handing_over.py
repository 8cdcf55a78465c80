"""Leaderships that are handed over: messages, and how many at a time. Other brokers and their answers are played."""

import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from headrace.broker.replicas.handing_over import (
    EVEN_MS,
    MOST_AT_ONCE,
    HandOvers,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from headrace.broker.replication import reassignment
from headrace.broker.replication.facts import LogFacts, Progress
from headrace.broker.replication.lives import Lives
from headrace.broker.replication.replica import Following, Leading, Replica
from headrace.broker.replication.state import Member, State
from headrace.wire.errors import MalformedFrame

TOPIC = UUID(int=7)


def lives(broker_id: int) -> Lives:
    return Lives(memory=f"memory:{broker_id}", disk=f"disk:{broker_id}")


def leading() -> Replica:
    """Return broker 1 as leader, with 2 and 3 in sync."""
    members = tuple(Member(broker_id=one, life=lives(one).memory) for one in (1, 2, 3))
    progress = {
        one: Progress(lives=lives(one), written_offset=9, flushed_offset=9, log_start_offset=0, is_damaged=False, heard_ms=1_000)
        for one in (2, 3)
    }
    return Replica(
        topic_id="t",
        broker_id=1,
        start_number=1,
        lives=lives(1),
        log=LogFacts(end_offset=9),
        role=Leading(leader_epoch=4, start_offset=0, began_ms=0, progress=progress),
        node=State(leader=1, start_number=1, leader_epoch=4, members=members, replicas=(1, 2, 3)),
        now_ms=1_000,
    )


class Driver:
    def __init__(self, partition: int) -> None:
        self.key = (TOPIC, partition)
        self.machine = leading()
        self.left = 0

        self.is_even = True
        self.is_quiet = False

    def begin_hand_over(self, to: int, within_ms: int) -> bool:
        self.is_quiet = True
        return self.is_even

    def end_hand_over(self) -> None:
        self.is_quiet = False

    def leave(self) -> bool:
        self.left += 1
        return True

    def follows(self, leader: int) -> None:
        self.machine = Replica(
            topic_id="t",
            broker_id=1,
            start_number=1,
            lives=lives(1),
            log=LogFacts(),
            role=Following(leader=leader, leader_epoch=5),
        )


class PlayedLoop:
    def __init__(self) -> None:
        self.now_ms = 1_000
        self.due: list[Callable[[], None]] = []

    def at_turn_end(self, function: Callable[[], None]) -> None:
        self.due.append(function)

    def call_at(self, at_ms: int, function: Callable[[], None]) -> None:
        self.due.append(function)

    def turn(self) -> None:
        self.now_ms += 10
        due, self.due = self.due, []
        for function in due:
            function()


class PlayedPeers:
    def __init__(self) -> None:
        self.asked: list[tuple[int, list[Any], Callable[[bytes], None], Callable[[Exception], None]]] = []

    def ask(self, to: int, key: int, body: bytes, answered: Any, failed: Any, *, deadline_ms: int) -> None:
        asked, leader_stops = decode_request(memoryview(body))
        assert leader_stops
        self.asked.append((to, asked, answered, failed))


def test_requests_and_answers_come_back_as_they_were_sent() -> None:
    asked = [((TOPIC, 0), 3), ((UUID(int=9), 12), 4)]
    for stops in (True, False):
        assert decode_request(memoryview(encode_request(asked, leader_stops=stops))) == (asked, stops)
    assert decode_response(encode_response([True, False]), 2) == [True, False]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\0",
        struct.pack(">bi", 1, -1),
        struct.pack(">bi", 0, MOST_AT_ONCE + 1),
        encode_request([((TOPIC, 0), 3)], leader_stops=True)[:-1],
    ],
)
def test_a_request_that_is_cut_or_too_long_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_request(memoryview(body))


def test_an_answer_about_another_number_of_partitions_is_malformed() -> None:
    with pytest.raises(MalformedFrame):
        decode_response(encode_response([True]), 2)


def test_a_member_is_asked_for_a_bounded_number_of_partitions_at_a_time() -> None:
    loop, peers, drivers = PlayedLoop(), PlayedPeers(), [Driver(number) for number in range(MOST_AT_ONCE + 5)]
    done: list[int] = []
    HandOvers(cast(Any, loop), cast(Any, peers), lambda: cast(Any, drivers)).leave(done.append, 60_000)
    for _ in range(3):
        loop.turn()
    (first,) = peers.asked
    assert (first[0], len(first[1])) == (2, MOST_AT_ONCE)
    first[2](encode_response([True] * MOST_AT_ONCE))
    for driver in drivers[:MOST_AT_ONCE]:
        driver.follows(2)
    for _ in range(3):
        loop.turn()
    assert [len(rows) for _, rows, _, _ in peers.asked] == [MOST_AT_ONCE, 5]
    for driver in drivers:
        driver.follows(2)
    loop.turn()
    assert done == [0]
    assert all(driver.left == 2 for driver in drivers), "it leaves the sets, too"


def test_a_member_that_refuses_or_is_silent_is_replaced_by_the_next_and_then_given_up() -> None:
    loop, peers, drivers = PlayedLoop(), PlayedPeers(), [Driver(0)]
    done: list[int] = []
    HandOvers(cast(Any, loop), cast(Any, peers), lambda: cast(Any, drivers)).leave(done.append, 60_000)
    loop.turn()
    peers.asked[0][2](encode_response([False]))
    loop.turn()
    loop.turn()
    assert [to for to, *_ in peers.asked] == [2, 3]
    peers.asked[1][3](ConnectionError("down"))
    loop.turn()
    assert done == [1]


def test_a_member_is_asked_when_it_has_what_the_others_were_sent_or_after_a_while() -> None:
    loop, peers, drivers = PlayedLoop(), PlayedPeers(), [Driver(0)]
    drivers[0].is_even = False
    HandOvers(cast(Any, loop), cast(Any, peers), lambda: cast(Any, drivers)).leave(lambda left: None, 60_000)
    for _ in range(EVEN_MS // 10 - 1):
        loop.turn()
    assert (peers.asked, drivers[0].is_quiet) == ([], True)
    for _ in range(3):
        loop.turn()
    assert [to for to, *_ in peers.asked] == [2]
    peers.asked[0][2](encode_response([False]))
    assert not drivers[0].is_quiet, "followers get everything again"


def test_a_hand_over_ends_at_its_deadline() -> None:
    loop, peers, drivers = PlayedLoop(), PlayedPeers(), [Driver(0)]
    done: list[int] = []
    HandOvers(cast(Any, loop), cast(Any, peers), lambda: cast(Any, drivers)).leave(done.append, 500)
    loop.now_ms += 600
    loop.turn()
    assert done == [1]


def test_a_replica_that_was_not_heard_or_is_no_target_does_not_lead_next() -> None:
    machine = leading()
    role, node = machine.role, machine.node
    assert isinstance(role, Leading)
    assert node is not None
    assert reassignment.successor(node, role.progress, 1, after_ms=999) == 2
    assert reassignment.successor(node, role.progress, 1, after_ms=1_000) is None
    moving = SimpleNamespace(targets=(3,), replicas=(1, 2, 3), member=node.member)
    assert reassignment.successor(cast(Any, moving), role.progress, 1, after_ms=999) == 3
