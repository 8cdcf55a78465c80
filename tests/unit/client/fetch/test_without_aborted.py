"""Aborted transactions in a fetched range."""

import struct

from headrace.client.fetch.committed import visible_end, without_aborted
from headrace.wire.batch.record_batch import BatchHeader, iter_records, read_header

from ..fetched_partitions import stored

TRANSACTIONAL, CONTROL = 0x10, 0x20


def batch(base: int, values: list[bytes], producer_id: int, flags: int) -> tuple[BatchHeader, memoryview]:
    data = bytearray(stored(0, values)[1])
    struct.pack_into(">q", data, 0, base)
    struct.pack_into(">h", data, 21, flags)
    struct.pack_into(">q", data, 43, producer_id)
    return read_header(data), memoryview(bytes(data))


def marker(base: int, producer_id: int, kind: int) -> tuple[BatchHeader, memoryview]:
    data = bytearray(stored(0, [b""])[1][:61])
    record = bytes([0, 0, 0, 8]) + struct.pack(">hh", 0, kind) + bytes([0, 0])
    data += bytes([len(record) * 2]) + record
    struct.pack_into(">qi", data, 0, base, len(data) - 12)
    struct.pack_into(">h", data, 21, TRANSACTIONAL | CONTROL)
    struct.pack_into(">q", data, 43, producer_id)
    return read_header(data), memoryview(bytes(data))


def test_only_the_aborted_transactions_records_are_gone_and_every_offset_stays_accounted_for() -> None:
    fetched = [
        batch(0, [b"a", b"b"], 7, TRANSACTIONAL),
        batch(2, [b"other"], 8, TRANSACTIONAL),
        marker(3, 7, 0),
        batch(4, [b"again"], 7, TRANSACTIONAL),
        marker(5, 7, 1),
        batch(6, [b"plain"], 7, 0),
    ]
    kept = without_aborted(fetched, [(7, 0)])
    assert [record.value for _, one in kept for record in iter_records(one)] == [b"other", b"again", b"plain"]
    assert [header.next_offset for header, _ in kept] == [2, 3, 4, 5, 6, 7]
    assert kept[0][0].is_control
    assert not kept[0][0].record_count


def test_without_aborted_transactions_the_batches_are_the_same_ones() -> None:
    fetched = [batch(0, [b"a"], 7, TRANSACTIONAL)]
    assert without_aborted(fetched, None) is fetched


def test_the_end_is_the_last_stable_offset_where_the_broker_knows_one() -> None:
    assert visible_end(10, 7) == 7
    assert visible_end(10, -1) == 10
