"""The short way of a consumer's repeated fetch gives what the long way gives, byte for byte, and takes nothing else for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.wire.messages import fetch
from headrace.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
    FetchTopic,
    TopicKey,
)
from headrace.wire.messages.single_partition_fetch import SinglePartitionFetch, masked, offset_in, recognise

VERSIONS = range(fetch.MIN_VERSION, fetch.MAX_SERVED + 1)
ID = bytes(range(16))
OFFSETS = st.integers(-(2**63), 2**63 - 1)


def clicks(version: int) -> TopicKey:
    return ID if version >= fetch.FIRST_WITH_IDS else "clicks"


def one(version: int, offset: int) -> tuple[bytes, FetchRequest]:
    request = FetchRequest(500, 1, 1 << 20, [FetchTopic(clicks(version), [FetchPartition(3, offset, 204_800)])])
    body = fetch.encode_request(version, request)
    return body, fetch.decode_request(version, body)


def recognised(version: int, offset: int = 0) -> SinglePartitionFetch:
    body, request = one(version, offset)
    found = recognise(version, body, request)
    assert found is not None
    return found


@pytest.mark.parametrize("version", VERSIONS)
@given(first=OFFSETS, second=OFFSETS)
def test_the_same_request_at_another_offset_is_recognised_and_reads_the_same(version: int, first: int, second: int) -> None:
    known = recognised(version, first)
    body, request = one(version, second)
    assert masked(version, body) == masked(version, one(version, first)[0])
    assert offset_in(version, body) == second
    assert known.at(second) == request


@pytest.mark.parametrize("version", VERSIONS)
@given(offset=st.integers(0, 2**62), start=st.integers(0, 2**62), size=st.integers(1, 2**31 - 2))
def test_an_answer_is_the_long_ways_byte_for_byte(version: int, offset: int, start: int, size: int) -> None:
    records = range(size)  # anything with a length
    answer = FetchResponsePartition(3, 0, offset, offset, start, records)
    chunks = fetch.encode_response(version, FetchResponse([FetchResponseTopic(clicks(version), [answer])]))
    known = recognised(version)
    assert [known.head(offset, start, size), records, *([known.tail] if known.tail else [])] == chunks


@pytest.mark.parametrize("version", VERSIONS)
def test_other_shapes_are_not_recognised(version: int) -> None:
    two = [FetchTopic(clicks(version), [FetchPartition(0, 5, 100), FetchPartition(1, 5, 100)])]
    shapes = [FetchRequest(500, 1, 100, two), FetchRequest(500, 1, 100, [*two, *two]), FetchRequest(500, 1, 100, [])]
    if version >= 7:
        shapes.append(one(version, 0)[1]._replace(forgotten=[(clicks(version), (1,))]))
    if version >= 11:
        shapes.append(one(version, 0)[1]._replace(rack_id="r1"))
    for request in shapes:
        body = fetch.encode_request(version, request)
        assert recognise(version, body, fetch.decode_request(version, body)) is None


@pytest.mark.parametrize("version", range(12, 17))
def test_a_request_with_tagged_fields_is_not_recognised(version: int) -> None:
    body, _ = one(version, 7)
    tagged = body[:-1] + b"\x01\x05\x01x"
    assert recognise(version, tagged, fetch.decode_request(version, tagged)) is None


def test_the_epoch_that_the_client_knows_is_remembered() -> None:
    request = FetchRequest(500, 1, 1 << 20, [FetchTopic(ID, [FetchPartition(3, 5, 100, current_leader_epoch=9)])])
    body = fetch.encode_request(16, request)
    known = recognise(16, body, request)
    assert known is not None
    assert (known.topic, known.current_leader_epoch) == (ID, 9)
