"""Leader epochs in ListOffsets: the one that there is, and those of clients that believe in another. Real sockets and logs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.handlers.list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from headrace.wire.errors import ErrorCode
from tests.support.raw_kafka import RawClient, batch
from tests.support.serving_broker import ServingBroker


@pytest.fixture
def client(tmp_path: Path) -> Iterator[RawClient]:
    with ServingBroker(tmp_path, topics={"clicks": 1, "empty": 1}) as broker, broker.client() as raw:
        raw.produce("clicks", batch(b"one"))
        yield raw


def asked(client: RawClient, timestamp_ms: int, *, version: int = 7, epoch: int = -1, topic: str = "clicks") -> Any:
    partition = {"partition_index": 0, "current_leader_epoch": epoch, "timestamp": timestamp_ms}
    message = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": [partition]}]}
    return client.ask(2, version, message).topics[0].partitions[0]


@pytest.mark.parametrize("version", range(4, 8))
@pytest.mark.parametrize("timestamp_ms", [LATEST, EARLIEST, MAX_TIMESTAMP, 0])
def test_an_offset_that_is_found_has_the_leader_epoch_of_its_batch(client: RawClient, version: int, timestamp_ms: int) -> None:
    answer = asked(client, timestamp_ms, version=version)
    assert (answer.error_code, answer.leader_epoch) == (0, 0)


def test_an_offset_that_is_not_found_has_none(client: RawClient) -> None:
    for topic, timestamp_ms in (("clicks", 1 << 60), ("empty", 0), ("empty", MAX_TIMESTAMP)):
        answer = asked(client, timestamp_ms, topic=topic)
        assert (answer.error_code, answer.offset, answer.leader_epoch) == (0, -1, -1)


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (-1, 0),
        (0, 0),
        (1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (7, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
@pytest.mark.parametrize("timestamp_ms", [LATEST, 0])
def test_a_client_in_another_epoch_is_told_so(client: RawClient, epoch: int, error: int, timestamp_ms: int) -> None:
    answer = asked(client, timestamp_ms, epoch=epoch)
    assert answer.error_code == error
    assert (answer.offset == -1) == (error != 0)


def test_versions_that_know_no_epoch_are_answered_as_before(client: RawClient) -> None:
    assert asked(client, LATEST, version=3).offset > 0
