"""The fetching thread, with a stand-in for the network only."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from headrace.client.consumer.stream_fetching import FetchLoop, in_order, reset_point
from headrace.client.consumer.stream_items import Batch, Notice, Skip
from headrace.client.consumer.stream_state import StreamState
from headrace.client.errors import BrokerUnreachable, ClientError, OffsetOutOfRange, UnsupportedApi
from headrace.client.fetch.fetched import CorruptRange, FetchedPartition, TopicPartition
from headrace.client.fetch.log_offsets import EARLIEST, LATEST
from headrace.wire.batch.record_batch import read_header

from ..fetched_partitions import T0, answer, stored

Answer = Callable[[Mapping[TopicPartition, int]], list[FetchedPartition]]


class Network:
    """Answers each fetch with the next of its script, then with nothing."""

    def __init__(self, *script: Answer | ClientError, log_start: int = 0) -> None:
        self.script = list(script)
        self.log_start = log_start
        self.asked: list[dict[TopicPartition, int]] = []

    def fetch(self, wanted: Mapping[TopicPartition, int]) -> list[FetchedPartition]:
        self.asked.append(dict(wanted))
        if not self.script:
            time.sleep(0.005)  # the long poll of a broker with nothing new
            return [answer(name, offset, []) for name, offset in wanted.items()]
        following = self.script.pop(0)
        if isinstance(following, ClientError):
            raise following
        return following(wanted)

    def close(self) -> None:
        return


@pytest.fixture
def run() -> Iterator[Callable[..., StreamState]]:
    loops: list[FetchLoop] = []

    def start(network: Network, *, at: int = 0, reset_to: int = EARLIEST) -> StreamState:
        state = StreamState(queue_bytes=1 << 20)
        state.assign({T0: at}, committed={}, generation=0)
        notice = state.take(time.monotonic(), may_deliver=lambda: True)
        assert isinstance(notice, Notice)
        state.finish(notice)
        begin = network.log_start if reset_to == EARLIEST else 9_000
        loop = FetchLoop(state, network, starts=lambda names: dict.fromkeys(names, begin), name="test")  # type: ignore[arg-type]
        loops.append(loop)
        loop.start()
        return state

    yield start
    for loop in loops:
        loop.stop()


def taken(state: StreamState) -> object:
    return state.take(time.monotonic() + 10, may_deliver=lambda: True)


def test_batches_are_queued_and_fetching_goes_on_behind_them(run: Callable[..., StreamState]) -> None:
    header, batch = stored(0, [b"a"])
    network = Network(lambda wanted: [answer(T0, 0, [(header, batch)])])
    state = run(network)
    item = taken(state)
    assert isinstance(item, Batch)
    assert item.header == header
    while len(network.asked) < 2:
        time.sleep(0.001)
    assert network.asked[1] == {T0: header.next_offset}


def test_a_passing_failure_is_waited_out(run: Callable[..., StreamState]) -> None:
    gone = BrokerUnreachable("127.0.0.1:1", "Fetch", "planted", was_sent=False)
    header, batch = stored(0, [b"a"])
    state = run(Network(gone, gone, lambda wanted: [answer(T0, 0, [(header, batch)])]))
    assert isinstance(taken(state), Batch)


def test_what_will_not_pass_reaches_the_application(run: Callable[..., StreamState]) -> None:
    state = run(Network(UnsupportedApi("127.0.0.1:1", "Fetch", (4, 12), None)))
    with pytest.raises(UnsupportedApi):
        taken(state)


def test_a_position_that_expired_is_told_as_skipped_and_reading_begins_where_the_log_does(
    run: Callable[..., StreamState],
) -> None:
    header, batch = stored(500, [b"a"])
    state = run(
        Network(OffsetOutOfRange("t", 0, 10, 500), lambda wanted: [answer(T0, wanted[T0], [(header, batch)])], log_start=500),
        at=10,
    )
    skip = taken(state)
    assert isinstance(skip, Skip)
    assert (skip.corrupt.from_offset, skip.corrupt.to_offset) == (10, 500)
    assert "expired" in skip.corrupt.reason
    assert skip.corrupt.is_expired
    item = taken(state)
    assert isinstance(item, Batch)
    assert item.from_offset == 500


def test_largest_begins_at_the_end_and_says_what_it_skips(run: Callable[..., StreamState]) -> None:
    state = run(Network(OffsetOutOfRange("t", 0, 10, 500)), at=10, reset_to=LATEST)
    skip = taken(state)
    assert isinstance(skip, Skip)
    assert skip.corrupt.to_offset == 9_000
    assert not skip.corrupt.is_expired, "most of it is there, and was passed over by wish"


def test_a_position_beyond_a_shorter_log_goes_back_to_its_start(run: Callable[..., StreamState]) -> None:
    network = Network(OffsetOutOfRange("t", 0, 7_000, 0))
    run(network, at=7_000)
    while len(network.asked) < 2:
        time.sleep(0.001)
    assert network.asked[1] == {T0: 0}


def test_a_fault_of_our_own_does_not_end_in_a_silent_thread(run: Callable[..., StreamState]) -> None:
    def broken(wanted: Mapping[TopicPartition, int]) -> list[FetchedPartition]:
        raise RuntimeError("planted")

    with pytest.raises(RuntimeError, match="planted"):
        taken(run(Network(broken)))


def test_batches_and_corrupt_ranges_come_in_the_logs_order_cut_at_the_asked_offset() -> None:
    first, second = stored(0, [b"a", b"b"]), stored(1_000, [b"c"])
    bad = CorruptRange(from_offset=first[0].next_offset, to_offset=1_000, reason="planted")
    items = in_order(answer(T0, 1, [first, second], [bad]), T0, 1, 1)
    assert [type(item).__name__ for item in items] == ["Batch", "Skip", "Batch"]
    assert isinstance(items[0], Batch)
    assert items[0].from_offset == 1
    behind = in_order(answer(T0, 1_000, [first, second], [bad]), T0, 1, 1_000)
    assert [type(item).__name__ for item in behind] == ["Batch"]


def test_offsets_that_the_broker_passes_over_in_silence_are_told_as_skipped() -> None:
    first, second = stored(0, [b"a"]), stored(1_000, [b"b"])
    items = in_order(answer(T0, 0, [first, second]), T0, 1, 0)
    assert isinstance(items[1], Skip)
    assert (items[1].corrupt.from_offset, items[1].corrupt.to_offset) == (first[0].next_offset, 1_000)
    (only, batch) = in_order(answer(T0, 500, [second]), T0, 1, 500)
    assert isinstance(only, Skip)
    assert isinstance(batch, Batch)


def test_reset_points_are_the_papers_words_and_kafkas() -> None:
    assert reset_point("smallest") == reset_point("earliest") == EARLIEST
    assert reset_point("largest") == reset_point("latest") == LATEST
    with pytest.raises(ValueError):
        reset_point("middle")


def test_stopping_ends_a_loop_that_has_nothing_to_fetch() -> None:
    state = StreamState(queue_bytes=10)
    loop = FetchLoop(state, Network(), starts=dict.fromkeys, name="idle")  # type: ignore[arg-type]
    loop.start()
    before = threading.active_count()
    state.stop()
    loop.stop()
    assert threading.active_count() < before


def test_batches_of_a_dense_log_are_handed_out_in_the_logs_order() -> None:
    """Fault: they were sorted by byte positions, which batches of Kafka lack; most records then counted as seen."""
    batches = []
    base = 0
    for count, size in ((3, 10), (2, 900), (4, 10)):  # the second's computed position lies before the first's
        batch = bytearray(stored(0, [b"x" * size] * count)[1])
        batch[:8] = base.to_bytes(8, "big")
        batches.append((read_header(batch), memoryview(bytes(batch))))
        base += count
    items = in_order(answer(T0, 0, batches), T0, 1, 0)
    assert [(item.header.base_offset, item.from_offset) for item in items if isinstance(item, Batch)] == [(0, 0), (3, 3), (5, 5)]
    assert not [item for item in items if isinstance(item, Skip)]
