"""OffsetCommit and OffsetFetch: answered when durable, each version, each refusal. Real sockets, ZooKeeper played."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.coordination.committed_offset import CommittedOffset
from headrace.wire.errors import ErrorCode, MalformedFrame
from headrace.wire.generators import run_to_end
from headrace.wire.messages import control, offset_commit_v1
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient, batch
from tests.support.serving_broker import ServingBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path, topics={"clicks": 2}) as serving:
        yield serving


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as raw:
        yield raw


def commit_message(group: str, topic: str, offsets: dict[int, int], *, generation: int = -1, note: str = "") -> dict[str, Any]:
    partitions = [
        {
            "partition_index": index,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": note,
        }
        for index, offset in offsets.items()
    ]
    return {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": "",
        "group_instance_id": None,
        "retention_time_ms": -1,
        "topics": [{"name": topic, "partitions": partitions}],
    }


def commit(client: RawClient, *words: Any, version: int = 8, **more: Any) -> dict[int, int]:
    answer = client.ask(8, version, commit_message(*words, **more))
    return {one.partition_index: int(one.error_code) for topic in answer.topics for one in topic.partitions}


def committed(client: RawClient, group: str, wanted: dict[str, list[int]] | None, version: int = 7) -> dict[tuple[str, int], int]:
    topics = None if wanted is None else [{"name": name, "partition_indexes": indexes} for name, indexes in wanted.items()]
    if version >= 8:
        answer = client.ask(9, version, {"groups": [{"group_id": group, "topics": topics}], "require_stable": False})
        (found,) = answer.groups
    else:
        found = client.ask(9, version, {"group_id": group, "topics": topics, "require_stable": False})
    return {(str(topic.name), one.partition_index): one.committed_offset for topic in found.topics for one in topic.partitions}


@pytest.mark.parametrize("commit_version", range(2, 9))
@pytest.mark.parametrize("fetch_version", [1, 5, 8])
def test_what_was_committed_is_fetched_in_each_version(client: RawClient, commit_version: int, fetch_version: int) -> None:
    assert commit(client, "g", "clicks", {0: 5, 1: 0}, version=commit_version) == {0: 0, 1: 0}
    found = committed(client, "g", {"clicks": [0, 1]}, version=fetch_version)
    assert found == {("clicks", 0): 5, ("clicks", 1): 0}


def test_what_was_never_committed_is_minus_one_without_an_error(client: RawClient) -> None:
    assert committed(client, "g", {"clicks": [1], "nowhere": [0]}) == {("clicks", 1): -1, ("nowhere", 0): -1}


def test_null_topics_ask_for_every_offset_of_the_group(client: RawClient) -> None:
    commit(client, "g", "clicks", {1: 77})
    assert committed(client, "g", None) == {("clicks", 1): 77}
    assert committed(client, "g", None, version=8) == {("clicks", 1): 77}
    assert committed(client, "other", None) == {}


def test_a_commit_is_answered_only_when_it_is_durable(broker: ServingBroker, client: RawClient) -> None:
    broker.offsets.gate.clear()
    client.send(8, 8, control.encode_request(8, 8, commit_message("g", "clicks", {0: 1})))
    client.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        client.socket.recv(1)
    broker.offsets.gate.set()
    client.socket.settimeout(10)
    client.receive(8, 8)
    assert broker.offsets.offsets["g"] == {("clicks", 0): CommittedOffset(1)}


def test_commits_of_many_clients_during_one_write_become_one_write(broker: ServingBroker) -> None:
    clients = [broker.client() for _ in range(50)]
    broker.offsets.gate.clear()
    for number, client in enumerate(clients):
        client.send(8, 8, control.encode_request(8, 8, commit_message("g", "clicks", {0: number})))
    commits = broker.context.offsets
    eventually(lambda: len(commits._waiting) == 49, what="all commits waiting")
    broker.offsets.gate.set()
    for client in clients:
        client.receive(8, 8)
        client.close()
    assert broker.offsets.writes == 2


@pytest.mark.parametrize("group", ["", "x" * 250])
def test_a_group_that_cannot_be_kept_is_refused(client: RawClient, group: str) -> None:
    assert commit(client, group, "clicks", {0: 1}) == {0: ErrorCode.INVALID_GROUP_ID}
    answer = client.ask(9, 7, {"group_id": group, "topics": None, "require_stable": False})
    assert answer.error_code == ErrorCode.INVALID_GROUP_ID


def test_each_partition_that_cannot_be_committed_says_why(client: RawClient) -> None:
    assert commit(client, "g", "clicks", {0: 1, 1: -5, 9: 1}) == {
        0: 0,
        1: ErrorCode.OFFSET_OUT_OF_RANGE,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert commit(client, "g", "clicks", {0: 1}, note="x" * 5_000) == {0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert commit(client, "g", "clicks", {0: 1}, generation=3) == {0: ErrorCode.UNKNOWN_MEMBER_ID}


def test_a_group_that_kafkajs_resets_to_begin_or_end_goes_on_from_there(broker: ServingBroker, client: RawClient) -> None:
    """KafkaJS commits -2 and -1, which Kafka stores unchanged. If they are refused, its `resetOffsets` never returns."""
    data = batch(b"x")
    for _ in range(2):
        client.produce("clicks", data)
    broker.on_loop(lambda: broker.partition("clicks").log.advance_start(len(data), 0))
    for word, offset in ((-2, len(data)), (-1, 2 * len(data))):
        assert commit(client, "g", "clicks", {0: word}) == {0: 0}
        assert broker.offsets.offsets["g"]["clicks", 0].offset == offset


def test_version_8_answers_several_groups_each_for_itself(client: RawClient) -> None:
    commit(client, "g", "clicks", {0: 4})
    groups = [{"group_id": group, "topics": [{"name": "clicks", "partition_indexes": [0]}]} for group in ("g", "h", "")]
    answer = client.ask(9, 8, {"groups": groups, "require_stable": True})
    found = {str(one.group_id): (int(one.error_code), one.topics[0].partitions[0].committed_offset) for one in answer.groups}
    assert found == {"g": (0, 4), "h": (0, -1), "": (ErrorCode.INVALID_GROUP_ID, -1)}


def test_metadata_and_leader_epoch_come_back_as_they_were_committed(client: RawClient) -> None:
    message = commit_message("g", "clicks", {0: 5}, note="on host-7 ☃")
    message["topics"][0]["partitions"][0]["committed_leader_epoch"] = 4
    client.ask(8, 8, message)
    topics = [{"name": "clicks", "partition_indexes": [0, 1]}]
    found = client.ask(9, 7, {"group_id": "g", "topics": topics, "require_stable": False}).topics[0].partitions
    assert [(one.committed_offset, one.committed_leader_epoch, one.metadata) for one in found] == [
        (5, 4, "on host-7 ☃"),
        (-1, -1, ""),
    ]


def test_version_1_which_kio_does_not_have_is_read_by_hand(broker: ServingBroker, client: RawClient) -> None:
    def text(value: bytes | None) -> bytes:
        return b"\xff\xff" if value is None else len(value).to_bytes(2, "big") + value

    def partition(index: int, offset: int, metadata: bytes | None) -> bytes:
        return struct.pack(">iqq", index, offset, 1_700_000_000_000) + text(metadata)

    partitions = struct.pack(">i", 3) + partition(0, 5, b"note") + partition(1, 0, None) + partition(9, 1, b"")
    body = text(b"g") + struct.pack(">i", -1) + text(b"") + struct.pack(">i", 1) + text(b"clicks") + partitions
    answer = client.request(8, 1, body)
    errors = struct.pack(">iihihih", 3, 0, 0, 1, 0, 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert bytes(answer) == struct.pack(">i", 1) + text(b"clicks") + errors
    assert broker.offsets.offsets["g"] == {("clicks", 0): CommittedOffset(5, -1, "note"), ("clicks", 1): CommittedOffset(0)}


def test_a_cut_commit_of_version_1_is_malformed_at_every_byte() -> None:
    body = (
        b"\0\1g" + struct.pack(">i", -1) + b"\0\0" + struct.pack(">i", 1) + b"\0\1t" + struct.pack(">iiqq", 1, 0, 5, 0) + b"\0\1m"
    )
    read = control.decode_request(8, 2, run_to_end(offset_commit_v1.as_v2_in_steps(body)))
    (partition,) = read.topics[0].partitions
    assert (partition.committed_offset, partition.committed_metadata) == (5, "m")
    for end in range(len(body)):
        with pytest.raises(MalformedFrame):
            run_to_end(offset_commit_v1.as_v2_in_steps(body[:end]))


@pytest.mark.parametrize("topics", [1, 10])
def test_a_commit_of_version_1_has_a_bounded_number_of_elements_in_all_its_arrays_together(topics: int) -> None:
    def body(elements: int) -> bytes:
        partitions = (elements - topics) // topics
        each = b"\0\1t" + struct.pack(">i", partitions) + (struct.pack(">iqq", 0, 5, 0) + b"\xff\xff") * partitions
        return b"\0\1g" + struct.pack(">i", -1) + b"\0\0" + struct.pack(">i", topics) + each * topics

    most = control.MOST_ELEMENTS
    read = control.decode_request(8, 2, run_to_end(offset_commit_v1.as_v2_in_steps(body(most))))
    assert sum(1 + len(topic.partitions) for topic in read.topics) == most
    with pytest.raises(MalformedFrame, match=f"elements in an OffsetCommit v1: at most {most}"):
        run_to_end(offset_commit_v1.as_v2_in_steps(body(most + topics)))


def test_the_offsets_of_a_deleted_topic_are_not_those_of_a_later_one_of_its_name(
    broker: ServingBroker, client: RawClient
) -> None:
    commit(client, "g", "clicks", {0: 77})
    assert client.ask(20, 5, {"topic_names": ["clicks"], "timeout_ms": 1_000}).responses[0].error_code == 0
    eventually(lambda: not broker.offsets.offsets["g"], what="the offset gone")


def test_groups_beyond_what_one_fetch_is_answered_for_are_refused_and_the_fetch_is_one_job(
    broker: ServingBroker, client: RawClient
) -> None:
    commit(client, "7", "clicks", {0: 5})
    groups = [{"group_id": str(number), "topics": None} for number in range(1_001)]
    answer = client.ask(9, 8, {"groups": groups, "require_stable": False})
    assert [one.error_code for one in answer.groups] == [0] * 1_000 + [ErrorCode.INVALID_REQUEST]
    assert answer.groups[7].topics[0].partitions[0].committed_offset == 5


def test_a_fetch_while_zookeeper_is_away_says_so_for_each_group(broker: ServingBroker, client: RawClient) -> None:
    broker.offsets.is_away = True
    answer = client.ask(9, 8, {"groups": [{"group_id": group, "topics": None} for group in "gh"], "require_stable": False})
    assert [one.error_code for one in answer.groups] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
