"""Records may be done in any order; what their ends bring about happens in the order of the log."""

import asyncio
import threading

from hypothesis import given
from hypothesis import strategies as st

from headrace.client.consumer.stream_message import Message
from headrace.client.fetch.fetched import TopicPartition
from headrace.reader.handoff import Handoff
from headrace.reader.in_flight import InFlight
from headrace.reader.record import EventRecord

NAME, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def record(offset: int, name: TopicPartition = NAME) -> EventRecord:
    return EventRecord(Message(*name, offset, offset + 1, 5, None, b"x" * 10, ()), 1, None)


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_acts_come_in_order_and_the_first_that_is_not_done_bounds_the_position(are_records: list[bool], random: object) -> None:
    flight, acted = InFlight(), list[int]()
    for offset, is_record in enumerate(are_records):
        if is_record:
            flight.add(NAME, offset)
        else:
            flight.behind(NAME, offset, lambda offset=offset: acted.append(offset))
    due = [offset for offset, is_record in enumerate(are_records) if is_record]
    random.shuffle(due)  # type: ignore[attr-defined]
    left = set(due)
    for offset in due:
        flight.done(NAME, offset, lambda offset=offset: acted.append(offset))
        left.discard(offset)
        end = min(left, default=len(are_records))
        assert acted == [*range(end)]
        assert flight.first(NAME) == (min(left) if left else None)
    assert (flight.count, flight.is_idle(NAME)) == (0, True)


def test_what_is_dropped_acts_no_more() -> None:
    flight, acted = InFlight(), list[int]()
    for offset in range(5):
        flight.add(NAME, offset)
        flight.add(OTHER, offset)
    assert flight.drop_from(NAME, 3) == 2
    assert flight.drop([OTHER]) == 5
    for offset in reversed(range(5)):
        flight.done(NAME, offset, lambda offset=offset: acted.append(offset))
        flight.done(OTHER, offset, lambda: acted.append(-1))
    assert acted == [0, 1, 2]


def test_the_queue_to_the_event_loop_is_bounded_and_a_hold_stops_it() -> None:
    handoff = Handoff(most_records=3)

    async def main() -> None:
        for offset in range(3):
            assert handoff.has_room
            handoff.put(record(offset))
        assert not handoff.has_room
        assert (await handoff.get()) == record(0)
        assert handoff.has_room
        handoff.hold()
        waits = asyncio.create_task(handoff.get())
        await asyncio.sleep(0.05)
        assert not waits.done()
        assert handoff.has_in_hand([NAME])
        handoff.done(record(0))
        assert [one.record.offset for one in handoff.take_done()] == [0]
        assert not handoff.has_in_hand()
        threading.Timer(0.01, handoff.release).start()
        assert (await waits) == record(1)
        assert [one.offset for one in handoff.purge([NAME])] == [2]
        ends = asyncio.create_task(handoff.get())
        threading.Timer(0.01, handoff.end).start()
        assert (await ends) is None

    asyncio.run(main())


def test_the_queue_is_bounded_by_bytes_too() -> None:
    handoff = Handoff(most_bytes=15)
    handoff.put(record(0))
    assert handoff.has_room
    handoff.put(record(1))
    assert not handoff.has_room
