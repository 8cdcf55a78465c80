"""What keeps a run from measuring something else than it says: ports, children, counts, missing parts."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bench import sparse_log
from bench.child import BenchFault, Child, cpu_s, descendants, free_port, program, rss_mb
from bench.drivers.build import built
from bench.missing import Missing
from bench.peers.kafka_clients import OnDisk, check_log
from bench.peers.peer import allocated_bytes_of, bytes_of
from headrace.wire.batch_placement import recomputed_crc
from headrace.wire.record_batch import read_header
from tests.support.raw_kafka import batch

_NOTHING = OnDisk(batches=0, records=0, bytes=0)


def test_a_port_that_is_open_already_is_a_fault(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as somebody_else:
        port = somebody_else.getsockname()[1]
        with pytest.raises(BenchFault, match="somebody else's server"):
            Child([sys.executable, "-c", "pass"], tmp_path / "log", port=port).start()


def test_a_child_that_ends_before_its_port_opens_is_a_fault_with_its_last_words(tmp_path: Path) -> None:
    child = Child([sys.executable, "-c", "raise SystemExit('no licence')"], tmp_path / "log", port=free_port())
    with pytest.raises(BenchFault, match="no licence"):
        child.start()


def test_a_child_is_ours_once_its_port_answers_and_gone_after_stop(tmp_path: Path) -> None:
    port = free_port()
    serve = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    child = Child(serve, tmp_path / "log", port=port).start()
    assert cpu_s([child.pid]) > 0
    assert rss_mb([child.pid]) > 1
    assert descendants(os.getpid())[0] == os.getpid()
    assert child.pid in descendants(os.getpid())
    child.stop()
    with pytest.raises(BenchFault, match="is not running"):
        child.assert_alive()


def test_acknowledged_messages_that_are_not_in_the_log_are_a_fault() -> None:
    with pytest.raises(BenchFault, match="100 messages were acknowledged and 99 are in the log"):
        check_log("ours", "t", wanted=100, shape="1", before=_NOTHING, after=OnDisk(batches=99, records=99, bytes=1))


def test_batches_of_another_size_than_asked_for_are_a_fault() -> None:
    after = OnDisk(batches=3, records=100, bytes=1)
    with pytest.raises(BenchFault, match="came as 3 batches"):
        check_log("ours", "t", wanted=100, shape="50", before=_NOTHING, after=after)
    check_log("ours", "t", wanted=100, shape="default", before=_NOTHING, after=after)


def test_without_a_compiler_a_driver_is_missing_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Missing, match=r"driver log_walk cannot be built \(install gcc\)"):
        built("log_walk")


def test_bytes_on_disk_are_counted_by_length_and_by_blocks(tmp_path: Path) -> None:
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(1 << 24)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "full").write_bytes(b"x" * 5000)
    assert bytes_of(tmp_path) == (1 << 24) + 5000
    assert allocated_bytes_of(tmp_path) < 1 << 20
    assert bytes_of(tmp_path, "deep/*") == 5000


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


def test_a_process_that_has_ended_meanwhile_is_left_out() -> None:
    """RabbitMQ's shell helpers come and go; one that went between two looks made a run fail."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert program(ended.pid) == ""
    assert descendants(ended.pid) == [ended.pid]
