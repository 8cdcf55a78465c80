"""Produce: golden bytes, round trips, kio and kafka-python as second and third opinion, and frames that lie."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.producer import ProduceRequest as KafkaPythonRequest
from kafka.protocol.producer import ProduceResponse as KafkaPythonResponse

from headrace.wire.errors import MalformedFrame, UnsupportedVersion, WireError
from headrace.wire.messages import control, produce
from headrace.wire.messages.produce import (
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
    ProduceTopic,
)
from tests.unit.wire.records import is_refused_at_every_prefix

VERSIONS = range(produce.MIN_VERSION, produce.MAX_SERVED + 1)

INT16, INT32, INT64 = (st.integers(-(2**bits), 2**bits - 1) for bits in (15, 31, 63))
NAMES = st.text(st.characters(codec="ascii", min_codepoint=33), min_size=1, max_size=12)
REQUESTS = st.builds(
    ProduceRequest,
    st.sampled_from([-1, 0, 1]),
    st.integers(0, 2**31 - 1),
    st.none() | NAMES,
    st.lists(
        st.builds(
            ProduceTopic,
            NAMES,
            st.lists(st.builds(ProducePartition, INT32, st.none() | st.binary(max_size=200), st.none()), max_size=3),
        ),
        max_size=3,
    ),
)
ERROR_CODES = st.integers(-1, 90)
RESPONSES = st.builds(
    ProduceResponse,
    st.lists(
        st.builds(
            ProduceResponseTopic,
            NAMES,
            st.lists(
                st.builds(
                    ProduceResponsePartition,
                    INT32,
                    ERROR_CODES,
                    INT64,
                    st.integers(-1, 2**40),
                    INT64,
                    st.none() | st.text(min_size=1, max_size=9),
                    st.none(),
                ),
                max_size=3,
            ),
        ),
        max_size=3,
    ),
    st.integers(0, 2**31 - 1),
    st.just({}),
)


def as_fields(request: ProduceRequest) -> dict[str, object]:
    return {
        "transactional_id": request.transactional_id,
        "acks": request.acks,
        "timeout_ms": request.timeout_ms,
        "topic_data": [
            {"name": name, "partition_data": [{"index": one.index, "records": one.records} for one in partitions]}
            for name, partitions in request.topics
        ],
    }


def in_version(version: int, response: ProduceResponse) -> ProduceResponse:
    """Return what is left of a response when its version has no field for the rest."""

    def reduced(one: ProduceResponsePartition) -> ProduceResponsePartition:
        if version < 5:
            one = one._replace(log_start_offset=-1)
        return one._replace(error_message=None) if version < 8 else one

    topics = [ProduceResponseTopic(name, [reduced(one) for one in partitions]) for name, partitions in response.topics]
    return response._replace(topics=topics)


def response_fields(response: ProduceResponse) -> dict[str, object]:
    def answers(partitions: Sequence[ProduceResponsePartition]) -> list[dict[str, object]]:
        return [
            {
                "index": one.index,
                "error_code": one.error_code,
                "base_offset": one.base_offset,
                "log_append_time_ms": one.log_append_time_ms,
                "log_start_offset": one.log_start_offset,
                "record_errors": [],
                "error_message": one.error_message,
            }
            for one in partitions
        ]

    return {
        "responses": [{"name": name, "partition_responses": answers(partitions)} for name, partitions in response.topics],
        "throttle_time_ms": response.throttle_time_ms,
    }


def test_a_version_9_request_with_the_mirrors_tag_is_written_byte_by_byte() -> None:
    request = ProduceRequest(-1, 1_500, None, [ProduceTopic("t", [ProducePartition(3, b"abc", 513)])])
    golden = bytes.fromhex(
        "00"  # no transactional id
        "ffff 000005dc"  # acks, timeout
        "02 02 74"  # one topic, "t"
        "02 00000003 04 616263"  # one partition, 3, three bytes
        "01 e9da01 08 0000000000000201"  # one tagged field: 28009, eight bytes, 513
        "00 00"  # no tags of the topic, none of the request
    )
    assert produce.encode_request(9, request) == golden
    assert produce.decode_request(9, golden) == request


@pytest.mark.parametrize("version", VERSIONS)
@given(request=REQUESTS)
@settings(max_examples=25)
def test_requests_come_back_and_kio_writes_the_same(version: int, request: ProduceRequest) -> None:
    body = produce.encode_request(version, request)
    assert produce.decode_request(version, body) == request
    assert produce.decode_request(version, memoryview(bytearray(body))) == request
    assert control.encode_request(0, version, as_fields(request)) == body


@pytest.mark.parametrize("version", VERSIONS)
@given(response=RESPONSES)
@settings(max_examples=25)
def test_responses_come_back_and_kio_reads_the_same(version: int, response: ProduceResponse) -> None:
    body = produce.encode_response(version, response)
    left = in_version(version, response)
    assert produce.decode_response(version, body) == left
    read = KafkaPythonResponse.decode(body, version=version)
    assert [
        (topic.name, [(one.index, one.error_code, one.base_offset, one.log_append_time_ms) for one in topic.partition_responses])
        for topic in read.responses
    ] == [(name, [tuple(one)[:4] for one in partitions]) for name, partitions in left.topics]
    assert read.throttle_time_ms == response.throttle_time_ms


@pytest.mark.parametrize("version", VERSIONS)
def test_kio_writes_the_same_response(version: int) -> None:
    response = ProduceResponse(
        [
            ProduceResponseTopic(
                "clicks", [ProduceResponsePartition(0, 0, 9, 5, 1), ProduceResponsePartition(1, 2, error_message="bad")]
            )
        ],
        7,
    )
    assert control.encode_response(0, version, response_fields(response)) == produce.encode_response(version, response)


@pytest.mark.parametrize("version", VERSIONS)
def test_kafka_python_writes_the_same_request(version: int) -> None:
    request = ProduceRequest(1, 30_000, None, [ProduceTopic("clicks", [ProducePartition(0, b"batch"), ProducePartition(1, b"")])])
    topic = KafkaPythonRequest.TopicProduceData
    theirs = KafkaPythonRequest(
        version=version,
        transactional_id=None,
        acks=1,
        timeout_ms=30_000,
        topic_data=[
            topic(
                name="clicks",
                partition_data=[
                    topic.PartitionProduceData(index=0, records=b"batch"),
                    topic.PartitionProduceData(index=1, records=b""),
                ],
            )
        ],
    )
    assert bytes(theirs.encode()) == produce.encode_request(version, request)


def test_records_are_views_into_the_frame_and_writable_where_it_is() -> None:
    request = ProduceRequest(-1, 1, None, [ProduceTopic("t", [ProducePartition(0, b"abc")])])
    frame = bytearray(produce.encode_request(9, request))
    records = produce.decode_request(9, memoryview(frame)).topics[0].partitions[0].records
    assert isinstance(records, memoryview)
    records[0] = ord("X")
    assert b"Xbc" in frame


@pytest.mark.parametrize("version", VERSIONS)
def test_frames_are_refused_at_every_prefix_and_with_something_behind(version: int) -> None:
    start = 8 if version >= 9 else None
    partitions = [ProducePartition(0, b"abc", start), ProducePartition(1, None)]
    request = produce.encode_request(version, ProduceRequest(-1, 1, "tx", [ProduceTopic("topic", partitions)]))
    answers = [ProduceResponsePartition(0, 0, 1, 2, 3, "message"), ProduceResponsePartition(1, 2)]
    response = produce.encode_response(version, ProduceResponse([ProduceResponseTopic("topic", answers)]))
    is_refused_at_every_prefix(request, lambda cut: produce.decode_request(version, cut))
    is_refused_at_every_prefix(response, lambda cut: produce.decode_response(version, cut))
    with pytest.raises(MalformedFrame):
        produce.decode_request(version, request + b"\x00")
    with pytest.raises(MalformedFrame):
        produce.decode_response(version, response + b"\x00")


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (3, "ffff ffff 00000001 7fffffff"),
        (9, "00 ffff 00000001 ffffffff0f"),
        (9, "00 ffff 00000001 ffffffff7f"),
        (3, "ffff ffff 00000001 00000001 0001 74 7fffffff"),
        (3, "ffff ffff 00000001 00000001 0001 74 00000001 00000000 7fffffff"),
        (3, "ffff ffff 00000001 00000001 0001 74 00000001 00000000 fffffffe"),
        (3, "ffff ffff 00000001 fffffffe"),
        (3, "ffff ffff 00000001 00000001 ffff 00000000"),
        (3, "ffff ffff 00000001 00000001 0002 ffff 00000000"),
        (9, "00 ffff 00000001 02 02 74 01 ffffffff0f"),
        (9, "00 ffff 00000001 02 02 74 01 01 00 ffffffff0f"),
    ],
    ids=[
        "two billion topics",
        "four billion topics",
        "a count beyond 32 bits",
        "two billion partitions",
        "two gigabytes of records",
        "records of -2 bytes",
        "minus two topics",
        "a topic without a name",
        "a name that is not UTF-8",
        "four billion tagged fields",
        "a tagged field of four gigabytes",
    ],
)
def test_counts_and_lengths_that_lie_are_refused_before_anything_is_allocated(version: int, body: str) -> None:
    with pytest.raises(MalformedFrame):
        produce.decode_request(version, bytes.fromhex(body))


@given(st.sampled_from(VERSIONS), st.binary(max_size=120))
@settings(max_examples=200)
def test_any_bytes_at_all_are_read_or_refused(version: int, body: bytes) -> None:
    for read in (produce.decode_request, produce.decode_response):
        try:
            read(version, body)
        except WireError:
            pass


def test_pieces_of_records_are_passed_through_uncopied_and_make_the_same_request() -> None:
    first, second = memoryview(b"abc"), memoryview(b"defgh")
    chunks = produce.encode_pieces(
        9, -1, 1, [("t", [produce.ProducePieces(0, [first, second], 7), produce.ProducePieces(1, None)])]
    )
    assert any(chunk is first for chunk in chunks)
    assert any(chunk is second for chunk in chunks)
    partitions = [ProducePartition(0, b"abcdefgh", 7), ProducePartition(1, None)]
    assert b"".join(chunks) == produce.encode_request(9, ProduceRequest(-1, 1, None, [ProduceTopic("t", partitions)]))


def test_a_mirrors_tag_of_another_size_is_refused() -> None:
    body = bytes.fromhex("00 ffff 00000001 02 02 74 02 00000000 01 01 e9da01 04 00000001 00 00")
    with pytest.raises(MalformedFrame, match="28009"):
        produce.decode_request(9, body)


def test_tags_of_others_are_passed_over() -> None:
    body = bytes.fromhex("00 ffff 00000001 02 02 74 02 00000000 01 02 05 01 ff 63 00 00 01 07 02 abcd")
    partition = produce.decode_request(9, body).topics[0].partitions[0]
    assert partition == ProducePartition(0, b"", None)


def test_a_conditional_append_needs_version_9() -> None:
    request = ProduceRequest(-1, 1, None, [ProduceTopic("t", [ProducePartition(0, b"abc", 0)])])
    with pytest.raises(MalformedFrame, match="needs Produce version 9"):
        produce.encode_request(8, request)


@pytest.mark.parametrize("version", [-1, 0, 2, 11])
def test_other_versions_are_refused_by_name(version: int) -> None:
    with pytest.raises(UnsupportedVersion, match=f"version {version}") as refused:
        produce.decode_request(version, b"")
    assert (refused.value.api_key, refused.value.version) == (0, version)


def test_a_record_errors_message_stands_in_for_a_missing_one() -> None:
    body = control.encode_response(
        0,
        8,
        {
            "responses": [
                {
                    "name": "t",
                    "partition_responses": [
                        {
                            "index": 0,
                            "error_code": 87,
                            "base_offset": -1,
                            "log_append_time_ms": -1,
                            "record_errors": [{"batch_index": 4, "batch_index_error_message": "bad record"}],
                        }
                    ],
                }
            ],
            "throttle_time_ms": 0,
        },
    )
    assert produce.decode_response(8, body).topics[0].partitions[0].error_message == "bad record"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_names_a_bounded_number_of_topics_and_partitions_or_a_hundred_megabytes_of_them_would_take_gigabytes(
    version: int,
) -> None:
    def body(topics: int, partitions: int) -> bytes:
        one = ProduceTopic("t", [ProducePartition(0, None)] * partitions)
        return produce.encode_request(version, ProduceRequest(1, 1, None, [one] * topics))

    most = produce.MOST_ELEMENTS
    assert len(produce.decode_request(version, body(1, most - 1)).topics[0].partitions) == most - 1
    assert len(produce.decode_request(version, body(10, most // 10 - 1)).topics) == 10
    for topics, partitions in ((1, most), (10, most // 10), (most + 1, 0)):
        with pytest.raises(MalformedFrame, match="split it"):
            produce.decode_request(version, body(topics, partitions))


def test_a_version_10_response_names_the_leader_and_its_address_as_kio_reads_them() -> None:
    error = ProduceResponsePartition(3, 6, -1, -1, -1, None, (2, 7))
    fine = ProduceResponsePartition(4, 0, 512, -1, 0)
    response = ProduceResponse([ProduceResponseTopic("t", [error, fine])], 0, {2: ("other", 9_093), 1: ("own", 9_092)})
    answer = control.decode_response(0, 10, produce.encode_response(10, response))
    first, second = answer.responses[0].partition_responses
    assert (first.error_code, first.current_leader.leader_id, first.current_leader.leader_epoch) == (6, 2, 7)
    assert (second.error_code, second.base_offset, second.current_leader.leader_id) == (0, 512, -1)
    assert [(one.node_id, one.host, one.port) for one in answer.node_endpoints] == [(1, "own", 9_092), (2, "other", 9_093)]
    bare = response._replace(topics=[ProduceResponseTopic("t", [error._replace(current_leader=None), fine])], endpoints={})
    for version in VERSIONS[:-1]:
        assert produce.encode_response(version, response) == produce.encode_response(version, bare)
