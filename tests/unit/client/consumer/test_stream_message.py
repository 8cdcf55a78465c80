"""Handing a batch out record by record, and telling precisely what of it was handed out."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audit.counter import WindowCounter
from headrace.client.consumer.stream_message import OpenBatch

from ..fetched_partitions import T0, stored


def test_messages_come_in_order_and_the_last_one_ends_where_the_batch_does() -> None:
    header, batch = stored(1_000, [b"a", b"b", b"c"])
    opened = OpenBatch(T0, 1, header, batch, 1_000)
    messages = [opened.next_message() for _ in range(3)]
    first = header.base_offset
    assert first > 1_000, "byte offsets: the gap in front belongs to the batch"
    assert [(m.offset, m.next_offset, m.value) for m in messages if m] == [
        (first, first + 1, b"a"),
        (first + 1, first + 2, b"b"),
        (first + 2, header.next_offset, b"c"),
    ]
    assert opened.next_message() is None


def test_records_before_the_asked_offset_are_not_handed_out_again() -> None:
    header, batch = stored(1_000, [b"a", b"b", b"c"])
    opened = OpenBatch(T0, 1, header, batch, header.base_offset + 2)
    message = opened.next_message()
    assert message is not None
    assert message.value == b"c"
    handed = opened.take_handed()
    assert handed is not None
    assert (handed.from_offset, handed.to_offset) == (header.base_offset + 2, header.next_offset)


def test_from_an_offset_in_the_gap_in_front_everything_from_there_on_is_handed_out() -> None:
    header, batch = stored(1_000, [b"a"])
    opened = OpenBatch(T0, 1, header, batch, 1_005)
    message = opened.next_message()
    assert message is not None
    assert message.next_offset == opened.position == header.next_offset
    handed = opened.take_handed()
    assert handed is not None
    assert (handed.from_offset, handed.to_offset) == (1_005, header.next_offset)


@settings(max_examples=100)
@given(st.integers(1, 12), st.integers(0, 14), st.lists(st.booleans(), min_size=13, max_size=13))
def test_what_is_told_as_handed_out_counts_each_record_exactly_once_wherever_one_settles(
    count: int, skip: int, settles: list[bool]
) -> None:
    header, batch = stored(5_000, [b"x"] * count, timestamp_ms=1)
    opened = OpenBatch(T0, 1, header, batch, header.base_offset + skip)
    counter, handed_out = WindowCounter(1), 0
    for settle in settles:
        message = opened.next_message()
        handed_out += message is not None
        if settle or message is None:
            handed = opened.take_handed()
            if handed is not None:
                counter.add(handed.header, handed.batch, from_offset=handed.from_offset, to_offset=handed.to_offset)
        if message is None:
            break
    offsets = [one.first + index for entries in counter.take().values() for one in entries for index in range(one.count)]
    assert offsets == list(range(header.base_offset + skip, header.base_offset + count))
    assert len(offsets) == handed_out == max(0, count - skip)
