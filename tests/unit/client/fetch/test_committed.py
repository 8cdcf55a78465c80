"""Which batches of a read committed fetch hold records, checked against a model that follows transactions one by one."""

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.fetch.committed import are_data, data_batches
from headrace.wire.batch.batch_builder import BatchBuilder
from headrace.wire.batch.batch_header import BatchHeader, read_header
from headrace.wire.errors import CorruptBatch
from tests.support.small_logs import recomputed_crc

ABORT, COMMIT = 0, 1


def batch(
    offset: int, producer_id: int, *, transactional: bool = True, marker: int | None = None
) -> tuple[BatchHeader, memoryview]:
    builder = BatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=0)
    if marker is None:
        builder.append(1, None, b"value")
    else:
        builder.append(1, struct.pack(">hh", 0, marker), b"\0\0\0\0\0\0")
    whole = bytearray(builder.build())
    whole[0:8] = offset.to_bytes(8, "big")
    whole[22] |= (0x10 if transactional else 0) | (0x20 if marker is not None else 0)
    whole[17:21] = recomputed_crc(whole).to_bytes(4, "big")
    return read_header(whole), memoryview(bytes(whole))


@given(seed=st.integers(0, 1 << 32), cut=st.integers(0, 30))
def test_it_finds_what_a_model_of_the_transactions_finds(seed: int, cut: int) -> None:
    choice = random.Random(seed)
    batches: list[tuple[BatchHeader, memoryview]] = []
    open_since: dict[int, list[int]] = {}
    kept: set[int] = set()
    aborted: list[tuple[int, int, int]] = []
    offset = 0
    for _ in range(40):
        producer_id = choice.randrange(4)
        mine = open_since.get(producer_id)
        if producer_id == 3:  # one without transactions
            batches.append(batch(offset, 3, transactional=False))
            kept.add(offset)
        elif mine and choice.random() < 0.4:
            marker = choice.choice((ABORT, COMMIT))
            batches.append(batch(offset, producer_id, marker=marker))
            if marker == COMMIT:
                kept.update(mine)
            else:
                aborted.append((producer_id, mine[0], offset))
            del open_since[producer_id]
        else:
            batches.append(batch(offset, producer_id))
            open_since.setdefault(producer_id, []).append(offset)
        offset += 1
    # The last stable offset: nothing of a transaction that is still open is served.
    stable = min((mine[0] for mine in open_since.values()), default=offset)
    begin = min(cut, stable)
    served = batches[begin:stable]
    named = [(producer_id, first) for producer_id, first, marker in aborted if first < stable and marker >= begin]
    found = are_data(served, named)
    assert [header.base_offset for (header, _), is_data in zip(served, found, strict=True) if is_data] == sorted(
        one for one in kept if begin <= one < stable
    )
    assert len(data_batches(served, named)) == sum(found)


def test_a_marker_that_cannot_be_read_is_an_error() -> None:
    header, whole = batch(0, 1, marker=ABORT)
    with pytest.raises(CorruptBatch, match="marker"):
        are_data([(header, whole[:62])], [(1, 0)])
