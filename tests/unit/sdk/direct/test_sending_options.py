"""Options of one topic: key, partitioner, acks, codec, journal; and `alog`, which awaits room without holding the loop up."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.client.producer.partitioner import partition_for_key
from headrace.sdk import EventLogger, EventRefused, LoggerMisconfigured
from headrace.sdk.journal import JournalTransport, open_journals
from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import iter_records, read_header
from headrace.wire.errors import ErrorCode
from tests.support.scripted_broker import PRODUCE, Fault, ScriptedBroker
from tests.unit.sdk.logged import SCHEMA, Make, books_of, direct, events_of, records_of


def placed(broker: ScriptedBroker) -> dict[bytes | None, int]:
    """Return key → partition of each event."""
    return {
        record.key: partition
        for partition, held in enumerate(broker.topics["clicks"])
        for _, batch in held.batches
        for record in iter_records(bytes(batch))
    }


@pytest.mark.parametrize("key", ["page", lambda event: event["page"], lambda event: event["page"].encode()])
def test_events_of_one_key_go_where_kafkas_partitioner_puts_them(broker: ScriptedBroker, make: Make, key: Any) -> None:
    with make(key=key) as logger:
        for page in ("/a", "/b", "/c", "/d"):
            assert logger.log({"page": page}, event_time_ms=1)
        assert logger.log({"page": "/e"}, event_time_ms=1, key=b"given")
    keys = (b"/a", b"/b", b"/c", b"/d", b"given")
    assert placed(broker) == {one: partition_for_key(one, 2) for one in keys}


def test_a_partitioner_of_the_application_chooses(broker: ScriptedBroker, make: Make) -> None:
    with make(key="page", partitioner=lambda key, count: int(key) % count) as logger:
        for number in range(4):
            logger.log({"page": str(number)}, event_time_ms=1)
    assert placed(broker) == {b"0": 0, b"1": 1, b"2": 0, b"3": 1}


@pytest.mark.parametrize("partitioner", [lambda key, count: count, lambda key, count: 1 // 0])
def test_a_partitioner_that_fails_is_replaced_by_kafkas(broker: ScriptedBroker, make: Make, partitioner: Any) -> None:
    with make(key="page", partitioner=partitioner) as logger:
        logger.log({"page": "/a"}, event_time_ms=1)
        logger.flush()
        assert direct(logger)._producer.accumulator.partitioner_fault is not None
    assert placed(broker) == {b"/a": partition_for_key(b"/a", 2)}


@pytest.mark.parametrize("key", [lambda event: 7, lambda event: event["none"]])
def test_an_event_without_a_usable_key_is_refused(make: Make, key: Any) -> None:
    logger = make(key=key, on_bad_event="raise")
    with pytest.raises(EventRefused, match="key"):
        logger.log({"page": "/"}, event_time_ms=1)


def test_a_fields_number_or_null_is_a_key_or_none(broker: ScriptedBroker, make: Make) -> None:
    with make(key="event_time") as logger:
        logger.log({"page": "/", "event_time": 7})
        logger.log({"page": "/"})
    assert {record.key for record in records_of(broker, "clicks")} == {b"7", None}


@pytest.mark.parametrize("codec", list(Codec))
def test_each_codec_arrives(broker: ScriptedBroker, make: Make, codec: Codec) -> None:
    with make(codec=codec, linger_ms=50) as logger:
        for number in range(50):
            logger.log({"page": "/"}, event_time_ms=number)
    assert len(events_of(broker)) == 50
    headers = [read_header(bytes(batch)) for held in broker.topics["clicks"] for _, batch in held.batches]
    assert {header.codec for header in headers} == {codec}


def test_with_acks_1_the_request_says_so(broker: ScriptedBroker, make: Make) -> None:
    with make(acks=1) as logger:
        logger.log({"page": "/"}, event_time_ms=1)
        assert direct(logger)._producer._sender._acks == 1
    assert logger.ledger().acknowledged == 1


def test_a_logger_without_a_journal_needs_both_addresses() -> None:
    with pytest.raises(LoggerMisconfigured, match="neither a journal nor both bootstrap and registry_url"):
        EventLogger("clicks", SCHEMA, application="shop", bootstrap="127.0.0.1:1")


def test_a_logger_with_a_journal_needs_no_network(tmp_path: Path) -> None:
    with EventLogger("clicks", SCHEMA, application="shop", journal=tmp_path, key="page") as logger:
        assert isinstance(logger._transport, JournalTransport)
        assert logger.log({"page": "/a"}, event_time_ms=1)
        assert asyncio.run(logger.alog({"page": "/b"}, event_time_ms=2))
    found, _ = open_journals(tmp_path)
    (journal,) = found
    assert journal.head.instance == logger.instance
    ledger = logger.ledger()
    assert (ledger.taken, ledger.journaled, ledger.acknowledged) == (2, 2, 0)


def test_alog_awaits_room_while_the_loop_goes_on(broker: ScriptedBroker, make: Make) -> None:
    logger = make(buffer_bytes=500, linger_ms=1)
    turns = 0

    async def work() -> list[bool]:
        nonlocal turns
        broker.fail(PRODUCE, *[Fault(delay_ms=100)] * 3)
        waiting = [asyncio.create_task(logger.alog({"page": "x" * 100}, event_time_ms=1)) for _ in range(20)]
        while not all(task.done() for task in waiting):
            turns += 1
            await asyncio.sleep(0)
        return [task.result() for task in waiting]

    assert asyncio.run(work()) == [True] * 20
    assert turns > 20, "the loop turned while the events waited"
    logger.close()
    assert len(events_of(broker)) == 20


def test_alog_gives_up_in_time_and_counts_it(broker: ScriptedBroker, make: Make) -> None:
    logger = make(buffer_bytes=500, linger_ms=60_000)
    broker.fail(PRODUCE, *[Fault(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 10_000)

    async def work() -> list[bool]:
        return [await logger.alog({"page": "x" * 100}, event_time_ms=1, max_block_ms=20) for _ in range(6)]

    taken = asyncio.run(work())
    assert 0 < sum(taken) < 6
    assert not asyncio.run(logger.alog({"page": 7}, event_time_ms=1)), "refused, in quarantine"
    broker.faults[PRODUCE].clear()
    logger.close()
    assert books_of(broker) == {0: (sum(taken), {"dropped_buffer_full": 6 - sum(taken), "quarantined": 1})}


def test_a_batch_whose_first_event_is_not_the_oldest_is_as_the_wire_wants_it(broker: ScriptedBroker, make: Make) -> None:
    with make(linger_ms=60_000) as logger:
        for at in (500, 501, 3, 999, 0):
            logger.log({"page": str(at)}, event_time_ms=at)
    headers = [read_header(bytes(batch)) for held in broker.topics["clicks"] for _, batch in held.batches]
    assert [(header.base_timestamp_ms, header.max_timestamp_ms) for header in headers] == [(0, 999)]
    assert {event["page"] for _, event in events_of(broker)} == {"500", "501", "3", "999", "0"}


def test_many_threads_into_one_batch_lose_and_double_nothing(broker: ScriptedBroker, make: Make) -> None:
    logger = make(batch_bytes=20_000)

    def log_on(thread: int) -> None:
        for number in range(500):
            assert logger.log({"page": f"{thread}-{number}"}, event_time_ms=number)

    threads = [threading.Thread(target=log_on, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    logger.close()
    pages = [event["page"] for _, event in events_of(broker)]
    assert sorted(pages) == sorted(f"{thread}-{number}" for thread in range(4) for number in range(500))
