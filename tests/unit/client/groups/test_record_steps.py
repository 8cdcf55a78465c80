"""What is unread, by the headers of its batches."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.client.fetch.fetched import TopicPartition
from headrace.client.groups import record_steps
from headrace.wire.batch.batch_header import BatchHeader

NAME = TopicPartition("t", 0)
SIZE, RECORDS, BATCHES = 500, 5, 20
END = SIZE * BATCHES


def header(number: int) -> BatchHeader:
    """Return the header of a batch of five records in a byte-addressed log, ten seconds after the one before."""
    return BatchHeader(
        base_offset=(number + 1) * SIZE - RECORDS, size_bytes=SIZE, leader_epoch=0, crc=0, attributes=0,
        last_offset_delta=RECORDS - 1, base_timestamp_ms=number * 10_000, max_timestamp_ms=number * 10_000 + 4_000,
        producer_id=-1, producer_epoch=-1, base_sequence=-1, record_count=RECORDS,
    )  # fmt: skip


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A log of twenty batches; returns the numbers of those that were read."""
    numbers: list[int] = []

    def read_range(
        cluster: object, topic: str, partition: int, begin: int, end: int, **_: Any
    ) -> Iterator[tuple[BatchHeader, bytes]]:
        for number in range(BATCHES):
            one = header(number)
            if one.next_offset > begin and number * SIZE < end:
                numbers.append(number)
                yield one, b""

    monkeypatch.setattr(record_steps, "read_range", read_range)
    return numbers


def unread(offset: int, most_bytes: int) -> record_steps.Unread:
    cluster: Any = None
    return record_steps.unread(cluster, NAME, offset, END, most_bytes=most_bytes)


def test_what_fits_the_bound_is_counted_record_by_record(read: list[int]) -> None:
    found = unread(0, END + 1)
    assert (found.records, found.is_estimate, found.behind_ms) == (RECORDS * BATCHES, False, 19 * 10_000 + 4_000)
    second = header(0).base_offset + 1
    assert unread(second, END + 1).records == RECORDS * BATCHES - 1


def test_beyond_the_bound_the_rest_is_taken_to_be_like_what_was_read(read: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_steps, "FIRST_WINDOW_BYTES", SIZE)
    found = unread(header(0).base_offset, 2 * SIZE)
    assert (found.records, found.is_estimate) == (RECORDS * BATCHES, True)
    assert read == [0, 1, BATCHES - 1], "two batches, and the newest for its time"
    assert found.behind_ms == 19 * 10_000 + 4_000


def test_nothing_is_unread_at_the_end(read: list[int]) -> None:
    assert unread(END, 1) == record_steps.Unread(records=0, is_estimate=False, behind_ms=None, read_bytes=0)
    assert read == []
