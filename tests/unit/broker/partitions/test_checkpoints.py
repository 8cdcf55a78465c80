"""When sidecars are written, what is verified, and how descriptors are divided."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.event_loop.loop import Loop
from headrace.broker.event_loop.worker import Worker
from headrace.broker.log import LogConfig, PartitionLog
from headrace.broker.log.segment import sidecar_file
from headrace.broker.partitions import checkpoints
from headrace.broker.partitions.checkpoints import CHECKPOINTS_A_PASS, LEAST_BYTES, UNINDEXED_BYTES, Checkpoints, due
from headrace.broker.partitions.partition import Partition, PartitionTable
from headrace.broker.settings.topic_settings import settings_of
from tests.support.processes import eventually
from tests.support.small_logs import NOW_MS, batch


def open_log(folder: Path, index: int) -> PartitionLog:
    config = LogConfig(flush_on_roll=False, segment_bytes=400)
    return PartitionLog.open(folder / f"t-{index}", topic="t", partition=index, config=config, now_ms=NOW_MS)


def table_of(logs: list[PartitionLog]) -> PartitionTable:
    table = PartitionTable()
    for index, log in enumerate(logs):
        table.add(Partition("t", index, log, settings_of({}, {}), lambda partition, within_ms: None))
    return table


@pytest.fixture
def running() -> Iterator[Loop]:
    """A loop on a thread of its own."""
    loop = Loop()
    thread = threading.Thread(target=loop.run, daemon=True)
    begun = threading.Event()
    loop.post(begun.set)
    thread.start()
    assert begun.wait(10)
    yield loop
    loop.stop()
    thread.join(10)


def begin(loop: Loop, table: PartitionTable) -> Checkpoints:
    made = Checkpoints(loop, Worker("log", loop.post))
    loop.post(lambda: made.start(table))
    return made


def partitions(folder: Path, count: int) -> list[Partition]:
    return list(table_of([open_log(folder, index) for index in range(count)]))


def test_light_logs_are_left_alone(tmp_path: Path) -> None:
    (one,) = partitions(tmp_path, 1)
    assert due(UNINDEXED_BYTES, [], [(LEAST_BYTES, one)]) == []


def test_the_heaviest_go_first_until_what_is_left_is_light(tmp_path: Path) -> None:
    light, heavy, middle = partitions(tmp_path, 3)
    weights = [(UNINDEXED_BYTES // 8, light), (UNINDEXED_BYTES, heavy), (UNINDEXED_BYTES // 2, middle)]
    total = sum(weight for weight, _ in weights)
    assert due(total, [], weights) == [heavy, middle]


def test_closed_segments_get_theirs_whatever_the_weight_and_a_pass_is_bounded(tmp_path: Path) -> None:
    one, other = partitions(tmp_path, 2)
    assert due(0, [one], []) == [one]
    assert len(due(1 << 40, [one] * 70, [(1 << 30, other)] * 70)) == CHECKPOINTS_A_PASS


def test_sidecars_are_written_as_logs_grow_and_what_was_trusted_is_verified(
    tmp_path: Path, running: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "CHECKPOINT_EVERY_MS", 20)
    monkeypatch.setattr(checkpoints, "SCRUB_EVERY_MS", 20)
    monkeypatch.setattr(checkpoints, "UNINDEXED_BYTES", 100)
    monkeypatch.setattr(checkpoints, "LEAST_BYTES", 1)
    monkeypatch.setattr(checkpoints, "PARTITIONS_A_TURN", 2)
    for index in range(5):
        log = open_log(tmp_path, index)
        for number in range(9):
            log.append(batch(b"%d" % number), NOW_MS)
        log.close()
    with (tmp_path / "t-3" / f"{0:020d}.log").open("r+b") as file:
        file.seek(69 + 65)
        file.write(b"\xff")
    logs = [open_log(tmp_path, index) for index in range(5)]
    for log in logs:
        for number in range(9):
            log.append(batch(b"%d" % number), NOW_MS)
    made = begin(running, table_of(logs))
    eventually(lambda: sum(log.unindexed_bytes for log in logs) <= 100, what="all indexed")
    eventually(lambda: [bad[:2] for bad in logs[3].bad_ranges] == [(69, 138)], what="the damage found")
    eventually(lambda: all(log.scrub_job() is None for log in logs), what="all verified")
    again = [open_log(tmp_path, index) for index in range(5)]
    assert sum(log.recovery.checked_bytes for log in again) <= 100
    made.stop()


def test_damage_that_a_reader_finds_before_the_scrub_is_told_of_all_the_same_and_once(
    tmp_path: Path, running: Loop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(checkpoints, "SCRUB_EVERY_MS", 20)
    monkeypatch.setattr(checkpoints, "LOOK_AGAIN_MS", 20)
    log = open_log(tmp_path, 0)
    for number in range(9):
        log.append(batch(b"%d" % number), NOW_MS)
    log.close()
    with (tmp_path / "t-0" / f"{0:020d}.log").open("r+b") as file:
        file.seek(69 + 65)
        file.write(b"\xff")
    log = open_log(tmp_path, 0)
    table, made = table_of([log]), Checkpoints(running, Worker("log", running.post))
    found: list[int] = []

    def start_and_read() -> None:
        made.start(table)
        found.append(len(log.bad_ranges))
        for offset in (0, 69):
            log.read(offset, 1 << 20)
        found.append(len(log.bad_ranges))

    running.post(start_and_read)
    eventually(lambda: len(found) == 2, what="the log read")
    assert found == [0, 1], "the reader was first"
    eventually(lambda: "damage_found" in caplog.text, what="the damage told of")
    passes = 0

    def count(*_: object) -> None:
        nonlocal passes
        passes += 1

    monkeypatch.setattr(made, "_verify", lambda verify=made._verify: (count(), verify()))
    eventually(lambda: passes > 3, what="further passes")
    assert caplog.text.count("damage_found") == 1
    made.stop()


def test_a_disk_that_takes_no_sidecar_is_told_once_and_tried_again(
    tmp_path: Path, running: Loop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(checkpoints, "CHECKPOINT_EVERY_MS", 20)
    monkeypatch.setattr(checkpoints, "UNINDEXED_BYTES", 100)
    monkeypatch.setattr(checkpoints, "LEAST_BYTES", 1)
    failing = threading.Event()
    failing.set()
    calls: list[None] = []
    real = sidecar_file.write

    def write(folder: Path, sidecar: object) -> None:
        calls.append(None)
        if failing.is_set():
            raise OSError(28, "No space left on device")
        real(folder, sidecar)  # type: ignore[arg-type]

    monkeypatch.setattr(sidecar_file, "write", write)
    log = open_log(tmp_path, 0)
    for number in range(9):
        log.append(batch(b"%d" % number), NOW_MS)
    made = begin(running, table_of([log]))
    eventually(lambda: len(calls) > 3, what="some tries")
    failing.clear()
    eventually(lambda: log.unindexed_bytes == 0, what="indexed at last")
    assert caplog.text.count("sidecar_not_written") == 1
    made.stop()


def test_the_descriptor_limit_is_raised_and_half_of_it_is_for_logs() -> None:
    program = (
        "import resource\n"
        "hard = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 4096)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))\n"
        "from headrace.broker.network.descriptors import share_out\n"
        "from headrace.broker.log.segment import open_files\n"
        "assert share_out() == hard == resource.getrlimit(resource.RLIMIT_NOFILE)[0]\n"
        "assert open_files.shared.limit == hard // 2\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
