"""Produce: which batches are appended and where, which are refused and why. Real sockets and logs; ZooKeeper is simulated."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.wire.batch.compression import Codec
from headrace.wire.batch.crc32c import crc32c
from headrace.wire.batch.record_batch import iter_batches, iter_records, read_header
from headrace.wire.errors import ErrorCode
from headrace.wire.messages import produce
from tests.support.raw_kafka import RawClient, batch, produce_body
from tests.support.serving_broker import ServingBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    topics: dict[str, int | tuple[int, dict[str, str]]] = {
        "clicks": 2,
        "small": (1, {"max.message.bytes": "200"}),
        "copied": (1, {"headrace.mirror": "true"}),
    }
    with ServingBroker(tmp_path, topics=topics) as serving:
        yield serving


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as raw:
        yield raw


def with_bytes(data: bytes, at: int, new: bytes, *, fix_crc: bool = True) -> bytes:
    """Return the batch with bytes replaced, its CRC right again unless the test wants it wrong."""
    changed = bytearray(data)
    changed[at : at + len(new)] = new
    if fix_crc:
        changed[17:21] = struct.pack(">I", crc32c(bytes(changed[21:])))
    return bytes(changed)


@pytest.mark.parametrize("version", range(3, 10))
def test_each_version_appends_and_answers_the_first_records_offset(client: RawClient, version: int) -> None:
    data = batch(b"one", b"two")
    first = client.produce("clicks", data, version=version)
    second = client.produce("clicks", data, version=version)
    assert (first.error_code, first.base_offset) == (0, len(data) - 2)
    assert (second.error_code, second.base_offset) == (0, 2 * len(data) - 2)
    assert second.log_start_offset == (0 if version >= 5 else -1)


@pytest.mark.parametrize("codec", list(Codec))
def test_records_come_back_as_they_were_in_each_codec(client: RawClient, codec: Codec) -> None:
    values = [b"a", None, b"", b"x" * 10_000]
    assert client.produce("clicks", batch(*values, codec=codec)).error_code == 0
    ((header, data),) = iter_batches(client.fetch("clicks", 0).records)
    assert [record.value for record in iter_records(data)] == values
    assert header.codec is codec


def test_a_batch_with_more_records_than_bytes_advances_by_its_records(client: RawClient) -> None:
    data = batch(*[b"same"] * 5_000, codec=Codec.ZSTD)
    assert len(data) < 5_000
    assert client.produce("clicks", data).base_offset == 0
    assert client.produce("clicks", batch(b"next")).base_offset == 5_000 + len(batch(b"next")) - 1


def test_acks_0_is_appended_and_has_no_answer(client: RawClient) -> None:
    client.send(produce.API_KEY, 9, produce_body("clicks", batch(b"one"), acks=0))
    second = client.produce("clicks", batch(b"two"))
    assert second.base_offset == len(batch(b"one")) + len(batch(b"two")) - 1


def test_an_error_with_acks_0_closes_the_connection_so_that_the_producer_notices(client: RawClient) -> None:
    client.send(produce.API_KEY, 9, produce_body("nowhere", batch(b"one"), acks=0))
    assert client.is_closed_by_peer()


def test_several_partitions_are_answered_each_for_itself(client: RawClient) -> None:
    topics = [
        produce.ProduceTopic(
            "clicks",
            [
                produce.ProducePartition(0, batch(b"one")),
                produce.ProducePartition(1, b"garbage" * 20),
                produce.ProducePartition(7, batch(b"x")),
            ],
        ),
        produce.ProduceTopic("small", [produce.ProducePartition(0, batch(b"y" * 300))]),
    ]
    body = produce.encode_request(9, produce.ProduceRequest(-1, 1_000, None, topics))
    response = produce.decode_response(9, client.request(produce.API_KEY, 9, body))
    codes = [[answer.error_code for answer in topic.partitions] for topic in response.topics]
    assert codes == [
        [ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.MESSAGE_TOO_LARGE],
    ]


def refusals() -> list[tuple[str, bytes | None, ErrorCode]]:
    good = batch(b"one", b"two")
    idempotent = batch(b"one", producer_id=5, epoch=0, sequence=0)
    return [
        ("no records", None, ErrorCode.INVALID_RECORD),
        ("empty records", b"", ErrorCode.INVALID_RECORD),
        ("a cut header", good[:40], ErrorCode.CORRUPT_MESSAGE),
        ("a cut batch", good[:-1], ErrorCode.CORRUPT_MESSAGE),
        ("a flipped bit", with_bytes(good, 70, bytes([good[70] ^ 1]), fix_crc=False), ErrorCode.CORRUPT_MESSAGE),
        ("two batches", good + good, ErrorCode.INVALID_RECORD),
        ("magic 0", with_bytes(good, 16, b"\x00"), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        ("magic 1", with_bytes(good, 16, b"\x01"), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        ("magic 3", with_bytes(good, 16, b"\x03"), ErrorCode.CORRUPT_MESSAGE),
        ("a transactional batch", with_bytes(good, 21, b"\x00\x10"), ErrorCode.INVALID_RECORD),
        ("a control batch", with_bytes(good, 21, b"\x00\x20"), ErrorCode.INVALID_RECORD),
        ("a time said to be a broker's", with_bytes(good, 21, b"\x00\x08"), ErrorCode.INVALID_TIMESTAMP),
        ("an unknown codec", with_bytes(good, 21, b"\x00\x05"), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ("no records in the batch", with_bytes(good, 57, struct.pack(">i", 0)), ErrorCode.INVALID_RECORD),
        ("more records than can be", with_bytes(good, 57, struct.pack(">i", 2**31 - 1)), ErrorCode.INVALID_RECORD),
        (
            "absurdly many compressed",
            with_bytes(batch(b"x", codec=Codec.ZSTD), 57, struct.pack(">i", 2**31 - 1)),
            ErrorCode.INVALID_RECORD,
        ),
        ("a producer without sequence", with_bytes(idempotent, 53, struct.pack(">i", -1)), ErrorCode.INVALID_RECORD),
        ("a producer without epoch", with_bytes(idempotent, 51, struct.pack(">h", -1)), ErrorCode.INVALID_RECORD),
    ]


@pytest.mark.parametrize(("what", "records", "code"), refusals(), ids=[what for what, _, _ in refusals()])
def test_what_may_not_be_in_a_log_is_refused_and_leaves_no_trace(
    broker: ServingBroker, client: RawClient, what: str, records: bytes | None, code: ErrorCode
) -> None:
    answer = client.produce("clicks", records)
    assert (ErrorCode(answer.error_code), answer.base_offset) == (code, -1)
    assert answer.error_message
    assert broker.partition("clicks").log.log_end_offset == 0


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_unknown_acks_are_refused(client: RawClient, acks: int) -> None:
    assert client.produce("clicks", batch(b"one"), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_transactions_are_refused_with_an_error_that_is_not_repeated_for_ever(client: RawClient) -> None:
    answer = client.produce("clicks", batch(b"one"), transactional_id="tx")
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert not ErrorCode(answer.error_code).retriable


def test_an_idempotent_retry_is_acknowledged_with_its_first_offset_and_not_appended(
    broker: ServingBroker, client: RawClient
) -> None:
    first = batch(b"one", b"two", producer_id=9, epoch=0, sequence=0)
    second = batch(b"three", producer_id=9, epoch=0, sequence=2)
    offsets = [client.produce("clicks", data).base_offset for data in (first, second, first, second)]
    assert offsets == [len(first) - 2, len(first) + len(second) - 1] * 2
    assert broker.partition("clicks").log.log_end_offset == len(first) + len(second)


def test_a_gap_in_the_sequence_and_an_old_epoch_are_refused(client: RawClient) -> None:
    assert client.produce("clicks", batch(b"one", producer_id=9, epoch=1, sequence=0)).error_code == 0
    gap = client.produce("clicks", batch(b"three", producer_id=9, epoch=1, sequence=2))
    fenced = client.produce("clicks", batch(b"two", producer_id=9, epoch=0, sequence=1))
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert fenced.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_before_record_batches_is_refused_in_its_own_words(client: RawClient, version: int) -> None:
    name = struct.pack(">h", 6) + b"clicks"
    body = struct.pack(">hii", 1, 1_000, 1) + name + struct.pack(">iii", 1, 0, 3) + b"old"
    answer = client.request(produce.API_KEY, version, body)
    error = struct.pack(">ihq", 0, ErrorCode.UNSUPPORTED_VERSION, -1)
    time = b"\xff" * 8 if version == 2 else b""
    throttle = struct.pack(">i", 0) if version >= 1 else b""
    assert bytes(answer) == struct.pack(">i", 1) + name + struct.pack(">i", 1) + error + time + throttle


# -- mirrored topics ----------------------------------------


def fetched_from_source(client: RawClient, *batches: bytes) -> list[bytes]:
    """Return the batches as another byte-addressed log has them, with their offsets."""
    for data in batches:
        client.produce("clicks", data)
    return [bytes(one) for _, one in iter_batches(client.fetch("clicks", 0).records)]


def test_an_ordinary_producer_may_not_write_to_a_mirrored_topic(client: RawClient) -> None:
    answer = client.produce("copied", batch(b"one"))
    assert answer.error_code == ErrorCode.POLICY_VIOLATION
    assert "mirror" in (answer.error_message or "")


def test_a_mirror_may_not_write_to_an_ordinary_topic(client: RawClient) -> None:
    assert client.produce("small", batch(b"one"), conditional_start=0).error_code == ErrorCode.POLICY_VIOLATION


def test_mirrored_batches_keep_offsets_and_bytes_several_in_one_request(client: RawClient) -> None:
    source = fetched_from_source(client, batch(b"one"), batch(b"two", b"three", codec=Codec.GZIP), batch(b"four"))
    answer = client.produce("copied", b"".join(source[:2]), conditional_start=0)
    assert (answer.error_code, answer.base_offset) == (0, read_header(source[0]).base_offset)
    assert client.produce("copied", source[2], conditional_start=0).error_code == 0
    assert bytes(client.fetch("copied", 0).records) == b"".join(source)


def test_a_dead_mirrors_last_request_that_comes_late_is_acknowledged_and_appends_nothing(
    broker: ServingBroker, client: RawClient
) -> None:
    source = fetched_from_source(client, batch(b"one"), batch(b"two"), batch(b"three"))
    for _ in range(2):
        answer = client.produce("copied", b"".join(source[:2]), conditional_start=0)
        assert (answer.error_code, answer.base_offset) == (0, read_header(source[0]).base_offset)
    late = client.produce("copied", source[1], conditional_start=0)
    assert (late.error_code, late.base_offset) == (0, read_header(source[1]).base_offset)
    assert broker.partition("copied").log.log_end_offset == read_header(source[2]).position


def test_a_mirror_append_ahead_of_the_log_end_is_refused_and_says_where_the_log_ends(client: RawClient) -> None:
    source = fetched_from_source(client, batch(b"one"), batch(b"two"))
    answer = client.produce("copied", source[1], conditional_start=0)
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert "missing" in (answer.error_message or "")


def test_another_batch_at_an_offset_that_is_taken_is_refused(client: RawClient) -> None:
    source = fetched_from_source(client, batch(b"one"))
    client.produce("copied", source[0], conditional_start=0)
    other = with_bytes(source[0], 27, struct.pack(">q", 5))
    assert client.produce("copied", other, conditional_start=0).error_code == ErrorCode.INVALID_RECORD


def test_a_mirrored_log_begins_where_its_sources_log_begins_now(broker: ServingBroker, client: RawClient) -> None:
    source = fetched_from_source(client, batch(b"one"), batch(b"two"))
    header = read_header(source[1])
    answer = client.produce("copied", source[1], conditional_start=header.position)
    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (0, header.base_offset, header.position)


def test_a_mirrored_batch_whose_bytes_went_wrong_on_the_way_is_refused(client: RawClient) -> None:
    source = fetched_from_source(client, batch(b"one"))
    spoiled = with_bytes(source[0], len(source[0]) - 1, b"\x55", fix_crc=False)
    assert client.produce("copied", spoiled, conditional_start=0).error_code == ErrorCode.CORRUPT_MESSAGE
    assert client.produce("copied", source[0][:-3], conditional_start=0).error_code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("version", [0, 2])
def test_old_requests_that_name_very_many_partitions_are_refused_too(broker: ServingBroker, version: int) -> None:
    count = produce.MOST_ELEMENTS
    body = struct.pack(">hii", 1, 1_000, 1) + b"\0\1t" + struct.pack(">i", count) + struct.pack(">ii", 0, -1) * count
    with broker.client() as client:
        client.send(0, version, body)
        assert client.is_closed_by_peer()
