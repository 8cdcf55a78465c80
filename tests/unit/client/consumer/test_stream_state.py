"""What the threads of a consumer share: room in the queue, epochs, notices."""

import threading
import time
from collections.abc import Callable

import pytest

from headrace.client.consumer.stream_items import Batch, Notice, NoticeKind, Skip
from headrace.client.consumer.stream_state import StreamState
from headrace.client.fetch.fetched import CorruptRange, TopicPartition
from tests.support.processes import eventually

from ..fetched_partitions import T0, T1, stored


def always() -> bool:
    return True


def take(state: StreamState, within_ms: int = 0, may_deliver: Callable[[], bool] = always) -> object:
    return state.take(time.monotonic() + within_ms / 1000, may_deliver=may_deliver)


def assigned(queue_bytes: int = 1_000, *partitions: TopicPartition) -> StreamState:
    """Return a state that owns the partitions (T0 when none is named), the application told."""
    state = StreamState(queue_bytes=queue_bytes)
    state.assign(dict.fromkeys(partitions or (T0,), 0), committed={}, generation=0)
    notice = take(state)
    assert isinstance(notice, Notice)
    state.finish(notice)
    return state


def fetch(state: StreamState, partition: TopicPartition = T0, *, size: int = 100) -> None:
    """Fetch one batch of about `size` bytes where the partition stands."""
    epoch, offset = state.wanted(0)[partition]
    header, batch = stored(offset, [bytes(size)])
    item = Batch(partition=partition, epoch=epoch, header=header, batch=batch, from_offset=offset)
    state.put([item], partition=partition, epoch=epoch, next_offset=header.next_offset)


def test_the_application_hears_of_partitions_before_it_gets_their_batches() -> None:
    state = StreamState(queue_bytes=1_000)
    state.assign({T0: 5}, committed={}, generation=3)
    fetch(state)
    notice = take(state)
    assert isinstance(notice, Notice)
    assert (notice.kind, notice.partitions) == (NoticeKind.ASSIGNED, {T0: 5})
    state.finish(notice)
    assert isinstance(take(state), Batch)
    assert state.generation == 3


def test_no_further_fetch_is_made_while_the_queue_is_more_than_half_full() -> None:
    state = assigned(1_000)
    fetch(state, size=300)
    fetch(state, size=300)
    assert state.queued_bytes > 500
    assert state.wanted(0) == {}
    take(state)
    assert state.wanted(0)


def test_what_was_fetched_before_a_revocation_is_dropped_even_when_the_partition_comes_back() -> None:
    state = assigned()
    fetch(state)
    late = state.wanted(0)[T0]
    state.lose_all()
    lost = take(state)
    assert isinstance(lost, Notice)
    state.finish(lost)
    state.assign({T0: 0}, committed={}, generation=1)
    header, batch = stored(0, [b"old"])
    stale = Batch(partition=T0, epoch=late[0], header=header, batch=batch, from_offset=0)
    state.put([stale], partition=T0, epoch=late[0], next_offset=header.next_offset)
    assert state.queued_bytes == 0
    assert state.wanted(0)[T0][1] == 0


def test_a_revocation_waits_for_the_application_and_others_go_on() -> None:
    state = assigned(1_000, T0, T1)
    fetch(state, T0)
    fetch(state, T1)
    told: list[bool] = []
    revoking = threading.Thread(target=lambda: told.append(state.revoke([T0], timeout_ms=10_000)))
    revoking.start()
    notice = take(state, 5_000, lambda: False)
    assert isinstance(notice, Notice)
    assert (notice.kind, set(notice.partitions)) == (NoticeKind.REVOKED, {T0})
    assert set(state.positions()) == {T0, T1}, "still owned while it is told: it may commit"
    assert told == []
    state.finish(notice)
    revoking.join(5)
    assert told == [True]
    item = take(state)
    assert isinstance(item, Batch)
    assert item.partition == T1, "T0's batch was dropped, T1's was not"


def test_an_application_that_does_not_come_back_loses_the_partition_and_hears_it_later() -> None:
    state = assigned()
    assert not state.revoke([T0], timeout_ms=20)
    assert state.positions() == {}
    notice = take(state)
    assert isinstance(notice, Notice)
    assert notice.kind is NoticeKind.LOST
    assert not state.await_quiet(0)
    state.finish(notice)
    assert state.await_quiet(0)


def test_partitions_the_application_never_heard_of_go_without_a_word() -> None:
    state = StreamState(queue_bytes=1_000)
    state.assign({T0: 0}, committed={}, generation=0)
    assert state.revoke([T0], timeout_ms=0)
    assert take(state) is None
    assert state.positions() == {}


def test_a_loss_during_a_revocation_is_told_once_as_a_loss() -> None:
    state = assigned(1_000, T0, T1)
    revoking = threading.Thread(target=lambda: state.revoke([T0], timeout_ms=10_000))
    revoking.start()
    eventually(lambda: state.has_notice(), what="the revocation under way")
    state.lose_all()
    kinds = []
    while isinstance(notice := take(state), Notice):
        kinds.append((notice.kind, set(notice.partitions)))
        state.finish(notice)
    revoking.join(5)
    assert kinds == [(NoticeKind.LOST, {T0}), (NoticeKind.LOST, {T1})]


def test_nothing_is_delivered_without_the_leave_and_it_comes_when_the_leave_does() -> None:
    state = assigned()
    fetch(state)
    assert take(state, 30, lambda: False) is None
    sure = threading.Event()
    threading.Timer(0.05, sure.set).start()
    assert isinstance(take(state, 5_000, sure.is_set), Batch)


def test_a_skip_keeps_its_place_among_the_batches() -> None:
    state = assigned()
    epoch, _ = state.wanted(0)[T0]
    header, batch = stored(0, [b"a"])
    bad = CorruptRange(from_offset=header.next_offset, to_offset=500, reason="planted")
    state.put(
        [
            Batch(partition=T0, epoch=epoch, header=header, batch=batch, from_offset=0),
            Skip(partition=T0, epoch=epoch, corrupt=bad),
        ],
        partition=T0,
        epoch=epoch,
        next_offset=500,
    )
    assert isinstance(take(state), Batch)
    assert isinstance(take(state), Skip)


def test_positions_and_commits_follow_what_was_handed_out() -> None:
    state = assigned()
    epoch = state.wanted(0)[T0][0]
    assert state.uncommitted() == {T0: 0}
    state.moved(T0, epoch, 7)
    state.moved(T0, epoch + 1, 99)
    assert state.positions() == {T0: 7}
    state.committed({T0: 7, T1: 3})
    assert state.uncommitted() == {}


def test_a_seek_drops_what_waits_and_fetches_from_there() -> None:
    state = assigned()
    fetch(state)
    assert state.seek(T0, 40)
    assert state.queued_bytes == 0
    assert state.wanted(0)[T0][1] == 40
    assert not state.seek(T1, 0)


def test_a_failure_is_raised_to_the_application_and_a_stop_ends_every_wait() -> None:
    state = assigned()
    state.fail(RuntimeError("first"))
    state.fail(RuntimeError("second"))
    with pytest.raises(RuntimeError, match="first"):
        take(state)
    state = assigned()
    ended: list[object] = []
    waiting = threading.Thread(target=lambda: ended.append(take(state, 60_000)))
    waiting.start()
    state.stop()
    waiting.join(5)
    assert ended == [None]
    assert state.wanted(60_000) == {}


def test_a_queue_that_is_never_emptied_stays_bounded_whatever_is_fetched() -> None:
    state = assigned(2_000, T0, T1)
    largest = 0
    for _ in range(50):
        for partition in state.wanted(0):
            fetch(state, partition, size=300)
            largest = max(largest, state.queued_bytes)
            if not state.wanted(0):
                break
    assert largest <= 2_000


def test_a_paused_partition_is_neither_fetched_nor_handed_out_and_goes_on_where_it_stopped() -> None:
    state = assigned(1_000, T0, T1)
    fetch(state, T0)
    state.pause([T0])
    assert list(state.wanted(0)) == [T1]
    assert take(state) is None
    fetch(state, T1)
    batch = take(state)
    assert isinstance(batch, Batch)
    assert batch.partition == T1
    state.resume([T0])
    assert state.wanted(0)[T0][1] == 0, "what was fetched and not handed out is fetched again"


def test_an_answer_to_a_fetch_from_before_a_pause_is_dropped() -> None:
    state = assigned()
    epoch, offset = state.wanted(0)[T0]
    state.pause([T0])
    state.resume([T0])
    header, batch = stored(offset, [b"old"])
    item = Batch(partition=T0, epoch=epoch, header=header, batch=batch, from_offset=offset)
    state.put([item], partition=T0, epoch=epoch, next_offset=header.next_offset)
    assert take(state) is None


def test_a_pause_holds_for_partitions_that_come_later_and_all_paused_is_waited_for() -> None:
    state = assigned(1_000, T0)
    state.pause([T0, T1])
    state.assign({T1: 0}, committed={}, generation=0)
    began = time.monotonic()
    assert state.wanted(50) == {}
    assert time.monotonic() - began >= 0.04, "with nothing to fetch the fetching thread waits"
