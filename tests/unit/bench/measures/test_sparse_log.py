"""A sparse log is a log for a broker and takes no disk."""

from pathlib import Path

import pytest

from bench.measures import sparse_log
from bench.peers.disk_bytes import allocated_bytes_of
from headrace.wire.batch.record_batch import read_header
from tests.support.raw_kafka import batch
from tests.support.small_logs import recomputed_crc


def test_a_sparse_log_is_whole_and_valid_and_takes_little_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_log, "SEGMENT_BYTES", 4 * sparse_log.BATCH_BYTES)
    (tmp_path / "00000000000000000000.log").write_bytes(b"old")
    (tmp_path / "00000000000000000000.index").write_bytes(b"old")
    end = sparse_log.write(tmp_path, batch(b"m" * 200), 10 * sparse_log.BATCH_BYTES)
    assert end == 12 * sparse_log.BATCH_BYTES
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{n * 4 * sparse_log.BATCH_BYTES:020}.log" for n in range(3)]
    data = (tmp_path / f"{4 * sparse_log.BATCH_BYTES:020}.log").read_bytes()
    second = data[sparse_log.BATCH_BYTES : 2 * sparse_log.BATCH_BYTES]
    header = read_header(second)
    assert header.position == 5 * sparse_log.BATCH_BYTES
    assert header.size_bytes == sparse_log.BATCH_BYTES
    assert header.crc == recomputed_crc(second)
    assert allocated_bytes_of(tmp_path) < 1 << 20
