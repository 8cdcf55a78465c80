"""Offsets on the wire, checked byte for byte.

A batch at position P takes advance = max(bytes, records) offsets, and its base offset is P + advance - records. The gap is before
the batch; its last record is directly before the next batch's position. A fetch anywhere in [P, P + advance) returns this batch,
as it was sent.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import BatchBuilder, crc_matches, read_header
from headrace.wire.errors import ErrorCode
from headrace.wire.messages import produce
from tests.support.broker import BrokerProcess
from tests.support.raw_kafka import RawClient, batch, produce_body

CREATE_TOPICS, LIST_OFFSETS, DELETE_RECORDS, LEADER_EPOCH = 19, 2, 21, 23
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
TIME_MS = 1_700_000_000_000
DENSE = [b"y" * 20] * 3_000
"""More records than bytes after zstd."""


class Placed(NamedTuple):
    """What was sent, and its expected position."""

    sent: bytes
    position: int
    record_count: int

    @property
    def advance(self) -> int:
        return max(len(self.sent), self.record_count)

    @property
    def base_offset(self) -> int:
        return self.position + self.advance - self.record_count

    @property
    def next_position(self) -> int:
        return self.position + self.advance


def at(number: int, *values: bytes, codec: Codec = Codec.NONE) -> bytes:
    """Return a batch whose records are all at one time, `number` seconds after the first."""
    return batch(*values, timestamp_ms=TIME_MS + 1_000 * number, codec=codec)


SENT = [
    at(0, b"a"),
    at(1, b"b", b"c", b"d"),
    at(2, *[b"e" * 20] * 40, codec=Codec.GZIP),
    at(3, *DENSE, codec=Codec.ZSTD),
    at(4, b"f", b"g", codec=Codec.LZ4),
    at(5, b"h" * 300, codec=Codec.SNAPPY),
    at(6, *DENSE[:2_900], codec=Codec.ZSTD),
]


def placed(sent: Sequence[bytes], first: int = 0) -> list[Placed]:
    """Return the expected positions of batches that are sent one after another."""
    found, position = [], first
    for one in sent:
        found.append(Placed(one, position, read_header(one).record_count))
        position = found[-1].next_position
    return found


def make(client: RawClient, topic: str, **config: str) -> None:
    configs = [{"name": name.replace("_", "."), "value": value} for name, value in config.items()]
    wanted = {"name": topic, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": configs}
    (made,) = client.ask(CREATE_TOPICS, 5, {"topics": [wanted], "timeout_ms": 10_000, "validate_only": False}).topics
    assert int(made.error_code) == 0, made


def send(client: RawClient, topic: str, sent: Sequence[bytes] = SENT, first: int = 0) -> list[Placed]:
    """Send batches one by one, compare the responses with the expected positions, and return these."""
    batches = placed(sent, first)
    for one in batches:
        done = client.produce(topic, one.sent)
        assert (done.error_code, done.base_offset) == (0, one.base_offset)
    return batches


def fetched(client: RawClient, topic: str, offset: int, max_bytes: int = 1, version: int = 12) -> tuple[bytes, int, int]:
    """Return records, high watermark and log start of a response without an error."""
    answer = client.fetch_many([(topic, 0, offset)], max_bytes=max_bytes, version=version)[topic, 0]
    assert answer.error_code == 0, (offset, answer)
    assert answer.last_stable_offset == answer.high_watermark
    return bytes(answer.records or b""), answer.high_watermark, answer.log_start_offset


def error_at(client: RawClient, topic: str, offset: int) -> int:
    return int(client.fetch(topic, offset).error_code)


def check_as_sent(found: bytes, one: Placed) -> None:
    """Assert that the batch is as sent, except for base offset and leader epoch, which the broker may set: the CRC covers
    neither.
    """
    header = read_header(found)
    assert header.base_offset == one.base_offset
    assert header.last_offset_delta == one.record_count - 1
    assert (found[8:12], found[16:]) == (one.sent[8:12], one.sent[16:])
    assert header.crc == read_header(one.sent).crc
    assert crc_matches(found, 0, len(found))


def listed(client: RawClient, topic: str, timestamp: int, version: int = 7) -> tuple[int, int]:
    """Return (offset, timestamp) of a ListOffsets response."""
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
    asked = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": [partition]}]}
    (found,) = client.ask(LIST_OFFSETS, version, asked).topics
    assert int(found.partitions[0].error_code) == 0
    return int(found.partitions[0].offset), _ms(found.partitions[0].timestamp)


def _ms(timestamp: Any) -> int:
    """Return kio's datetime in ms; it reads no time as None."""
    return -1 if timestamp is None else timestamp if isinstance(timestamp, int) else round(timestamp.timestamp() * 1000)


def delete(client: RawClient, topic: str, offset: int) -> int:
    """Delete the records before `offset` and return the low watermark of the response."""
    wanted = [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}]
    (done,) = client.ask(DELETE_RECORDS, 2, {"topics": wanted, "timeout_ms": 10_000}).topics
    assert int(done.partitions[0].error_code) == 0, done
    return int(done.partitions[0].low_watermark)


def test_a_produce_answer_names_the_first_records_offset_and_the_last_one_is_before_the_next_position(
    broker: BrokerProcess, topic: str
) -> None:
    with RawClient(broker.port) as client:
        make(client, topic)
        batches = send(client, topic)
        for one, following in itertools.pairwise(batches):
            assert one.base_offset + one.record_count == following.position
        assert listed(client, topic, LATEST)[0] == batches[-1].base_offset + batches[-1].record_count


@pytest.mark.parametrize("segment_bytes", [1 << 30, 400])
def test_every_offset_that_a_batch_takes_is_answered_with_that_batch_as_it_was_sent(
    broker: BrokerProcess, topic: str, segment_bytes: int
) -> None:
    with RawClient(broker.port) as client:
        make(client, topic, segment_bytes=str(segment_bytes))
        batches = send(client, topic)
        end = batches[-1].next_position
        for one in batches:
            first, high_watermark, log_start = fetched(client, topic, one.position)
            check_as_sent(first, one)
            assert (high_watermark, log_start) == (end, 0)
            for offset in range(one.position + 1, one.next_position):
                assert fetched(client, topic, offset) == (first, end, 0), offset


@pytest.mark.parametrize("version", range(4, 13))
def test_what_is_fetched_on_is_every_batch_once(broker: BrokerProcess, topic: str, version: int) -> None:
    """A client's own arithmetic, last offset + 1, walks the log in every version, whatever a response holds."""
    with RawClient(broker.port) as client:
        make(client, topic)
        batches = send(client, topic)
        found, offset = [], 0
        while True:
            records, high_watermark, _ = fetched(client, topic, offset, 1 << 20, version)
            if not records:
                break
            while records:
                header = read_header(records)
                found.append(records[: header.size_bytes])
                records = records[header.size_bytes :]
                offset = header.base_offset + header.last_offset_delta + 1
        assert offset == high_watermark == batches[-1].next_position
        assert len(found) == len(batches)
        for data, one in zip(found, batches, strict=True):
            check_as_sent(data, one)


@pytest.mark.parametrize("sent", [[], [SENT[0]], [SENT[6]]], ids=["empty", "one record", "more records than bytes"])
def test_the_end_is_the_end(broker: BrokerProcess, topic: str, sent: list[bytes]) -> None:
    with RawClient(broker.port) as client:
        make(client, topic)
        batches = send(client, topic, sent)
        end = batches[-1].next_position if batches else 0
        assert fetched(client, topic, end) == (b"", end, 0)
        for beyond in (-1, end + 1):
            assert error_at(client, topic, beyond) == ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_empty_answer_says_where_the_partition_really_ends(broker: BrokerProcess, topic: str) -> None:
    """Empty because other partitions used up the bytes, or because its reader is at the end."""
    names = [f"{topic}-{number}" for number in range(20)]
    with RawClient(broker.port) as client:
        ends = {}
        for name in names:
            make(client, name)
            ends[name] = send(client, name, SENT[:3])[-1].next_position
        gap = placed(SENT[:3])[2].position + 1
        answers = client.fetch_many(
            [(name, 0, gap if number % 2 else ends[name]) for number, name in enumerate(names)], max_bytes=1
        )
        assert {name: answers[name, 0].high_watermark for name in names} == ends
        assert sum(bool(answers[name, 0].records) for name in names) == 1


def test_requests_in_flight_are_placed_as_those_that_come_one_by_one(broker: BrokerProcess, topic: str) -> None:
    """Requests that arrive in one read are written as one run."""
    sent = SENT * 6
    with RawClient(broker.port) as client:
        make(client, topic)
        ids = [client.send(produce.API_KEY, 9, produce_body(topic, one)) for one in sent]
        for correlation_id, one in zip(ids, placed(sent), strict=True):
            answered, body = client.receive(produce.API_KEY, 9)
            assert answered == correlation_id
            done = produce.decode_response(9, body).topics[0].partitions[0]
            assert (done.error_code, done.base_offset) == (0, one.base_offset)
        for one in placed(sent):
            check_as_sent(fetched(client, topic, one.position)[0], one)


def test_a_duplicate_is_answered_with_the_first_ones_offset(broker: BrokerProcess, topic: str) -> None:
    sent = [batch(b"a", b"b", producer_id=7, epoch=0, sequence=2 * number) for number in range(4)]
    with RawClient(broker.port) as client:
        make(client, topic)
        batches = send(client, topic, sent)
        for one in batches:
            done = client.produce(topic, one.sent)
            assert (done.error_code, done.base_offset) == (0, one.base_offset)
        assert listed(client, topic, LATEST)[0] == batches[-1].next_position


def test_append_time_is_set_and_the_place_is_the_same(broker: BrokerProcess, topic: str) -> None:
    with RawClient(broker.port) as client:
        make(client, topic, message_timestamp_type="LogAppendTime")
        for one in send(client, topic):
            for offset in (one.position, one.base_offset, one.next_position - 1):
                data = fetched(client, topic, offset)[0]
                header = read_header(data)
                assert (header.base_offset, header.last_offset_delta) == (one.base_offset, one.record_count - 1)
                assert header.max_timestamp_ms > TIME_MS
                assert crc_matches(data, 0, len(data))


@pytest.mark.parametrize("version", range(1, 8))
def test_offsets_are_listed_of_records(broker: BrokerProcess, topic: str, version: int) -> None:
    several = batch(b"x", timestamp_ms=TIME_MS + 7_000)
    with RawClient(broker.port) as client:
        make(client, topic)
        batches = send(client, topic, [*SENT, several])
        assert listed(client, topic, EARLIEST, version)[0] == 0
        assert listed(client, topic, LATEST, version)[0] == batches[-1].next_position
        assert listed(client, topic, 0, version) == (batches[0].base_offset, TIME_MS)
        for number, one in enumerate(batches):
            for late_ms in (0, -1, -999):
                asked = TIME_MS + 1_000 * number + late_ms
                assert listed(client, topic, asked, version) == (one.base_offset, TIME_MS + 1_000 * number)
        assert listed(client, topic, TIME_MS + 7_001, version) == (-1, -1)
        if version == 7:
            assert listed(client, topic, MAX_TIMESTAMP, version) == (batches[-1].base_offset, TIME_MS + 7_000)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_time_inside_a_batch_is_found_at_its_record(broker: BrokerProcess, topic: str, codec: Codec) -> None:
    builder = BatchBuilder(codec=codec)
    for after_ms in (0, 10, 30, 20, 5):
        builder.append(TIME_MS + after_ms, None, b"x" * 50)
    with RawClient(broker.port) as client:
        make(client, topic)
        first, one = send(client, topic, [batch(b"before", timestamp_ms=TIME_MS - 1_000), builder.build()])
        for asked, index in ((0, 0), (1, 1), (10, 1), (11, 2), (30, 2)):
            assert listed(client, topic, TIME_MS + asked)[0] == one.base_offset + index
        assert listed(client, topic, MAX_TIMESTAMP) == (one.base_offset + 2, TIME_MS + 30)
        assert listed(client, topic, TIME_MS - 2_000)[0] == first.base_offset


def test_records_are_deleted_up_to_any_offset(broker: BrokerProcess, topic: str) -> None:
    """In a gap, in a batch's middle, at its last record, at the end: the log then begins there, with the batch that holds the
    offset.
    """
    with RawClient(broker.port) as client:
        make(client, topic, segment_bytes="400")
        batches = send(client, topic)
        end = batches[-1].next_position
        for one in batches:
            middle = one.base_offset + one.record_count // 2
            for offset in sorted(
                {one.position, (one.position + one.base_offset) // 2, one.base_offset, middle, one.next_position - 1}
            ):
                assert delete(client, topic, offset) == offset
                assert listed(client, topic, EARLIEST)[0] == offset
                assert listed(client, topic, LATEST)[0] == end
                found, high_watermark, log_start = fetched(client, topic, offset)
                check_as_sent(found, one)
                assert (high_watermark, log_start) == (end, offset)
                if offset:
                    assert error_at(client, topic, offset - 1) == ErrorCode.OFFSET_OUT_OF_RANGE
        assert delete(client, topic, -1) == end
        assert listed(client, topic, EARLIEST)[0] == end
        assert fetched(client, topic, end) == (b"", end, end)
        (behind,) = send(client, topic, [SENT[1]], end)
        check_as_sent(fetched(client, topic, end)[0], behind)


def test_the_end_of_an_epoch_is_the_logs_end(broker: BrokerProcess, topic: str) -> None:
    with RawClient(broker.port) as client:
        for number in range(1, len(SENT) + 1):
            make(client, f"{topic}-{number}")
            end = send(client, f"{topic}-{number}", SENT[:number])[-1].next_position
            wanted = [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]
            asked = {"replica_id": -1, "topics": [{"topic": f"{topic}-{number}", "partitions": wanted}]}
            (found,) = client.ask(LEADER_EPOCH, 3, asked).topics
            answer = found.partitions[0]
            assert (int(answer.error_code), int(answer.leader_epoch), int(answer.end_offset)) == (0, 0, end)


@pytest.mark.parametrize("last", [0, 3, 5])
@pytest.mark.parametrize("segment_bytes", [1 << 30, 400])
def test_a_killed_broker_finds_every_place_again(broker: BrokerProcess, topic: str, last: int, segment_bytes: int) -> None:
    """For any last batch: after one with more records than bytes, the log's end is not the file's end."""
    sent = [*SENT[last + 1 :], *SENT[: last + 1]]
    with RawClient(broker.port) as client:
        make(client, topic, segment_bytes=str(segment_bytes))
        batches = send(client, topic, sent)
    broker.kill()
    broker.restart()
    with RawClient(broker.port) as client:
        end = batches[-1].next_position
        assert (listed(client, topic, EARLIEST)[0], listed(client, topic, LATEST)[0]) == (0, end)
        batches += send(client, topic, SENT, end)
        for one in batches:
            for offset in (one.position, one.base_offset, one.next_position - 1):
                check_as_sent(fetched(client, topic, offset)[0], one)
