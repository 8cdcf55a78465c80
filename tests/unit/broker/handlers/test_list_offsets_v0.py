"""ListOffsets version 0, which librdkafka before 1.6 asks for begin and end. Real sockets and logs, ZooKeeper played."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.wire.errors import ErrorCode, MalformedFrame
from headrace.wire.generators import run_to_end
from headrace.wire.messages import list_offsets_v0
from headrace.wire.messages.control import MOST_ELEMENTS
from headrace.wire.messages.list_offsets_v0 import Wanted
from tests.support.raw_kafka import RawClient, batch
from tests.support.serving_broker import NOW_MS, ServingBroker

SIZE = len(batch(b"x" * 50))


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def request(*wanted: tuple[str, int, int, int]) -> bytes:
    """Return a body from topic, partition, time and how many offsets are wanted."""
    topics = [text(topic) + struct.pack(">iiqi", 1, *rest) for topic, *rest in wanted]
    return struct.pack(">ii", -1, len(topics)) + b"".join(topics)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path, topics={"clicks": 1, "rolls": (1, {"segment.bytes": str(2 * SIZE)})}) as serving:
        yield serving


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as raw:
        yield raw


def asked(client: RawClient, topic: str, timestamp_ms: int, most: int = 1, partition: int = 0) -> tuple[int, list[int]]:
    answer = bytes(client.request(2, 0, request((topic, partition, timestamp_ms, most))))
    head = struct.pack(">i", 1) + text(topic) + struct.pack(">ii", 1, partition)
    assert answer.startswith(head)
    error, count = struct.unpack_from(">hi", answer, len(head))
    offsets = list(struct.unpack_from(f">{count}q", answer, len(head) + 6))
    assert len(answer) == len(head) + 6 + 8 * count
    return error, offsets


def test_begin_and_end_are_told_to_old_librdkafka(client: RawClient) -> None:
    assert asked(client, "clicks", -1) == asked(client, "clicks", -2) == (0, [0])
    client.produce("clicks", batch(b"x" * 50))
    assert asked(client, "clicks", -1) == (0, [SIZE])
    assert asked(client, "clicks", -2) == (0, [0])
    assert asked(client, "clicks", -2, most=5) == (0, [0])


def test_segments_are_found_by_when_they_were_last_written_the_latest_first(client: RawClient) -> None:
    for _ in range(5):
        client.produce("rolls", batch(b"x" * 50))
    every = [5 * SIZE, 4 * SIZE, 2 * SIZE, 0]
    assert asked(client, "rolls", -1, most=10) == (0, every)
    assert asked(client, "rolls", -1, most=2) == (0, every[:2])
    assert asked(client, "rolls", NOW_MS, most=10) == (0, every)
    assert asked(client, "rolls", NOW_MS - 1, most=10) == (0, [])
    for most in (0, -1, -(2**31)):
        assert asked(client, "rolls", -1, most=most) == (0, [])


def test_what_is_not_here_is_an_error_and_no_offset(client: RawClient) -> None:
    assert asked(client, "nowhere", -1) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert asked(client, "clicks", -1, partition=5) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert asked(client, "clicks", -3) == (ErrorCode.INVALID_REQUEST, [])


def test_a_deleted_head_is_not_where_a_partition_begins(broker: ServingBroker, client: RawClient) -> None:
    for _ in range(2):
        client.produce("clicks", batch(b"x" * 50))
    broker.on_loop(lambda: broker.partition("clicks").log.advance_start(SIZE, NOW_MS))
    assert asked(client, "clicks", -2) == (0, [SIZE])
    assert asked(client, "clicks", -1, most=9) == (0, [2 * SIZE, SIZE])


def test_a_cut_request_is_malformed_at_every_byte() -> None:
    body = request(("clicks", 3, -2, 1), ("t", 0, 5, 2))
    assert run_to_end(list_offsets_v0.decode_in_steps(body)) == [("clicks", [Wanted(3, -2, 1)]), ("t", [Wanted(0, 5, 2)])]
    for end in range(len(body)):
        with pytest.raises(MalformedFrame):
            run_to_end(list_offsets_v0.decode_in_steps(body[:end]))


@pytest.mark.parametrize("count", [-1, MOST_ELEMENTS])
def test_no_partitions_array_is_null_or_endless(count: int) -> None:
    body = struct.pack(">ii", -1, 1) + text("t") + struct.pack(">i", count) + bytes(16 * max(count, 0))
    with pytest.raises(MalformedFrame):
        run_to_end(list_offsets_v0.decode_in_steps(body))
