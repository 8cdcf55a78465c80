"""Topics with `message.timestamp.type=LogAppendTime`: the broker's time instead of the producer's.

Real sockets and logs; ZooKeeper is played, and the clock makes no progress at `NOW_MS`.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.handlers import incremental_alter_configs, list_offsets
from headrace.broker.handlers.incremental_alter_configs import Operation
from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import crc_matches, iter_batches, iter_records
from headrace.wire.errors import ErrorCode
from tests.support.raw_kafka import RawClient, batch
from tests.support.serving_broker import NOW_MS, ServingBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    topics: dict[str, int | tuple[int, dict[str, str]]] = {
        "events": 1,
        "arrivals": (1, {"message.timestamp.type": "LogAppendTime"}),
        "durable": (1, {"message.timestamp.type": "LogAppendTime", "flush.ack": "always"}),
        "copied": (1, {"headrace.mirror": "true"}),
    }
    with ServingBroker(tmp_path, topics=topics) as serving:
        yield serving


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as raw:
        yield raw


def times(client: RawClient, topic: str) -> list[int]:
    found = []
    for header, data in iter_batches(client.fetch(topic, 0).records):
        assert crc_matches(data, 0, header.size_bytes)
        found += [record.timestamp_ms for record in iter_records(data)]
    return found


def switch(client: RawClient, topic: str, *values: tuple[str, str]) -> tuple[ErrorCode, str]:
    configs = [{"name": name, "config_operation": Operation.SET, "value": value} for name, value in values]
    resource = {"resource_type": 2, "resource_name": topic, "configs": configs}
    (answer,) = client.ask(incremental_alter_configs.KEY, 1, {"resources": [resource], "validate_only": False}).responses
    return ErrorCode(answer.error_code), answer.error_message or ""


@pytest.mark.parametrize("topic", ["arrivals", "durable"])
@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("version", [3, 9])
def test_every_record_has_the_brokers_time_and_the_producer_is_told_it(
    client: RawClient, topic: str, codec: Codec, version: int
) -> None:
    for _ in range(3):
        answer = client.produce(topic, batch(b"one", b"two", codec=codec), version=version)
        assert (answer.error_code, answer.log_append_time_ms) == (0, NOW_MS)
    assert times(client, topic) == [NOW_MS] * 6


def test_other_topics_keep_their_producers_time_and_answer_none(client: RawClient) -> None:
    answer = client.produce("events", batch(b"one"))
    assert (answer.error_code, answer.log_append_time_ms) == (0, -1)
    assert NOW_MS not in times(client, "events")


def test_a_retried_batch_is_answered_with_the_time_it_was_first_given(broker: ServingBroker, client: RawClient) -> None:
    data = batch(b"one", producer_id=9, epoch=0, sequence=0)
    first, again = client.produce("arrivals", data), client.produce("arrivals", data)
    assert (again.error_code, again.base_offset, again.log_append_time_ms) == (0, len(data) - 1, NOW_MS)
    assert again == first
    # The topic's present setting does not matter: the batch stays as it was.
    assert switch(client, "arrivals", ("message.timestamp.type", "CreateTime")) == (ErrorCode.NONE, "")
    assert client.produce("arrivals", data).log_append_time_ms == NOW_MS
    assert client.produce("events", data) == client.produce("events", data)


def test_a_topic_that_changes_its_mind_stamps_from_then_on_and_no_longer(client: RawClient) -> None:
    original = batch(b"one")
    client.produce("events", original)
    (given,) = times(client, "events")
    assert switch(client, "events", ("message.timestamp.type", "LogAppendTime"))[0] == ErrorCode.NONE
    client.produce("events", original)
    assert switch(client, "events", ("message.timestamp.type", "CreateTime"))[0] == ErrorCode.NONE
    client.produce("events", original)
    assert times(client, "events") == [given, NOW_MS, given]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_offsets_are_found_by_append_time(client: RawClient, codec: Codec) -> None:
    first = client.produce("arrivals", batch(b"one", b"two", codec=codec)).base_offset

    def asked(timestamp_ms: int) -> tuple[int, int]:
        partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp_ms}
        request = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": "arrivals", "partitions": [partition]}]}
        (answer,) = client.ask(list_offsets.KEY, 7, request).topics[0].partitions
        return int(answer.offset), int(struct.unpack(">q", struct.pack(">q", answer.timestamp))[0])

    assert asked(0) == (first, NOW_MS)
    assert asked(NOW_MS) == (first, NOW_MS)
    assert asked(NOW_MS + 1) == (-1, -1)
    assert asked(list_offsets.MAX_TIMESTAMP) == (first, NOW_MS)


def test_a_mirror_copies_stamped_batches_byte_for_byte(client: RawClient) -> None:
    for codec in (Codec.NONE, Codec.LZ4):
        client.produce("arrivals", batch(b"one", b"two", codec=codec))
    source = bytes(client.fetch("arrivals", 0).records)
    answer = client.produce("copied", source, conditional_start=0)
    assert (answer.error_code, answer.log_append_time_ms) == (0, -1)
    assert bytes(client.fetch("copied", 0).records) == source


def test_a_mirrored_topic_refuses_append_time_in_one_step_or_two_and_goes_on_copying(
    broker: ServingBroker, client: RawClient
) -> None:
    code, why = switch(client, "copied", ("message.timestamp.type", "LogAppendTime"))
    assert (code, "copy byte for byte" in why) == (ErrorCode.INVALID_CONFIG, True)
    code, why = switch(client, "arrivals", ("headrace.mirror", "true"))
    assert (code, "copy byte for byte" in why) == (ErrorCode.INVALID_CONFIG, True)
    both = (("headrace.mirror", "true"), ("message.timestamp.type", "LogAppendTime"))
    assert switch(client, "events", *both)[0] == ErrorCode.INVALID_CONFIG
    # Two concurrent changes can still set both. Then the batch is copied unchanged, without a new time.
    broker.on_loop(lambda: broker.topics.configure("copied", lambda _: dict(both), lambda outcome: None))
    client.produce("events", batch(b"one"))
    source = bytes(client.fetch("events", 0).records)
    assert client.produce("copied", source, conditional_start=0).error_code == 0
    assert bytes(client.fetch("copied", 0).records) == source


def test_leaving_the_mirror_and_stamping_at_once_is_taken(client: RawClient) -> None:
    assert switch(client, "copied", ("headrace.mirror", "false"), ("message.timestamp.type", "LogAppendTime"))[0] == 0
    assert client.produce("copied", batch(b"one")).log_append_time_ms == NOW_MS
