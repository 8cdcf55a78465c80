"""The nodes of replicated partitions and the start numbers of brokers; on a real ZooKeeper."""

from dataclasses import replace
from uuid import UUID

import pytest

from headrace.coordination.errors import UnreadableNode, VersionConflict
from headrace.coordination.replica_states import SWAPS_TOGETHER, ReplicaState, ReplicaStates, SwapOutcome, WantedSwap
from headrace.coordination.topic_id import id_word
from tests.support.processes import eventually

from .conftest import OpenSession

TOPIC = UUID(int=(1 << 126) + 7)


def wanted(state: ReplicaState, *, version: int, start_number: int) -> WantedSwap:
    return WantedSwap(key=(TOPIC, 0), version=version, wanted=state, broker_id=1, start_number=start_number)


def test_a_node_holds_what_a_swap_wrote(open_session: OpenSession) -> None:
    states = ReplicaStates(open_session("one"))
    assert states.read(TOPIC, 0) is None
    states.create_missing(TOPIC, {0: (1, 2, 3), 1: (2, 3, 1)})
    states.create_missing(TOPIC, {0: (9,), 1: (9,)})  # they exist: nothing is changed
    assert states.read(TOPIC, 0) == ReplicaState(replicas=(1, 2, 3))
    states.raise_start_number(1, 0)
    first = ReplicaState(
        leader=1,
        start_number=1,
        leader_epoch=4,
        members=((1, "memory:a"), (3, "disk:b")),
        epochs=((1, 0), (4, 88)),
        replicas=(1, 2, 3),
        targets=(4,),
        lost=((5, 1 << 41),),
    )
    assert states.swap_each([wanted(first, version=0, start_number=1)]) == [SwapOutcome.LANDED]
    found = states.of_topic(TOPIC)
    assert found == {0: replace(first, version=1), 1: ReplicaState(replicas=(2, 3, 1))}
    assert found[0].in_sync == (1, 3)
    assert states.topic_ids() == [TOPIC]
    states.delete(TOPIC)
    states.delete(TOPIC)
    assert states.of_topic(TOPIC) == {}
    assert states.topic_ids() == []


def test_of_many_swaps_that_go_together_only_those_fail_that_cannot_land(open_session: OpenSession) -> None:
    states, count = ReplicaStates(open_session("one")), 2 * SWAPS_TOGETHER + 7
    states.create_missing(TOPIC, {index: (1, 2) for index in range(count)})
    states.raise_start_number(1, 0)
    swaps = [replace(wanted(ReplicaState(leader=1), version=0, start_number=1), key=(TOPIC, index)) for index in range(count)]
    swaps[3] = replace(swaps[3], version=5)
    swaps[60] = replace(swaps[60], key=(TOPIC, count))  # there is no such node
    swaps[-1] = replace(swaps[-1], broker_id=2, start_number=1)  # a process that is not known
    fates = {3: SwapOutcome.PASSED, 60: SwapOutcome.PASSED, count - 1: SwapOutcome.FENCED}
    assert states.swap_each(swaps) == [fates.get(index, SwapOutcome.LANDED) for index in range(count)]
    found = states.of_topic(TOPIC)
    assert {index for index, state in found.items() if state.version != 1} == fates.keys()
    assert all(state.leader == (-1 if index in fates else 1) for index, state in found.items())


def test_of_two_swaps_on_one_version_one_lands(open_session: OpenSession) -> None:
    states = ReplicaStates(open_session("one"))
    states.create_missing(TOPIC, {0: (1, 2)})
    states.raise_start_number(1, 0)
    one, two = (wanted(ReplicaState(leader=1, leader_epoch=epoch), version=0, start_number=1) for epoch in (1, 2))
    assert states.swap_each([one, two]) == [SwapOutcome.LANDED, SwapOutcome.PASSED]
    there = states.read(TOPIC, 0)
    assert there is not None
    assert (there.leader_epoch, there.version) == (1, 1)


def test_no_swap_of_an_earlier_process_lands(open_session: OpenSession) -> None:
    states = ReplicaStates(open_session("one"))
    states.create_missing(TOPIC, {0: (1, 2)})
    assert states.start_number(1) == 0
    assert states.raise_start_number(1, 0) == 1
    assert states.raise_start_number(1, 1) == 2
    assert states.start_number(1) == 2
    for known in (0, 1):
        with pytest.raises(VersionConflict):
            states.raise_start_number(1, known)
    late = wanted(ReplicaState(leader=1, leader_epoch=1), version=0, start_number=1)
    assert states.swap_each([late]) == [SwapOutcome.FENCED]
    assert states.swap_each([replace(late, start_number=2)]) == [SwapOutcome.LANDED]


def test_a_swap_of_a_topic_that_was_deleted_does_not_land(open_session: OpenSession) -> None:
    states = ReplicaStates(open_session("one"))
    states.raise_start_number(1, 0)
    assert states.swap_each([wanted(ReplicaState(leader=1), version=0, start_number=1)]) == [SwapOutcome.PASSED]


def test_a_watch_tells_each_change(open_session: OpenSession) -> None:
    states, others = ReplicaStates(open_session("one")), ReplicaStates(open_session("two"))
    others.create_missing(TOPIC, {0: (1, 2)})
    others.raise_start_number(1, 0)
    seen: list[int] = []

    def changed() -> None:
        state = states.read(TOPIC, 0)
        seen.append(-1 if state is None else state.version)

    end = states.watch(TOPIC, 0, changed)
    eventually(lambda: seen[-1:] == [0], what="told at the start")
    others.swap_each([wanted(ReplicaState(leader=1), version=0, start_number=1)])
    eventually(lambda: seen[-1:] == [1], what="told of the swap")
    others.delete(TOPIC)
    eventually(lambda: seen[-1:] == [-1], what="told of the removal")
    end()


def test_a_node_of_another_format_is_refused(open_session: OpenSession) -> None:
    session = open_session("one")
    session.tree.put(f"/replicas/{id_word(TOPIC)}/0", b'{"version":3}')
    with pytest.raises(UnreadableNode, match="version 3"):
        ReplicaStates(session).read(TOPIC, 0)
