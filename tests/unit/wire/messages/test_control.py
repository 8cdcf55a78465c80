"""The control plane through kio: mappings in, bytes out; ApiVersions' traps; nothing absurd reaches kio's native reader."""

import random
import struct
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kio.schema.index import api_key_map, schema_name_map

from headrace.wire.errors import ErrorCode, MalformedFrame, UnsupportedVersion, WireError
from headrace.wire.messages import control
from headrace.wire.messages.headers import FIRST_FLEXIBLE, NEVER
from headrace.wire.messages.message_types import Side
from tests.support import kio_messages
from tests.unit.wire.records import is_refused_at_every_prefix

METADATA = {
    "throttle_time_ms": 0,
    "brokers": [{"node_id": 1, "host": "127.0.0.1", "port": 9092, "rack": None}],
    "cluster_id": "live",
    "controller_id": 1,
    "topics": [
        {
            "error_code": ErrorCode.NONE,
            "name": "clicks",
            "is_internal": False,
            "partitions": [
                {
                    "error_code": 0,
                    "partition_index": 0,
                    "leader_id": 1,
                    "leader_epoch": 0,
                    "replica_nodes": [1],
                    "isr_nodes": [1],
                    "offline_replicas": [],
                }
            ],
        }
    ],
}
RANGES = {0: (0, 9), 1: (4, 12), 3: (0, 9), 18: (0, 3)}


@pytest.mark.parametrize("version", range(10))
def test_one_mapping_serves_every_version_and_kafka_python_reads_it(version: int) -> None:
    body = control.encode_response(3, version, METADATA)
    read = MetadataResponse.decode(body, version=version)
    assert [(one.node_id, one.host, one.port) for one in read.brokers] == [(1, "127.0.0.1", 9092)]
    assert [(one.name, one.error_code, [part.leader_id for part in one.partitions]) for one in read.topics] == [
        ("clicks", 0, [1])
    ]
    assert kio_messages.written(control.decode_response(3, version, body)) == body


@pytest.mark.parametrize("version", range(10))
def test_kafka_python_writes_the_same_request(version: int) -> None:
    fields = {
        "topics": [{"name": "a"}, {"name": "b"}],
        "allow_auto_topic_creation": True,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    topic = MetadataRequest.MetadataRequestTopic
    theirs = MetadataRequest(
        version=version,
        topics=[topic(version=version, name="a"), topic(version=version, name="b")],
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    assert control.encode_request(3, version, fields) == bytes(theirs.encode())


def test_durations_error_codes_and_instants_may_be_plain_numbers() -> None:
    join = _read_back("request", 11, 1, {
        "group_id": "g", "session_timeout_ms": 6_000, "rebalance_timeout_ms": 9_000, "member_id": "", "protocol_type": "consumer",
        "protocols": [],
    })  # fmt: skip
    assert join.session_timeout == timedelta(seconds=6)
    assert _read_back("response", 12, 0, {"error_code": 27}).error_code == 27
    produced = _read_back("response", 0, 3, {
        "responses": [{"name": "t", "partition_responses": [
            {"index": 0, "error_code": 0, "base_offset": 1, "log_append_time_ms": 1_431_857_103_001}
        ]}],
        "throttle_time_ms": 0,
    })  # fmt: skip
    (partition,) = produced.responses[0].partition_responses
    assert partition.log_append_time == datetime(2015, 5, 17, 10, 5, 3, 1_000, tzinfo=UTC), "to the millisecond"


def _read_back(side: Side, api_key: int, version: int, message: control.Fields) -> Any:
    if side == "request":
        return control.decode_request(api_key, version, control.encode_request(api_key, version, message))
    return control.decode_response(api_key, version, control.encode_response(api_key, version, message))


def test_a_misspelt_field_is_refused_and_one_of_another_version_is_dropped() -> None:
    assert control.encode_request(3, 0, {"topics": [], "allow_auto_topic_creation": True}) == bytes(4)
    with pytest.raises(MalformedFrame, match="no field 'topcis'"):
        control.encode_request(3, 9, {"topcis": []})
    with pytest.raises(MalformedFrame, match="brokers"):
        control.encode_response(3, 9, {"throttle_time_ms": 0, "topics": []})


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(MalformedFrame, match="cannot write"):
        control.encode_response(3, 9, {**METADATA, "controller_id": 1 << 40})


def test_unknown_apis_and_versions_are_refused_by_name() -> None:
    for key, version in ((3, 99), (999, 0), (-1, 0), (3, -1)):
        with pytest.raises(UnsupportedVersion, match=f"API {key} version {version}"):
            control.decode_request(key, version, b"")


def test_api_versions_comes_back_in_every_version() -> None:
    for version in range(4):
        assert control.decode_api_versions(version, control.encode_api_versions(version, RANGES)) == (0, RANGES)


def test_features_are_announced_where_the_answer_has_a_place_for_them() -> None:
    for version, expected in ((0, set()), (2, set()), (3, {control.BYTE_OFFSETS})):
        body = control.encode_api_versions(version, RANGES, [control.BYTE_OFFSETS])
        assert control.features_of(version, body) == expected
        assert control.decode_api_versions(version, body) == (0, RANGES)


def test_an_unknown_version_of_api_versions_gets_a_v0_body_with_error_35() -> None:
    body = control.encode_api_versions(4, RANGES)
    assert body[:6] == bytes.fromhex("0023 00000004")
    assert len(body) == 6 + 6 * len(RANGES)
    assert control.decode_api_versions(4, body) == (35, RANGES)


def test_metadata_is_refused_at_every_prefix() -> None:
    for version in (0, 1, 9):
        body = control.encode_response(3, version, METADATA)
        is_refused_at_every_prefix(body, lambda cut, version=version: control.decode_response(3, version, cut))


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (9, "ffffffff0f"),
        (9, "ffffffff07 0102030405"),
        (1, "7fffffff"),
        (1, "7fffffff 0000 0000 0000"),
        (1, "fffffffe"),
        (9, "02 ffffffff0f"),
        (9, "01 00 00 00 ffffffff0f"),
        (9, "01 00 00 00 01 05 ffffffff0f"),
    ],
)
def test_counts_that_would_end_the_process_inside_kio_are_refused_before_it(version: int, body: str) -> None:
    with pytest.raises(MalformedFrame):
        control.decode_request(3, version, bytes.fromhex(body))


def test_an_array_in_a_tagged_field_is_walked_too() -> None:
    # ApiVersions v3: no error, no keys, no throttle, and tagged field 0 (an array of features), five bytes: four billion.
    with pytest.raises(MalformedFrame):
        control.decode_response(18, 3, bytes.fromhex("0000 01 00000000 01 00 05 ffffffff0f"))


SERVED = [
    (key, version)
    for key in (2, 3, 8, 9, 10, 11, 12, 13, 14, 18, 19, 20, 22, 32)
    for version in schema_name_map[api_key_map[key]]
]


@given(st.sampled_from(SERVED), st.binary(max_size=60))
@settings(max_examples=200)
def test_any_bytes_at_all_are_read_or_refused(api: tuple[int, int], body: bytes) -> None:
    for read in (control.decode_request, control.decode_response):
        try:
            read(*api, body)
        except WireError:
            pass


def test_garbled_metadata_is_read_or_refused() -> None:
    rng = random.Random(5)
    for version in (1, 5, 9):
        whole = control.encode_response(3, version, METADATA)
        for _ in range(1_000):
            body = bytearray(whole)
            for _ in range(rng.randrange(1, 4)):
                body[rng.randrange(len(body))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            try:
                control.decode_response(3, version, body)
            except WireError:
                pass


def test_the_table_of_flexible_versions_is_kios() -> None:
    for key, first in FIRST_FLEXIBLE.items():
        for version in schema_name_map[api_key_map[key]]:
            assert control.message_type("request", key, version).__flexible__ == (version >= first), (key, version)
    assert {key for key, first in FIRST_FLEXIBLE.items() if first == NEVER} == {17, 47}


def test_a_request_has_a_bounded_number_of_elements_in_all_its_arrays_together_and_an_answer_has_not() -> None:
    def body(topics: int, partitions: int) -> bytes:
        numbers = struct.pack(">i", partitions) + bytes(4 * partitions)
        return struct.pack(">i", topics) + (struct.pack(">h1s", 1, b"t") + numbers) * topics

    most = control.MOST_ELEMENTS
    assert len(control.decode_request(35, 1, body(10, most // 10 - 1)).topics) == 10
    assert len(control.decode_request(35, 1, body(10, most // 10 - 1)).topics) == 10, "each message has the whole bound"
    with pytest.raises(MalformedFrame, match="more elements than are taken"):
        control.decode_request(35, 1, body(10, most // 10))
    keys = struct.pack(">hi", 0, most + 1) + bytes(6 * (most + 1))
    assert len(control.decode_response(18, 0, keys).api_keys) == most + 1
