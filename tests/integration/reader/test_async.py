"""`async with`, `async for` and `run_async` against a real broker: what is done is committed, and nothing else."""

import asyncio
import contextlib

import pytest

from headrace.reader import EventReader, EventRecord, HandlerFailed, Quarantine
from tests.support.live_side import LiveSide
from tests.support.processes import eventually

from .test_run import Running
from .topics import Topic


def again(topic: Topic, expected: list[int]) -> None:
    """A second start reads just these."""
    second = Running(topic.reader())
    eventually(lambda: set(second.numbers) >= {*expected}, what=f"{expected} again")
    second.stop()
    assert second.numbers == expected


async def read(reader: EventReader[object], count: int) -> list[int]:
    found: list[int] = []
    async with reader:
        async for record in reader:
            found.append(record.event["number"])
            if len(found) == count:
                break
    return found


def test_each_record_is_done_when_the_next_is_asked_for_or_the_block_is_left(live: LiveSide) -> None:
    topic = Topic(live, partitions=1).send(range(100))
    reader = topic.reader()
    assert asyncio.run(asyncio.wait_for(read(reader, 40), 30)) == [*range(40)]
    found = reader.statistics
    assert found.is_balanced
    assert (found.handled, found.in_work) == (40, 0), "what was read ahead is given back"
    again(topic, [*range(40, 100)])


def test_an_exception_in_the_block_leaves_its_record_undone(live: LiveSide) -> None:
    topic = Topic(live, partitions=1).send(range(10)).poison(b"no avro").send(range(10, 20))

    async def fails_at(number: int) -> None:
        async with topic.reader() as reader:
            async for record in reader:
                if record.event["number"] == number:
                    raise ValueError("not this one")

    with pytest.raises(ValueError, match="not this one"):
        asyncio.run(asyncio.wait_for(fails_at(12), 30))
    again(topic, [*range(12, 20)])


def test_a_cancelled_task_commits_what_was_done(live: LiveSide) -> None:
    topic, done = Topic(live, partitions=1).send(range(10)), list[int]()

    async def main() -> None:
        async def work() -> None:
            async with topic.reader() as reader:
                async for record in reader:
                    if record.event["number"] == 7:
                        await asyncio.sleep(1_000)
                    done.append(record.event["number"])

        task = asyncio.create_task(work())
        while done != [*range(7)]:
            await asyncio.sleep(0.02)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()

    asyncio.run(asyncio.wait_for(main(), 60))
    again(topic, [7, 8, 9])


def test_waiting_for_the_next_record_with_a_timeout_loses_none(live: LiveSide) -> None:
    topic, found, given_up = Topic(live, partitions=1), list[int](), 0

    async def main() -> None:
        nonlocal given_up
        async with topic.reader() as reader:
            records = aiter(reader)
            while len(found) < 30:
                try:
                    found.append((await asyncio.wait_for(anext(records), 0.02)).event["number"])
                except TimeoutError:
                    given_up += 1
                    if given_up == 10:
                        topic.send(range(15, 30))

    topic.send(range(15))
    asyncio.run(asyncio.wait_for(main(), 60))
    assert found == [*range(30)]
    assert given_up >= 10


def test_with_concurrency_only_the_contiguous_end_is_committed(live: LiveSide) -> None:
    topic, done, most = Topic(live, partitions=1).send(range(60)), list[int](), [0, 0]
    reader = topic.reader()

    async def handle(record: EventRecord) -> None:
        most[0] += 1
        most[1] = max(most)
        try:
            if record.event["number"] == 20:
                await asyncio.sleep(1_000)
            await asyncio.sleep(0.002)
            done.append(record.event["number"])
        finally:
            most[0] -= 1

    async def main() -> None:
        task = asyncio.create_task(reader.run_async(handle, concurrency=8))
        while len(done) < 59:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.5)  # flushes go by
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(main(), 60))
    assert sorted(done) == [*range(20), *range(21, 60)]
    assert most[1] == 8
    again(topic, [*range(20, 60)])
    found = reader.statistics
    assert found.is_balanced
    assert (found.handled, found.given_back) == (20, 40)


def test_an_error_stops_all_workers_in_front_of_its_record(live: LiveSide) -> None:
    topic = Topic(live, partitions=1).send(range(30))

    async def handle(record: EventRecord) -> None:
        await asyncio.sleep(0.001)
        if record.event["number"] == 11:
            raise RuntimeError("not this one")

    with pytest.raises(HandlerFailed, match="not this one"):
        asyncio.run(asyncio.wait_for(topic.reader().run_async(handle, concurrency=4), 30))
    again(topic, [*range(11, 30)])


def test_what_always_fails_goes_to_quarantine_and_stop_ends_it(live: LiveSide) -> None:
    topic, done = Topic(live, partitions=2).send(range(30)), set[int]()
    reader = topic.reader()

    async def handle(record: EventRecord) -> None:
        if record.event["number"] in (3, 8):
            raise RuntimeError("not this one")
        done.add(record.event["number"])

    async def main() -> None:
        task = asyncio.create_task(reader.run_async(handle, concurrency=5, on_error=Quarantine(after=2)))
        while len(done) < 28 or reader.statistics.quarantined < 2:
            await asyncio.sleep(0.02)
        reader.stop()
        await task

    asyncio.run(asyncio.wait_for(main(), 60))
    assert [code for _, _, code in topic.quarantined()] == ["handler_failed"] * 2
    assert topic.committed() == topic.ends()
    found = reader.statistics
    assert (found.read, found.handled, found.quarantined) == (30, 28, 2)


def test_members_share_the_partitions_and_a_handover_hands_out_nothing_twice(live: LiveSide) -> None:
    topic, seen = Topic(live, partitions=4).send(range(100)), list[int]()

    async def handle(record: EventRecord) -> None:
        await asyncio.sleep(0.005)
        seen.append(record.event["number"])

    async def main() -> None:
        one, two = topic.reader(), topic.reader()
        first = asyncio.create_task(one.run_async(handle, concurrency=3))
        while len(seen) < 20:
            await asyncio.sleep(0.01)
        second = asyncio.create_task(two.run_async(handle, concurrency=3))
        while two.statistics.read == 0:
            await asyncio.sleep(0.05)
            if len(seen) >= 100:
                await asyncio.to_thread(topic.send, range(1_000, 1_004))
        one.stop()
        await first
        while len({*seen} & {*range(100)}) < 100:
            await asyncio.sleep(0.05)
        two.stop()
        await second

    asyncio.run(asyncio.wait_for(main(), 60))
    old = [one for one in seen if one < 100]
    assert sorted(old) == [*range(100)]


def test_a_start_that_fails_is_told_where_the_first_record_is_awaited() -> None:
    reader = EventReader("clicks", group="g", bootstrap="127.0.0.1:1", registry_url="http://127.0.0.1:1", zookeeper="127.0.0.1:1")

    async def main() -> None:
        async with reader:
            async for _ in reader:
                raise AssertionError("there is nothing to read")

    with pytest.raises(Exception, match=r"ZooKeeper|zookeeper"):
        asyncio.run(asyncio.wait_for(main(), 60))
