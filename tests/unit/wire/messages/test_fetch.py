"""Fetch: round trips, kio and kafka-python as second and third opinion, chunks for sendfile, and frames that lie."""

from collections.abc import Sized
from hashlib import md5
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest as KafkaPythonRequest
from kafka.protocol.consumer import FetchResponse as KafkaPythonResponse

from headrace.wire.errors import MalformedFrame, UnsupportedVersion, WireError
from headrace.wire.messages import control, fetch
from headrace.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
    FetchTopic,
    TopicKey,
)
from tests.unit.wire.records import is_refused_at_every_prefix

VERSIONS = range(fetch.MIN_VERSION, fetch.MAX_SERVED + 1)
BY_NAME = range(fetch.MIN_VERSION, fetch.FIRST_WITH_IDS)

INT32, INT64 = (st.integers(-(2**bits), 2**bits - 1) for bits in (31, 63))
NAMES = st.text(st.characters(codec="ascii", min_codepoint=33), min_size=1, max_size=12)
LEADERS = st.none() | st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
ENDPOINTS = st.dictionaries(st.integers(0, 2**31 - 1), st.tuples(NAMES, st.integers(1, 65_535)), max_size=2)
REQUESTS = st.builds(
    FetchRequest,
    st.integers(0, 2**31 - 1),
    INT32,
    INT32,
    st.lists(
        st.builds(
            FetchTopic,
            NAMES,
            st.lists(st.builds(FetchPartition, INT32, INT64, INT32, INT32, INT64, INT32), max_size=3),
        ),
        max_size=3,
    ),
    st.sampled_from([0, 1]),
    INT32,
    INT32,
    INT32,
    st.lists(st.tuples(NAMES, st.lists(INT32, max_size=3).map(tuple)), max_size=2),
    NAMES,
)
RESPONSES = st.builds(
    FetchResponse,
    st.lists(
        st.builds(
            FetchResponseTopic,
            NAMES,
            st.lists(
                st.builds(
                    FetchResponsePartition,
                    INT32,
                    st.integers(-1, 90),
                    INT64,
                    INT64,
                    INT64,
                    st.none() | st.binary(max_size=200),
                    st.none() | st.lists(st.tuples(INT64, INT64), max_size=2),
                    INT32,
                    LEADERS,
                ),
                max_size=3,
            ),
        ),
        max_size=3,
    ),
    st.integers(0, 2**31 - 1),
    st.integers(-1, 90),
    INT32,
    ENDPOINTS,
)


def id_of(name: TopicKey) -> bytes:
    """Return the id of the topic with this name, in these tests."""
    assert isinstance(name, str)
    return md5(name.encode()).digest()


def key(version: int, name: TopicKey) -> TopicKey:
    return id_of(name) if version >= fetch.FIRST_WITH_IDS else name


def request_in_words(version: int, request: FetchRequest) -> FetchRequest:
    """Return a request as its version names topics."""
    topics = [FetchTopic(key(version, name), wanted) for name, wanted in request.topics]
    return request._replace(topics=topics, forgotten=[(key(version, name), ids) for name, ids in request.forgotten])


def response_in_words(version: int, response: FetchResponse) -> FetchResponse:
    return response._replace(topics=[FetchResponseTopic(key(version, name), answers) for name, answers in response.topics])


def named(version: int, topic: TopicKey) -> dict[str, object]:
    return {"topic": topic} if version < fetch.FIRST_WITH_IDS else {"topic_id": UUID(bytes=bytes(topic))}  # type: ignore[arg-type]


def request_in_version(version: int, request: FetchRequest) -> FetchRequest:
    """Return what is left of a request when its version has no field for the rest."""

    def reduced(one: FetchPartition) -> FetchPartition:
        if version < 12:
            one = one._replace(last_fetched_epoch=-1)
        if version < 9:
            one = one._replace(current_leader_epoch=-1)
        return one._replace(log_start_offset=-1) if version < 5 else one

    if version < 7:
        request = request._replace(session_id=0, session_epoch=-1, forgotten=[])
    if version < 11:
        request = request._replace(rack_id="")
    return request._replace(topics=[FetchTopic(name, [reduced(one) for one in wanted]) for name, wanted in request.topics])


def response_in_version(version: int, response: FetchResponse) -> FetchResponse:
    def reduced(one: FetchResponsePartition) -> FetchResponsePartition:
        if version < 11:
            one = one._replace(preferred_read_replica=-1)
        read = one._replace(log_start_offset=-1) if version < 5 else one

        return read._replace(current_leader=None)

    if version < 7:
        response = response._replace(error_code=0, session_id=0)
    topics = [FetchResponseTopic(name, [reduced(one) for one in answers]) for name, answers in response.topics]
    return response._replace(topics=topics, endpoints={})


def request_fields(version: int, request: FetchRequest) -> dict[str, object]:
    has_state = version >= fetch.FIRST_WITH_REPLICA_STATE
    state = {"replica_id": request.replica_id, "replica_epoch": -1}
    return {
        **({"replica_state": state} if has_state else {"replica_id": request.replica_id}),
        "max_wait_ms": request.max_wait_ms,
        "min_bytes": request.min_bytes,
        "max_bytes": request.max_bytes,
        "isolation_level": request.isolation_level,
        "session_id": request.session_id,
        "session_epoch": request.session_epoch,
        "topics": [
            {
                **named(version, name),
                "partitions": [
                    {
                        "partition": one.index,
                        "current_leader_epoch": one.current_leader_epoch,
                        "fetch_offset": one.fetch_offset,
                        "last_fetched_epoch": one.last_fetched_epoch,
                        "log_start_offset": one.log_start_offset,
                        "partition_max_bytes": one.partition_max_bytes,
                    }
                    for one in wanted
                ],
            }
            for name, wanted in request.topics
        ],
        "forgotten_topics_data": [{**named(version, name), "partitions": indexes} for name, indexes in request.forgotten],
        "rack_id": request.rack_id,
    }


def response_fields(version: int, response: FetchResponse) -> dict[str, object]:
    endpoints = [
        {"node_id": node_id, "host": host, "port": port, "rack": None}
        for node_id, (host, port) in sorted(response.endpoints.items())
    ]
    return {
        "throttle_time_ms": response.throttle_time_ms,
        "error_code": response.error_code,
        "session_id": response.session_id,
        "responses": [
            {
                **named(version, name),
                "partitions": [
                    {
                        **leader_fields(version, one),
                        "partition_index": one.index,
                        "error_code": one.error_code,
                        "high_watermark": one.high_watermark,
                        "last_stable_offset": one.last_stable_offset,
                        "log_start_offset": one.log_start_offset,
                        "aborted_transactions": None
                        if one.aborted is None
                        else [{"producer_id": producer, "first_offset": first} for producer, first in one.aborted],
                        "preferred_read_replica": one.preferred_read_replica,
                        "records": one.records,
                    }
                    for one in answers
                ],
            }
            for name, answers in response.topics
        ],
        **({"node_endpoints": endpoints} if version >= fetch.FIRST_WITH_LEADERS else {}),
    }


def leader_fields(version: int, one: FetchResponsePartition) -> dict[str, object]:
    if one.current_leader is None or version < fetch.FIRST_WITH_LEADERS:
        return {}
    leader, epoch = one.current_leader
    return {"current_leader": {"leader_id": leader, "leader_epoch": epoch}}


def joined(chunks: list[Sized]) -> bytes:
    assert all(isinstance(chunk, bytes) for chunk in chunks)
    return b"".join(chunk for chunk in chunks if isinstance(chunk, bytes))


@pytest.mark.parametrize("version", VERSIONS)
@given(request=REQUESTS)
@settings(max_examples=25)
def test_requests_come_back_and_kio_writes_the_same(version: int, request: FetchRequest) -> None:
    request = request_in_words(version, request)
    body = fetch.encode_request(version, request)
    assert fetch.decode_request(version, body) == request_in_version(version, request)
    assert control.encode_request(1, version, request_fields(version, request)) == body


@pytest.mark.parametrize("version", VERSIONS)
@given(response=RESPONSES)
@settings(max_examples=25)
def test_responses_come_back_and_kio_writes_the_same(version: int, response: FetchResponse) -> None:
    response = response_in_words(version, response)
    body = joined(fetch.encode_response(version, response))
    assert fetch.decode_response(version, body) == response_in_version(version, response)
    assert control.encode_response(1, version, response_fields(version, response)) == body


def test_a_version_16_response_that_names_the_leader_in_bytes() -> None:
    """Golden: the layout of KIP-951, written by hand."""
    answer = FetchResponsePartition(2, 6, -1, current_leader=(3, 7))
    response = FetchResponse([FetchResponseTopic(bytes(range(16)), [answer])], endpoints={3: ("b3", 9_092)})
    assert joined(fetch.encode_response(16, response)).hex(" ") == (
        "00 00 00 00 00 00 00 00 00 00 "  # throttle, error, session
        "02 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f "  # one topic: its id
        "02 00 00 00 02 00 06 ff ff ff ff ff ff ff ff "  # one partition: index, error, high watermark
        "ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff "  # last stable offset, log start
        "00 ff ff ff ff 01 "  # aborted, preferred replica, no records
        "01 01 09 00 00 00 03 00 00 00 07 00 00 "  # tag 1: nine bytes of leader and epoch; the topic's tags
        "01 00 0e 02 00 00 00 03 03 62 33 00 00 23 84 00 00"  # tag 0: one endpoint
    )


def test_a_version_15_request_of_a_replica_in_bytes() -> None:
    """Golden: the replica's id is a tagged field, with its epoch."""
    request = FetchRequest(500, 1, 100, [], replica_id=2, forgotten=[])
    body = fetch.encode_request(15, request)
    assert body.hex(" ") == (
        "00 00 01 f4 00 00 00 01 00 00 00 64 00 00 00 00 00 ff ff ff ff 01 01 01 01 01 0d 00 00 00 02 ff ff ff ff ff ff ff ff 00"
    )
    assert fetch.decode_request(15, body) == request


@pytest.mark.parametrize(("version", "topic"), [(13, "clicks"), (16, "clicks"), (12, bytes(16)), (4, bytes(16))])
def test_a_topic_is_named_as_its_version_names_it(version: int, topic: TopicKey) -> None:
    wanted = FetchRequest(500, 1, 100, [FetchTopic(topic, [])])
    with pytest.raises(MalformedFrame, match="names topics by their"):
        fetch.encode_request(version, wanted)


@pytest.mark.parametrize("version", BY_NAME)
def test_kafka_python_reads_our_response_and_writes_our_request(version: int) -> None:
    answer = FetchResponsePartition(4, 0, 900, 900, 3, b"batches", None, -1)
    body = joined(fetch.encode_response(version, FetchResponse([FetchResponseTopic("clicks", [answer])])))
    read = KafkaPythonResponse.decode(body, version=version).responses[0]
    assert read.topic == "clicks"
    assert (read.partitions[0].partition_index, read.partitions[0].high_watermark) == (4, 900)
    assert bytes(read.partitions[0].records) == b"batches"

    topic = KafkaPythonRequest.FetchTopic
    theirs = KafkaPythonRequest(
        version=version,
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[
            topic(topic="clicks", partitions=[topic.FetchPartition(partition=4, fetch_offset=77, partition_max_bytes=4_096)])
        ],
        forgotten_topics_data=[],
        rack_id="",
    )
    ours = FetchRequest(500, 1, 1 << 20, [FetchTopic("clicks", [FetchPartition(4, 77, 4_096)])])
    assert bytes(theirs.encode()) == fetch.encode_request(version, ours)


class FileSlice:
    """Something with a length whose bytes nobody here may touch."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


@pytest.mark.parametrize("version", VERSIONS)
def test_slices_of_files_pass_through_untouched_and_in_order(version: int) -> None:
    first, second, none = FileSlice(5), FileSlice(300_000), FileSlice(0)
    answers = [FetchResponsePartition(index, 0, 9, 9, 0, records) for index, records in enumerate((first, none, second))]
    chunks = fetch.encode_response(version, FetchResponse([FetchResponseTopic(key(version, "t"), answers)]))
    slices = [chunk for chunk in chunks if isinstance(chunk, FileSlice)]
    assert slices == [first, second]
    body = b"".join(chunk if isinstance(chunk, bytes) else bytes(len(chunk)) for chunk in chunks)
    assert len(body) == sum(len(chunk) for chunk in chunks)
    read = fetch.decode_response(version, body).topics[0].partitions
    assert [len(one.records or b"") for one in read] == [5, 0, 300_000]


def test_records_are_views_into_the_answer() -> None:
    answer = FetchResponsePartition(0, 0, 9, 9, 0, b"abc")
    body = bytearray(joined(fetch.encode_response(12, FetchResponse([FetchResponseTopic("t", [answer])]))))
    records = fetch.decode_response(12, body).topics[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert bytes(records) == b"abc"
    assert records.obj is body


@pytest.mark.parametrize("version", VERSIONS)
def test_frames_are_refused_at_every_prefix_and_with_something_behind(version: int) -> None:
    wanted = [FetchPartition(0, 5, 100), FetchPartition(1, 6, 100)]
    request = fetch.encode_request(
        version,
        FetchRequest(1, 1, 1, [FetchTopic(key(version, "t"), wanted)], forgotten=[(key(version, "gone"), (1, 2))], rack_id="r"),
    )
    answers = [FetchResponsePartition(0, 0, 1, 2, 3, b"abc", [(1, 2)]), FetchResponsePartition(1, 2, 0, records=None)]
    response = joined(fetch.encode_response(version, FetchResponse([FetchResponseTopic(key(version, "topic"), answers)])))
    is_refused_at_every_prefix(request, lambda cut: fetch.decode_request(version, cut))
    is_refused_at_every_prefix(response, lambda cut: fetch.decode_response(version, cut))
    with pytest.raises(MalformedFrame):
        fetch.decode_request(version, request + b"\x00")
    with pytest.raises(MalformedFrame):
        fetch.decode_response(version, response + b"\x00")


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (4, "ffffffff 00000001 00000001 00000001 00 7fffffff"),
        (4, "ffffffff 00000001 00000001 00000001 00 00000001 0001 74 7fffffff"),
        (7, "ffffffff 00000001 00000001 00000001 00 00000000 00000000 00000000 7fffffff"),
        (7, "ffffffff 00000001 00000001 00000001 00 00000000 00000000 00000000 00000001 0001 74 7fffffff"),
        (12, "ffffffff 00000001 00000001 00000001 00 00000000 00000000 ffffffff0f"),
        (11, "ffffffff 00000001 00000001 00000001 00 00000000 00000000 00000000 00000000 ffff"),
    ],
    ids=[
        "two billion topics",
        "two billion partitions",
        "two billion forgotten topics",
        "two billion forgotten partitions",
        "four billion topics",
        "a null rack",
    ],
)
def test_requests_that_lie_are_refused_before_anything_is_allocated(version: int, body: str) -> None:
    with pytest.raises(MalformedFrame):
        fetch.decode_request(version, bytes.fromhex(body))


@given(st.sampled_from(VERSIONS), st.binary(max_size=120))
@settings(max_examples=200)
def test_any_bytes_at_all_are_read_or_refused(version: int, body: bytes) -> None:
    for read in (fetch.decode_request, fetch.decode_response):
        try:
            read(version, body)
        except WireError:
            pass


@pytest.mark.parametrize("version", [0, 3, 17])
def test_other_versions_are_refused_by_name(version: int) -> None:
    with pytest.raises(UnsupportedVersion, match=f"Fetch version {version}"):
        fetch.encode_request(version, FetchRequest(1, 1, 1, []))
