"""Fetch and ListOffsets: the five rules of byte offsets, long polls, limits. Real sockets and logs, ZooKeeper played."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.log import BadRange
from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import iter_batches, iter_records
from headrace.wire.errors import ErrorCode
from headrace.wire.messages import fetch
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient, batch, fetch_body, fetched
from tests.support.serving_broker import ServingBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    topics: dict[str, int | tuple[int, dict[str, str]]] = {
        "clicks": 1,
        "many": 50,
        "flushed": (1, {"flush.messages": "2", "flush.ms": "60000"}),
        "rolling": (1, {"segment.bytes": "200"}),
    }
    with ServingBroker(tmp_path, topics=topics) as serving:
        yield serving


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as raw:
        yield raw


def values(answer: fetch.FetchResponsePartition) -> list[bytes | None]:
    assert isinstance(answer.records, memoryview | bytes)
    return [record.value for _, data in iter_batches(answer.records) for record in iter_records(data)]


@pytest.mark.parametrize("version", range(4, 13))
def test_each_version_reads_what_was_written(broker: ServingBroker, client: RawClient, version: int) -> None:
    client.produce("clicks", batch(b"one", b"two"))
    body = client.request(fetch.API_KEY, version, fetch_body([("clicks", 0, 0)], version=version))
    answer = fetched(version, body)["clicks", 0]
    assert values(answer) == [b"one", b"two"]
    end = broker.partition("clicks").log.log_end_offset
    assert (answer.high_watermark, answer.last_stable_offset) == (end, end)
    assert answer.aborted is None or answer.aborted == []


def test_a_fetch_in_the_middle_of_a_batch_gets_the_whole_batch(client: RawClient) -> None:
    client.produce("clicks", batch(b"one", b"two", b"three"))
    assert values(client.fetch("clicks", 2)) == [b"one", b"two", b"three"]


def test_every_offset_from_a_batchs_position_to_the_next_ones_gets_that_batch(client: RawClient) -> None:
    first, second = batch(b"one", b"two"), batch(b"three")
    assert client.produce("clicks", first).base_offset == len(first) - 2
    client.produce("clicks", second)
    for offset in range(len(first)):
        assert values(client.fetch("clicks", offset, max_bytes=1)) == [b"one", b"two"]
    for offset in range(len(first), len(first) + len(second)):
        assert values(client.fetch("clicks", offset)) == [b"three"]


def test_the_end_is_the_last_records_offset_and_one_so_that_clients_see_that_they_have_read_all(client: RawClient) -> None:
    data = batch(b"one", b"two")
    last = client.produce("clicks", data).base_offset + 1
    answer = client.fetch("clicks", last + 1)
    assert len(answer.records or b"") == 0
    assert (answer.error_code, answer.high_watermark) == (0, last + 1)


def test_where_all_up_to_the_end_is_damaged_the_high_watermark_is_the_fetch_offset_so_that_nobody_waits_for_it(
    tmp_path: Path,
) -> None:
    whole, spoiled = batch(b"one"), batch(b"two")
    end = len(whole) + len(spoiled)
    with ServingBroker(tmp_path, topics={"t": 1}) as broker, broker.client() as client:
        client.produce("t", whole)
        client.produce("t", spoiled)
    (segment,) = (tmp_path / "t-0").glob("*.log")
    with segment.open("r+b") as file:
        file.seek(end - 1)
        file.write(b"\x07")
    segment.with_name(f"{end:020d}.log").touch()  # As after a roll: else it would be a torn tail, which is cut.
    with ServingBroker(tmp_path, topics={"t": 1}) as broker, broker.client() as client:
        assert client.fetch("t", 0).high_watermark == end
        for offset in (len(whole), len(whole) + 9):
            answer = client.fetch("t", offset)
            assert len(answer.records or b"") == 0
            assert (answer.error_code, answer.high_watermark) == (0, offset)
        client.produce("t", batch(b"three"))
        assert values(client.fetch("t", len(whole))) == [b"three"]


def test_a_reader_of_a_replica_waits_in_front_of_damage_until_it_is_repaired(tmp_path: Path) -> None:
    """KAFKA_STORAGE_ERROR is retried by every client. Behind the damage its group would lose the records."""
    batches = [batch(b"one"), batch(b"two"), batch(b"three")]
    with ServingBroker(tmp_path / "data", topics={"t": 1}) as broker, broker.client() as client:
        for data in batches:
            client.produce("t", data)
        first, second = len(batches[0]), len(batches[0]) + len(batches[1])
        log = broker.partition("t").log
        region = log.read(first, 1)
        assert region is not None
        whole = region.read()
        log.skips_damage = False
        assert log.comparison.note_bad(BadRange(first, second, "flipped"))
        for _ in range(2):  # the second time as a fetch that is known
            answer = client.fetch("t", first)
            assert (answer.error_code, len(answer.records or b"")) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
        assert values(client.fetch("t", 0)) == [b"one"]
        assert values(client.fetch("t", second)) == [b"three"]
        log.comparison.repair_job(log.bad_ranges[0], memoryview(whole), tmp_path / "aside").run_to_end()
        assert values(client.fetch("t", first)) == [b"two", b"three"]


def test_a_topics_id_in_the_place_of_its_name_is_understood(broker: ServingBroker, client: RawClient) -> None:
    """`@platformatic/kafka` 1.35 sends the id that it has from Metadata 12 with a Fetch that goes by names."""
    client.produce("clicks", batch(b"one"))
    topic_id = str(broker.topics.catalog.topics["clicks"].topic_id)
    for offset in (0, 1):  # the second time as a fetch that is known
        assert values(client.fetch(topic_id, offset)) == [b"one"]
    stranger = client.fetch("00000000-0000-4000-8000-000000000000", 0)
    assert stranger.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_when_others_used_up_max_bytes_the_high_watermark_is_the_true_one(broker: ServingBroker, client: RawClient) -> None:
    data = batch(b"x" * 100)
    for partition in range(50):
        if partition != 20:
            client.produce("many", data, partition=partition)
    wanted = [("many", partition, 0) for partition in range(50)]
    answers = client.fetch_many(wanted, max_bytes=10)
    assert len(answers["many", 0].records or b"") == len(data), "at least one batch, whatever max_bytes says"
    for partition in range(1, 50):
        answer = answers["many", partition]
        assert len(answer.records or b"") == 0
        assert answer.high_watermark == (0 if partition == 20 else len(data))
    seen = sorted(partition for (_, partition), answer in rotating(client, wanted) if values(answer))
    assert seen == [partition for partition in range(50) if partition != 20]


def rotating(
    client: RawClient, wanted: list[tuple[str, int, int]]
) -> Iterator[tuple[tuple[str, int], fetch.FetchResponsePartition]]:
    """Fetch all partitions with a tiny max_bytes; each is first in one request, as with real clients."""
    for first in range(len(wanted)):
        answers = client.fetch_many(wanted[first:] + wanted[:first], max_bytes=10)
        yield wanted[first][:2], answers[wanted[first][:2]]


def test_max_bytes_bounds_the_whole_answer_after_the_first_batch(client: RawClient) -> None:
    data = batch(b"x" * 1_000)
    for partition in range(10):
        client.produce("many", data, partition=partition)
    answers = client.fetch_many([("many", partition, 0) for partition in range(10)], max_bytes=3 * len(data) + 10)
    assert sum(len(answer.records or b"") for answer in answers.values()) == 3 * len(data)


def test_partition_max_bytes_gives_whole_batches_only(client: RawClient) -> None:
    data = batch(b"x" * 100)
    for _ in range(10):
        client.produce("clicks", data)
    body = fetch_body([("clicks", 0, 0)], partition_max_bytes=len(data) * 3 + 5)
    answer = fetched(12, client.request(fetch.API_KEY, 12, body))["clicks", 0]
    assert len(answer.records or b"") == 3 * len(data)


def test_a_batch_with_more_records_than_bytes_ends_the_answer_and_the_next_follows(client: RawClient) -> None:
    client.produce("clicks", batch(*[b"same"] * 5_000, codec=Codec.ZSTD))
    client.produce("clicks", batch(b"next"))
    first = client.fetch("clicks", 0)
    assert len(values(first)) == 5_000
    assert values(client.fetch("clicks", 5_000)) == [b"next"]


def test_reading_on_crosses_segments(client: RawClient) -> None:
    for number in range(20):
        client.produce("rolling", batch(b"%d" % number * 40))
    offset, seen = 0, list[bytes | None]()
    while records := client.fetch("rolling", offset).records:
        assert isinstance(records, memoryview)
        for header, data in iter_batches(records):
            seen += [record.value for record in iter_records(data)]
            offset = header.next_offset
    assert seen == [b"%d" % number * 40 for number in range(20)]


@pytest.mark.parametrize("offset", [-5, 10_000])
def test_an_offset_outside_of_the_log_is_out_of_range_and_the_answer_says_where_the_log_is(
    client: RawClient, offset: int
) -> None:
    data = batch(b"one")
    client.produce("clicks", data)
    answer = client.fetch("clicks", offset, max_wait_ms=60_000)
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (answer.log_start_offset, answer.high_watermark) == (0, len(data))


def test_an_unknown_partition_is_answered_at_once(client: RawClient) -> None:
    answers = client.fetch_many([("clicks", 0, 0), ("clicks", 9, 0), ("nowhere", 0, 0)], max_wait_ms=60_000)
    assert answers["clicks", 9].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answers["nowhere", 0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answers["clicks", 0].error_code == 0


# -- long polls ----------------------------------------


def test_a_fetch_waits_at_the_tail_and_wakes_with_the_next_append(broker: ServingBroker, client: RawClient) -> None:
    client.send(fetch.API_KEY, 12, fetch_body([("clicks", 0, 0)], max_wait_ms=60_000))
    with broker.client() as other:
        other.produce("clicks", batch(b"one"))
    _, body = client.receive(fetch.API_KEY, 12)
    assert values(fetched(12, body)["clicks", 0]) == [b"one"]


def test_a_fetch_waits_for_min_bytes_over_several_appends(broker: ServingBroker, client: RawClient) -> None:
    data = batch(b"x" * 100)
    client.send(fetch.API_KEY, 12, fetch_body([("many", 3, 0), ("many", 4, 0)], max_wait_ms=60_000, min_bytes=3 * len(data)))
    with broker.client() as other:
        for partition in (3, 4, 3):
            other.produce("many", data, partition=partition)
    answers = fetched(12, client.receive(fetch.API_KEY, 12)[1])
    assert [len(answers["many", partition].records or b"") for partition in (3, 4)] == [2 * len(data), len(data)]


def test_a_fetch_that_has_waited_max_wait_is_answered_with_what_there_is(client: RawClient) -> None:
    client.produce("clicks", batch(b"one"))
    begun = time.monotonic()
    answer = client.fetch("clicks", 0, max_wait_ms=200, min_bytes=1_000_000)
    assert values(answer) == [b"one"]
    assert time.monotonic() - begun >= 0.19


def test_requests_behind_a_parked_fetch_are_answered_after_it_in_order(client: RawClient) -> None:
    first = client.send(fetch.API_KEY, 12, fetch_body([("clicks", 0, 0)], max_wait_ms=300))
    second = client.send(fetch.API_KEY, 12, fetch_body([("clicks", 0, 0)]))
    third = client.send(fetch.API_KEY, 12, fetch_body([("clicks", 0, 0)], max_wait_ms=50))
    assert [client.receive(fetch.API_KEY, 12)[0] for _ in range(3)] == [first, second, third]


def test_a_client_that_has_finished_sending_gets_its_parked_fetches_at_once(broker: ServingBroker, client: RawClient) -> None:
    for _ in range(500):
        client.send(fetch.API_KEY, 12, fetch_body([("clicks", 0, 0)], max_wait_ms=60_000))
    client.socket.shutdown(socket.SHUT_WR)
    for number in range(500):
        assert client.receive(fetch.API_KEY, 12)[0] == number + 1
    assert client.is_closed_by_peer()
    eventually(lambda: broker.server.connection_count == 0, what="the connection forgotten")


def test_a_fetch_whose_client_vanished_waits_no_more(broker: ServingBroker) -> None:
    with broker.client() as client:
        client.send(fetch.API_KEY, 12, fetch_body([("clicks", 0, 0)], max_wait_ms=60_000))
        eventually(lambda: len(broker.partition("clicks")._waiters) == 1, what="the fetch parked")
    eventually(lambda: len(broker.partition("clicks")._waiters) == 0, what="the fetch gone")


def test_a_fetch_parked_at_a_topic_that_is_deleted_is_told(broker: ServingBroker, client: RawClient) -> None:
    client.send(fetch.API_KEY, 12, fetch_body([("clicks", 0, 0)], max_wait_ms=60_000))
    eventually(lambda: len(broker.partition("clicks")._waiters) == 1, what="the fetch parked")
    broker.on_loop(lambda: broker.topics.delete("clicks", lambda outcome: None))
    answer = fetched(12, client.receive(fetch.API_KEY, 12)[1])["clicks", 0]
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_many_parked_fetches_and_early_answers_leave_few_timers(broker: ServingBroker, client: RawClient) -> None:
    with broker.client() as producer:
        offset = 0
        for _ in range(200):
            client.send(fetch.API_KEY, 12, fetch_body([("clicks", 0, offset)], max_wait_ms=60_000))
            producer.produce("clicks", batch(b"x"))
            answer = fetched(12, client.receive(fetch.API_KEY, 12)[1])["clicks", 0]
            offset += len(answer.records or b"")
    assert len(broker.loop._timers) < 20


# -- visibility ----------------------------------------


def test_under_a_forced_flush_policy_a_message_is_shown_once_it_is_on_disk(broker: ServingBroker, client: RawClient) -> None:
    one = batch(b"one")
    assert client.produce("flushed", one).error_code == 0
    assert len(client.fetch("flushed", 0).records or b"") == 0
    assert latest(client, "flushed") == 0
    with broker.client() as reader:
        reader.send(fetch.API_KEY, 12, fetch_body([("flushed", 0, 0)], max_wait_ms=60_000))
        client.produce("flushed", batch(b"two"))
        answer = fetched(12, reader.receive(fetch.API_KEY, 12)[1])["flushed", 0]
    assert values(answer) == [b"one", b"two"]
    assert broker.partition("flushed").log.flushed_offset == answer.high_watermark


def test_flush_messages_alone_does_not_keep_a_bursts_last_messages_unseen(tmp_path: Path) -> None:
    with ServingBroker(tmp_path, topics={"t": (1, {"flush.messages": "1000"})}) as broker, broker.client() as client:
        client.produce("t", batch(b"one"))
        answer = client.fetch("t", 0, max_wait_ms=30_000)
        assert values(answer) == [b"one"]


# -- offsets ----------------------------------------


def asked(client: RawClient, topic: str, timestamp_ms: int, version: int = 7, partition: int = 0) -> tuple[int, int, int]:
    message = {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": topic, "partitions": [{"partition_index": partition, "timestamp": timestamp_ms}]}],
    }
    (answer,) = client.ask(2, version, message).topics[0].partitions
    return int(answer.error_code), answer.offset, answer.timestamp


def latest(client: RawClient, topic: str) -> int:
    return asked(client, topic, -1)[1]


@pytest.mark.parametrize("version", range(1, 8))
def test_offsets_by_place_and_time_in_each_version(client: RawClient, version: int) -> None:
    first = batch(b"a", timestamp_ms=1_000)
    second = batch(b"b", b"c", timestamp_ms=2_000)
    client.produce("clicks", first)
    client.produce("clicks", second)
    assert asked(client, "clicks", -2, version) == (0, 0, -1)
    assert asked(client, "clicks", -1, version) == (0, len(first) + len(second), -1)
    end = len(first) + len(second)
    assert asked(client, "clicks", 500, version) == (0, len(first) - 1, 1_000)
    assert asked(client, "clicks", 1_001, version) == (0, end - 2, 2_000)
    assert asked(client, "clicks", 2_001, version) == (0, -1, -1)
    if version >= 7:
        assert asked(client, "clicks", -3, version) == (0, end - 2, 2_000)


def test_offsets_of_what_is_not_here_are_an_error_never_0(client: RawClient) -> None:
    assert asked(client, "nowhere", -1) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert asked(client, "clicks", -1, partition=5) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert asked(client, "clicks", -17)[0] == ErrorCode.UNSUPPORTED_VERSION


def test_reading_and_writing_at_once_loses_and_doubles_nothing(broker: ServingBroker) -> None:
    def write() -> None:
        with broker.client() as writer:
            for number in range(500):
                writer.produce("clicks", batch(b"%d" % number))

    thread = threading.Thread(target=write)
    thread.start()
    seen, offset = list[bytes | None](), 0
    with broker.client() as reader:
        while len(seen) < 500:
            answer = reader.fetch("clicks", offset, max_wait_ms=5_000)
            for header, data in iter_batches(answer.records):  # type: ignore[arg-type]
                seen += [record.value for record in iter_records(data)]
                offset = header.base_offset + header.record_count
    thread.join()
    assert seen == [b"%d" % number for number in range(500)]
