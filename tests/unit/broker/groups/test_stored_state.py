"""Calls that wait for ZooKeeper: merged, bounded, always answered."""

import queue
from collections.abc import Callable
from typing import Any

from headrace.broker.errors import Overloaded
from headrace.broker.event_loop.worker import Worker
from headrace.broker.groups import offset_commits
from headrace.broker.groups.offset_commits import OffsetCommits
from headrace.broker.groups.stored_groups import GROUPS_A_CHUNK, StoredGroups
from headrace.broker.partitions import producer_id_allocator
from headrace.broker.partitions.producer_id_allocator import ProducerIdAllocator
from headrace.coordination.committed_offset import CommittedOffset as At
from headrace.coordination.errors import NotClaimed
from headrace.coordination.group_claims import GroupCommit
from headrace.coordination.group_directory import Deletion
from tests.support.processes import eventually
from tests.support.serving_broker import MemoryBlocks, MemoryOffsets
from tests.unit.broker.hand_worker import HandWorker


def test_of_several_commits_for_a_partition_the_last_counts() -> None:
    first, other, last = {("t", 0): At(5), ("t", 1): At(1)}, {("t", 0): At(9)}, {("t", 0): At(4)}
    store, worker, answers = MemoryOffsets(), HandWorker(), list[Exception | None]()
    commits = OffsetCommits(store, store, worker)
    for group, offsets in (("-", first), ("g", first), ("h", other), ("g", last)):
        commits.commit(group, offsets, answers.append)
    worker.run_one()
    worker.run_one()
    assert store.offsets == {"-": first, "g": {("t", 0): At(4), ("t", 1): At(1)}, "h": {("t", 0): At(9)}}


def test_commits_under_different_claims_are_not_merged_and_keep_their_order() -> None:
    store, worker, answers = MemoryOffsets(), HandWorker(), list[tuple[int, type]]()
    commits = OffsetCommits(store, store, worker)
    store.claims["g"] = "second"
    for number, claim in enumerate(("first", "first", "second", "first", "second", None)):
        commits.commit("g", {("t", 0): At(number)}, lambda error, number=number: answers.append((number, type(error))), claim)  # type: ignore[misc]
    worker.run_one()
    worker.run_one()
    assert answers == [(number, NotClaimed if number in (0, 1, 3) else type(None)) for number in range(6)]
    assert store.offsets == {"g": {("t", 0): At(5)}}


def test_commits_that_come_during_a_write_go_together_with_the_next() -> None:
    store, worker, answers = MemoryOffsets(), HandWorker(), list[Exception | None]()
    commits = OffsetCommits(store, store, worker)
    for offset in range(100):
        assert commits.commit("g", {("t", 0): At(offset)}, answers.append)
    assert answers == []
    worker.run_one()
    assert answers == [None]
    worker.run_one()
    assert answers == [None] * 100
    assert (store.writes, store.offsets, worker.jobs) == (2, {"g": {("t", 0): At(99)}}, [])


def test_a_commit_that_waits_does_not_bring_offsets_of_a_deleted_topic_back() -> None:
    store, worker, answers = MemoryOffsets(), HandWorker(), list[Exception | None]()
    commits = OffsetCommits(store, store, worker)
    commits.commit("g", {("t", 0): At(1)}, answers.append)
    commits.commit("g", {("t", 0): At(2), ("kept", 0): At(3)}, answers.append)
    commits.commit("h", {("t", 0): At(4)}, answers.append)
    commits.forget_topics(["t"])
    while worker.jobs:
        worker.run_one()
    assert {group: offsets for group, offsets in store.offsets.items() if offsets} == {"g": {("kept", 0): At(3)}}
    assert answers == [None, None, None]


def test_commits_of_many_groups_during_a_write_are_one_write_too() -> None:
    store, worker, answers = MemoryOffsets(), HandWorker(), list[Exception | None]()
    commits = OffsetCommits(store, store, worker)
    for number in range(100):
        commits.commit(f"group-{number}", {("t", 0): At(number)}, answers.append)
    worker.run_one()
    worker.run_one()
    assert (store.writes, len(store.offsets), answers) == (2, 100, [None] * 100)


def test_commits_that_take_too_much_memory_are_refused() -> None:
    commits, answers = OffsetCommits(MemoryOffsets(), MemoryOffsets(), HandWorker()), list[Exception | None]()
    fat = {("t", partition): At(1, -1, "x" * 4_000) for partition in range(1_000)}
    taken = [commits.commit("g", fat, answers.append) for _ in range(20)]
    assert taken.count(True) == offset_commits.CAPACITY_BYTES // (1_000 * (4_000 + offset_commits.OFFSET_BYTES)) + 1
    assert taken[-1] is False


def test_a_failed_write_is_told_to_its_own_group_only() -> None:
    class Store(MemoryOffsets):
        def _commit(self, one: GroupCommit) -> Exception | None:
            return ConnectionError("away") if one.group == "bad" else super()._commit(one)

    store, worker, answers = Store(), HandWorker(), list[tuple[str, Exception | None]]()
    commits = OffsetCommits(store, store, worker)
    commits.commit("first", {("t", 0): At(1)}, lambda error: answers.append(("first", error)))
    commits.commit("bad", {("t", 0): At(1)}, lambda error: answers.append(("bad", error)))
    commits.commit("good", {("t", 0): At(2)}, lambda error: answers.append(("good", error)))
    worker.run_one()
    worker.run_one()
    assert [(group, type(error)) for group, error in answers] == [
        ("first", type(None)),
        ("bad", ConnectionError),
        ("good", type(None)),
    ]


def test_commits_beyond_the_desks_capacity_are_refused() -> None:
    commits, answers = OffsetCommits(MemoryOffsets(), MemoryOffsets(), HandWorker()), list[Exception | None]()
    taken = [commits.commit("g", {("t", 0): At(1)}, answers.append) for _ in range(offset_commits.CAPACITY + 2)]
    assert taken.count(True) == offset_commits.CAPACITY + 1  # one is being written
    assert taken[-1] is False


def test_a_full_worker_is_answered_with_an_error_not_with_silence() -> None:
    commits, answers = OffsetCommits(MemoryOffsets(), MemoryOffsets(), HandWorker(capacity=0)), list[Exception | None]()
    commits.commit("g", {("t", 0): At(1)}, answers.append)
    assert [type(answer).__name__ for answer in answers] == ["Overloaded"]


def test_each_producer_id_is_given_once_over_many_blocks() -> None:
    blocks, worker, ids = MemoryBlocks(), HandWorker(), list[int | None]()
    allocator = ProducerIdAllocator(blocks, worker)
    for _ in range(35):
        allocator.take(ids.append)
        while worker.jobs:
            worker.run_one()
    assert None not in ids
    assert len(set(ids)) == 35


def test_who_comes_to_an_empty_desk_waits_for_the_block() -> None:
    worker, ids = HandWorker(), list[int | None]()
    allocator = ProducerIdAllocator(MemoryBlocks(), worker)
    allocator.take(ids.append)
    allocator.take(ids.append)
    assert (ids, len(worker.jobs)) == ([], 1)
    worker.run_one()
    assert ids == [7_000, 7_001]


def test_when_zookeeper_gives_no_block_those_who_wait_are_told_and_later_ones_try_again() -> None:
    blocks, worker, ids = MemoryBlocks(), HandWorker(), list[int | None]()
    allocator = ProducerIdAllocator(blocks, worker)
    blocks.fails = True
    allocator.take(ids.append)
    worker.run_one()
    assert ids == [None]
    blocks.fails = False
    allocator.take(ids.append)
    worker.run_one()
    assert ids == [None, 7_000]


def test_an_endless_queue_for_producer_ids_is_cut_at_its_bound() -> None:
    allocator, ids = ProducerIdAllocator(MemoryBlocks(), HandWorker()), list[int | None]()
    for _ in range(producer_id_allocator.CAPACITY + 3):
        allocator.take(ids.append)
    assert ids == [None] * 3


def test_a_worker_hands_results_and_errors_back_in_order_and_refuses_when_full() -> None:
    posted: queue.Queue[Callable[[], None]] = queue.Queue()
    worker = Worker("test", posted.put, capacity=2)
    outcomes: list[object] = []

    def fail() -> None:
        raise ValueError("no")

    assert worker.submit(lambda: 1, outcomes.append, outcomes.append)
    assert worker.submit(fail, outcomes.append, outcomes.append)
    assert not worker.submit(lambda: 3, outcomes.append, outcomes.append)
    worker.start()
    eventually(lambda: posted.qsize() == 2, what="both jobs done")
    posted.get()()
    posted.get()()
    worker.stop()
    assert outcomes[0] == 1
    assert isinstance(outcomes[1], ValueError)


def test_deleting_and_reading_very_many_groups_lets_a_commit_in_between() -> None:
    store, worker = MemoryOffsets(), HandWorker()
    groups = [f"g{number:04d}" for number in range(1_000)]
    store.offsets = {name: {("t", 0): At(1)} for name in groups}
    commits, traces = OffsetCommits(store, store, worker), StoredGroups(store, store, worker)
    fetched, deleted, committed = list[Any](), list[Any](), list[Any]()
    assert commits.fetch(dict.fromkeys(groups), fetched.append, fetched.append)
    assert traces.delete(groups, lambda group: False, deleted.append, deleted.append)
    assert commits.commit("late", {("t", 0): At(2)}, committed.append)
    for _ in range(3):
        worker.run_one()
    assert (committed, fetched, deleted) == ([None], [], [])
    while worker.jobs:
        worker.run_one()
    assert list(fetched[0]) == list(deleted[0]) == groups
    assert set(store.offsets) == {"late"}


def test_of_very_many_groups_those_are_refused_that_there_is_no_room_for_when_their_turn_comes() -> None:
    store, worker, deleted = MemoryOffsets(), HandWorker(), list[Any]()
    groups = [f"g{number}" for number in range(GROUPS_A_CHUNK + 5)]
    assert StoredGroups(store, store, worker).delete(groups, lambda group: False, deleted.append, deleted.append)
    worker.capacity = 0
    worker.run_one()
    assert [deleted[0][name] for name in groups[:GROUPS_A_CHUNK]] == [Deletion.ABSENT] * GROUPS_A_CHUNK
    assert all(isinstance(deleted[0][name], Overloaded) for name in groups[GROUPS_A_CHUNK:])
    assert not StoredGroups(store, store, worker).delete(groups, lambda group: False, deleted.append, deleted.append)


def test_a_group_that_is_joined_while_others_are_being_deleted_keeps_its_offsets() -> None:
    store, worker, deleted, joined = MemoryOffsets(), HandWorker(), list[Any](), set[str]()
    groups = [f"g{number}" for number in range(GROUPS_A_CHUNK + 5)]
    store.offsets = {name: {("t", 0): At(1)} for name in groups}
    assert StoredGroups(store, store, worker).delete(groups, joined.__contains__, deleted.append, deleted.append)
    joined.add(groups[-1])
    while worker.jobs:
        worker.run_one()
    assert deleted[0][groups[-1]] is Deletion.HAS_MEMBERS
    assert {name for name, outcome in deleted[0].items() if outcome is Deletion.DONE} == set(groups[:-1])
    assert set(store.offsets) == {groups[-1]}
