import random
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.client.producer.accumulator import UNASSIGNED, Accumulator
from headrace.client.producer.pending import PartitionQueue, PendingBatch, record_size_bytes
from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import iter_records, read_header

BATCH_BYTES = 400
WINDOW_MS = 100


def _accumulator(window_ms: int | None = WINDOW_MS, linger_ms: int = 20) -> Accumulator:
    return Accumulator(batch_bytes=BATCH_BYTES, linger_ms=linger_ms, window_ms=window_ms, random_source=random.Random(7))


def _add(
    held: Accumulator, topic: str = "t", partition: int | None = 0, *, at: int = 0, value: bytes = b"v", now_ms: int = 0
) -> bool:
    size = record_size_bytes(None, value, ())
    return held.add(topic, partition, (at, None, value, ()), size_bytes=size, now_ms=now_ms)


def _times(batch: PendingBatch) -> list[int]:
    return [record.timestamp_ms for record in iter_records(batch.build(Codec.NONE))]


@given(
    st.none() | st.binary(max_size=300),
    st.none() | st.binary(max_size=300),
    st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=20)), max_size=3),
    st.integers(0, 1 << 41),
)
def test_a_record_never_takes_more_than_it_is_charged(key, value, headers, timestamp_ms: int) -> None:  # type: ignore[no-untyped-def]
    batch = PendingBatch(topic="t", partition=0, opened_ms=0, generation=0, window=None)
    for at in (timestamp_ms, 0):
        batch.append((at, key, value, headers), record_size_bytes(key, value, headers))
    built = batch.build(Codec.NONE)
    assert len(built) <= batch.size_bytes
    assert [(record.key, record.value, list(record.headers)) for record in iter_records(built)] == [(key, value, headers)] * 2
    assert (batch.first_timestamp_ms, batch.max_timestamp_ms) == (0, timestamp_ms)


def test_a_batch_is_due_after_its_linger_and_at_once_when_it_is_closed() -> None:
    held = _accumulator()
    assert _add(held, now_ms=5)
    assert not _add(held, now_ms=6)
    assert held.due(24) == []
    assert held.next_due_ms(6) == 25
    assert len(held.due(25)) == 1
    held.flush()
    assert len(held.due(7)) == 1


def test_a_record_of_another_window_closes_the_batch() -> None:
    held = _accumulator()
    _add(held, at=99)
    assert _add(held, at=100)
    queue = held.due(0)[0]
    assert _times(held.take(queue)) == [99]


def test_without_windows_a_batch_may_hold_any_times() -> None:
    held = _accumulator(window_ms=None)
    _add(held, at=0)
    assert not _add(held, at=10**12)


def test_a_record_larger_than_a_batch_travels_alone() -> None:
    held = _accumulator()
    for size in (10, 5_000, 10):
        _add(held, value=b"x" * size)
    held.flush()
    queue = held.due(0)[0]
    assert [batch.record_count for batch in queue.batches()] == [1, 1, 1]


def test_records_wait_until_their_topics_partitions_are_known_and_keep_their_order() -> None:
    held = _accumulator()
    assert _add(held, partition=None, at=1)
    assert not _add(held, partition=None, at=2)
    assert held.topics_waited_for() == ["t"]
    assert held.due(1_000) == []
    held.learn("t", [4])
    _add(held, partition=None, at=3)
    assert _times(held.take(held.due(1_000)[0])) == [1, 2, 3]


def test_a_flush_also_reaches_records_that_wait_for_their_partition() -> None:
    held = _accumulator(linger_ms=60_000)
    _add(held, partition=None)
    held.flush()
    held.learn("t", [0])
    assert len(held.due(0)) == 1


def test_records_without_a_key_spread_over_the_partitions_batch_by_batch() -> None:
    held = _accumulator()
    held.learn("t", [0, 1, 2])
    for at in range(300):
        _add(held, partition=None, at=at)
    used = {queue.partition for queue in held.due(1_000)}
    assert used == {0, 1, 2}
    assert all(batch.record_count > 1 for queue in held.due(1_000) for batch in queue.closed)


def test_waiting_records_are_given_up_as_one_batch_a_window() -> None:
    held = _accumulator()
    for at, now_ms in ((10, 0), (150, 1), (20, 2), (30, 900)):
        _add(held, partition=None, at=at, now_ms=now_ms)
    given_up = held.expire(500)
    assert [(batch.partition, _times(batch)) for batch in given_up] == [
        (UNASSIGNED, [10, 20]),
        (UNASSIGNED, [150]),
    ]
    assert held.topics_waited_for() == ["t"]
    assert [at for batch in held.give_up_all() for at in _times(batch)] == [30]
    assert held.is_empty


def test_a_batch_in_flight_does_not_expire() -> None:
    held = _accumulator()
    _add(held, at=1)
    _add(held, at=150)
    flying = held.take(held.due(100)[0])
    assert [at for batch in held.expire(10_000) for at in _times(batch)] == [150]
    assert not held.is_empty
    assert _times(flying) == [1]


def _queue_with(*counts: int) -> PartitionQueue:
    queue = PartitionQueue("t", 0)
    for count in counts:
        batch = PendingBatch(topic="t", partition=0, opened_ms=0, generation=0, window=None)
        for at in range(count):
            batch.append((at, None, b"v", ()), 30)
        queue.closed.append(batch)
    return queue


def test_sequences_follow_on_each_other_and_a_batch_sent_again_keeps_its_own() -> None:
    queue = _queue_with(3, 2, 4)
    first = queue.take()
    queue.number(first, 70, 0)
    queue.again(first, 10)
    assert queue.take() is first
    queue.number(first, 99, 5)
    assert (first.producer_id, first.base_sequence) == (70, 0)
    queue.done(first)
    second = queue.take()
    queue.number(second, 99, 5)
    assert (second.producer_id, second.base_sequence) == (70, 3)


def test_a_refused_batchs_sequence_goes_to_the_next() -> None:
    queue = _queue_with(3, 2)
    first = queue.take()
    queue.number(first, 70, 0)
    queue.give_up(first)
    second = queue.take()
    queue.number(second, 70, 0)
    assert second.base_sequence == 0


def test_after_a_batch_of_unknown_fate_the_next_begins_under_a_new_producer_id() -> None:
    queue = _queue_with(3, 2)
    first = queue.take()
    queue.number(first, 70, 0)
    first.is_uncertain = True
    queue.give_up(first)
    assert queue.needs_producer_id(70)
    assert not queue.needs_producer_id(71)
    second = queue.take()
    queue.number(second, 71, 0)
    assert (second.producer_id, second.base_sequence) == (71, 0)


def test_a_partition_begins_again_with_the_batch_that_the_broker_could_not_place() -> None:
    queue = _queue_with(3, 2)
    first = queue.take()
    queue.number(first, 70, 0)
    queue.renumber(first)
    assert queue.needs_producer_id(70)
    queue.number(first, 71, 0)
    assert (first.producer_id, first.base_sequence) == (71, 0)


def test_sequences_wrap_where_kafkas_do() -> None:
    queue = _queue_with(3, 2)
    queue.producer_id, queue.next_sequence = 70, (1 << 31) - 2
    first = queue.take()
    queue.number(first, 70, 0)
    assert first.base_sequence == (1 << 31) - 2
    assert read_header(first.build(Codec.NONE)).base_sequence == (1 << 31) - 2
    assert queue.next_sequence == 1


class AccumulatorMachine(RuleBasedStateMachine):
    """Whatever is added, taken, done, sent again or given up: nothing is lost, doubled, mixed or out of order."""

    @initialize(window_ms=st.none() | st.just(WINDOW_MS))
    def begin(self, window_ms: int | None) -> None:
        self.held = _accumulator(window_ms)
        self.now_ms = 0
        self.number = 0
        self.added: dict[int, tuple[int, int]] = {}
        self.out: list[int] = []
        self.flying: list[tuple[PartitionQueue, PendingBatch]] = []
        self.acknowledged: dict[tuple[int, int], int] = defaultdict(int)
        self.by_partition: dict[int, list[int]] = defaultdict(list)

    @rule(partition=st.integers(0, 2), at=st.integers(0, 350), size=st.integers(0, 500))
    def add(self, partition: int, at: int, size: int) -> None:
        value = b"%d:" % self.number + b"x" * size
        self.added[self.number] = (partition, at)
        self.number += 1
        _add(self.held, partition=partition, at=at, value=value, now_ms=self.now_ms)

    @rule(by_ms=st.integers(1, 50))
    def wait(self, by_ms: int) -> None:
        self.now_ms += by_ms

    @rule()
    def take(self) -> None:
        for queue in self.held.due(self.now_ms):
            batch = self.held.take(queue)
            queue.number(batch, 70, 0)
            assert batch.record_count == 1 or batch.size_bytes <= BATCH_BYTES
            if self.held.window_ms is not None:
                assert len({at // WINDOW_MS for at in _times(batch)}) == 1
            assert batch.base_sequence == self.acknowledged[queue.partition, batch.producer_id]
            self.flying.append((queue, batch))

    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        if not self.flying:
            return
        queue, batch = self.flying.pop(data.draw(st.integers(0, len(self.flying) - 1)))
        match data.draw(st.sampled_from(["done", "again", "refused"])):
            case "done":
                queue.done(batch)
                self.acknowledged[queue.partition, batch.producer_id] += batch.record_count
                self._leave(batch)
                self.by_partition[batch.partition] += self._numbers(batch)
            case "again":
                queue.again(batch, self.now_ms + 10)
            case "refused":
                queue.give_up(batch)
                self._leave(batch)
        self.held.settle()

    @rule()
    def expire(self) -> None:
        for batch in self.held.expire(self.now_ms - 60):
            self._leave(batch)

    @invariant()
    def everything_is_held_or_out_exactly_once(self) -> None:
        if not hasattr(self, "held"):
            return
        inside = [number for queue in self.held.due(1 << 60) for batch in queue.batches() for number in self._numbers(batch)]
        flying = [number for queue, _ in self.flying for batch in queue.batches() for number in self._numbers(batch)]
        assert sorted([*inside, *flying, *self.out]) == list(range(self.number))
        for numbers in self.by_partition.values():
            assert numbers == sorted(numbers)

    def _leave(self, batch: PendingBatch) -> None:
        self.out += self._numbers(batch)

    @staticmethod
    def _numbers(batch: PendingBatch) -> list[int]:
        return [int((record.value or b"").split(b":")[0]) for record in iter_records(batch.build(Codec.NONE))]


AccumulatorMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAccumulator = AccumulatorMachine.TestCase
