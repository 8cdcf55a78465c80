"""Sidecars: a start reads far less and finds the same log; no sidecar is needed, and none is used that does not fit."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from headrace.broker.log import PartitionLog
from headrace.broker.log.segment import boot_id
from headrace.broker.log.segment.sidecar import SidecarDamaged, decode
from headrace.wire.batch.record_batch import read_header
from headrace.wire.generators import run_to_end
from tests.support.small_logs import (
    DAY_MS,
    NOW_MS,
    batch,
    checkpointed,
    fetched,
    open_log,
    scrubbed,
    twelve_batches,
    values,
)

pytestmark = pytest.mark.usefixtures("no_fsync")


def names(folder: Path, suffix: str) -> list[str]:
    return sorted(path.name.lstrip("0") for path in folder.glob(f"*{suffix}"))


def reread(log: PartitionLog) -> int:
    return log.recovery.checked_bytes


def test_after_a_clean_stop_nothing_is_read_again(tmp_path: Path) -> None:
    log = twelve_batches(tmp_path, segment_bytes=300)
    made = fetched(log)
    log.close()
    again = open_log(tmp_path, segment_bytes=300)
    assert (reread(again), again.recovery.batch_count) == (0, 0)
    assert again.recovery.left_bytes > 0
    assert fetched(again) == made
    assert [facts.end_offset for facts in again.segments] == [facts.end_offset for facts in log.segments]


def test_after_a_kill_only_what_came_after_the_checkpoint_is_read_again(tmp_path: Path) -> None:
    log = checkpointed(twelve_batches(tmp_path, segment_bytes=10_000))
    before = log.log_end_offset
    log.append(batch(b"after"), NOW_MS)
    again = open_log(tmp_path)
    assert reread(again) == log.log_end_offset - before
    assert fetched(again) == fetched(log)


def test_a_torn_tail_behind_a_checkpoint_is_cut(tmp_path: Path) -> None:
    log = checkpointed(twelve_batches(tmp_path, segment_bytes=10_000))
    with (tmp_path / f"{0:020d}.log").open("ab") as file:
        file.write(b"torn")
    again = open_log(tmp_path)
    assert (again.recovery.cut_bytes, again.log_end_offset) == (4, log.log_end_offset)


def test_producers_are_the_same_by_snapshot_and_headers(tmp_path: Path) -> None:
    log = checkpointed(twelve_batches(tmp_path, segment_bytes=300))
    log.append(batch(b"x", producer_id=7, epoch=1, sequence=11), NOW_MS)
    log.append(batch(b"y", producer_id=8, epoch=0, sequence=0), NOW_MS)
    again = open_log(tmp_path, segment_bytes=300)
    assert again.producers.snapshot() == log.producers.snapshot()
    assert reread(again) < 200


def test_producers_whose_batches_have_expired_are_remembered(tmp_path: Path) -> None:
    log = open_log(tmp_path, retention_ms=DAY_MS)
    log.append(batch(b"x", producer_id=7, epoch=1, sequence=3), NOW_MS - 2 * DAY_MS)
    log.expire(NOW_MS)
    log.append(batch(b"y"), NOW_MS)
    log.close()
    assert 7 in open_log(tmp_path).producers


def test_what_was_not_on_disk_is_trusted_only_while_the_system_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = checkpointed(twelve_batches(tmp_path, segment_bytes=300, flush_on_roll=False))
    assert names(tmp_path, ".index") == []
    assert len(names(tmp_path, ".recent")) == len(log.segments)
    assert reread(open_log(tmp_path, segment_bytes=300)) == 0
    monkeypatch.setattr(boot_id, "current", lambda: b"another start...")
    again = open_log(tmp_path, segment_bytes=300)
    assert reread(again) == again.size_bytes
    assert fetched(again) == fetched(log)


def test_what_was_on_disk_is_trusted_ever_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = twelve_batches(tmp_path, segment_bytes=300, flush_on_roll=False)
    log.flush()
    checkpointed(log)
    assert names(tmp_path, ".recent") == []
    monkeypatch.setattr(boot_id, "current", lambda: b"another start...")
    again = open_log(tmp_path, segment_bytes=300)
    assert (reread(again), again.flushed_offset) == (0, log.log_end_offset)


def test_a_newer_sidecar_of_this_start_does_not_cost_the_older_one_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = twelve_batches(tmp_path, segment_bytes=10_000)
    log.flush()
    flushed = checkpointed(log).log_end_offset
    log.append(batch(b"later", producer_id=7, epoch=1, sequence=11), NOW_MS)
    checkpointed(log)
    assert (names(tmp_path, ".index"), names(tmp_path, ".recent")) == ([".index"], [".recent"])
    assert reread(open_log(tmp_path)) == 0
    monkeypatch.setattr(boot_id, "current", lambda: b"another start...")
    os.truncate(tmp_path / f"{0:020d}.log", flushed)  # the power cut took what was not flushed
    again = open_log(tmp_path)
    assert again.log_end_offset == flushed
    # The batch that is lost is not taken for one that is there.
    lost = read_header(batch(b"later", producer_id=7, epoch=1, sequence=11))
    assert str(again.producers.classify(lost)) == "Fresh()"


def test_the_active_segments_sidecar_says_nothing_of_whether_those_before_it_are_on_disk(tmp_path: Path) -> None:
    checkpointed(twelve_batches(tmp_path, segment_bytes=300, flush_on_roll=False))
    again = open_log(tmp_path, segment_bytes=300, flush_at_open=False)
    assert again.flushed_offset == 0
    again.flush()
    assert again.flushed_offset == again.log_end_offset


def test_a_missing_sidecar_of_an_old_segment_is_made_again_off_the_way_and_no_fetch_waits_for_it(tmp_path: Path) -> None:
    log = twelve_batches(tmp_path, segment_bytes=300)
    made = fetched(log)
    log.close()
    (tmp_path / f"{0:020d}.index").unlink()
    again = open_log(tmp_path, segment_bytes=300)
    assert reread(again) == 0
    for max_bytes in (1, 100, 10_000):
        assert fetched(open_log(tmp_path, segment_bytes=300), max_bytes=max_bytes) == made
    for offset in range(0, log.log_end_offset, 7):
        assert fetched(open_log(tmp_path, segment_bytes=300), from_offset=offset) == fetched(log, from_offset=offset)
    assert run_to_end(again.offset_for_time(NOW_MS)) == run_to_end(log.offset_for_time(NOW_MS))
    assert run_to_end(again.largest_timestamp()) == run_to_end(log.largest_timestamp())
    checkpointed(scrubbed(again))
    assert (tmp_path / f"{0:020d}.index").exists()
    assert again.segments[0].end_offset == log.segments[0].end_offset
    assert fetched(again) == made


def test_a_copied_folder_has_no_sidecars_of_its_own(tmp_path: Path) -> None:
    log = twelve_batches(tmp_path / "log", segment_bytes=300)
    log.close()
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    again = open_log(tmp_path / "copy", segment_bytes=300)
    assert reread(again) == again.size_bytes
    assert fetched(again) == fetched(log)


@pytest.mark.parametrize("suffix", [".index", ".recent"])
def test_a_sidecar_damaged_at_any_byte_is_passed_over(tmp_path: Path, suffix: str) -> None:
    log = twelve_batches(tmp_path, segment_bytes=10_000)
    if suffix == ".index":
        log.flush()
    checkpointed(log)
    path = tmp_path / f"{0:020d}{suffix}"
    data = path.read_bytes()
    for at in range(len(data)):
        for junk in (data[:at], data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]):
            with pytest.raises(SidecarDamaged):
                decode(junk)
    for at in (0, 20, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        again = open_log(tmp_path)
        assert (reread(again), fetched(again)) == (log.size_bytes, fetched(log))


def test_a_sidecar_of_another_file_is_passed_over(tmp_path: Path) -> None:
    log = twelve_batches(tmp_path, segment_bytes=10_000)
    log.close()
    path = tmp_path / f"{0:020d}.log"
    data = path.read_bytes()
    os.rename(path, tmp_path / "old")
    path.write_bytes(data)
    assert reread(open_log(tmp_path)) == len(data)


def test_a_sidecar_that_tells_of_more_than_there_is_is_passed_over(tmp_path: Path) -> None:
    log = twelve_batches(tmp_path, segment_bytes=10_000)
    log.close()
    made = fetched(log)
    os.truncate(tmp_path / f"{0:020d}.log", log.log_end_offset - 1)
    again = open_log(tmp_path)
    assert fetched(again) == made[:-1]
    assert again.producers.snapshot()[0][1][1][-1][2] == made[-2][0].base_offset


def test_sidecars_go_with_their_segments_and_strays_at_opening(tmp_path: Path) -> None:
    log = checkpointed(twelve_batches(tmp_path, segment_bytes=150, retention_ms=DAY_MS))
    log.expire(NOW_MS + 2 * DAY_MS)
    assert names(tmp_path, ".index") == []
    for name in (f"{5:020d}.index", f"{5:020d}.recent", f"{5:020d}.index.new"):
        (tmp_path / name).write_bytes(b"stray")
    open_log(tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(f"{5:020d}")]


def test_a_disk_that_takes_no_sidecar_costs_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = twelve_batches(tmp_path, segment_bytes=10_000)

    def refuse(old: object, new: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse)
        job = log.checkpoint_job()
        assert job is not None
        with pytest.raises(OSError, match="No space left"):
            job.run()
        log.close()
    assert not list(tmp_path.glob("*.new"))
    assert fetched(open_log(tmp_path)) == fetched(log)


def test_after_a_failed_flush_no_sidecar_is_written(tmp_path: Path) -> None:
    log = twelve_batches(tmp_path)
    job = log.flush_job()
    assert job is not None
    job.failed(OSError(5, "Input/output error"))
    assert log.checkpoint_job() is None


def test_nothing_is_written_twice(tmp_path: Path) -> None:
    log = twelve_batches(tmp_path, segment_bytes=300)
    log.flush()
    checkpointed(log)
    assert (log.checkpoint_job(), log.unindexed_bytes, log.needs_sidecars) == (None, 0, False)
    log.append(batch(b"more"), NOW_MS)
    assert log.unindexed_bytes > 0


def test_values_come_back_after_many_restarts(tmp_path: Path) -> None:
    for number in range(20):
        log = open_log(tmp_path, segment_bytes=250)
        log.append(batch(b"%d" % number), NOW_MS)
        if number % 3 == 0:
            log.close()
        elif number % 3 == 1:
            checkpointed(log)
    assert values(fetched(open_log(tmp_path))) == [b"%d" % number for number in range(20)]


def test_a_sidecar_that_the_disk_does_not_give_back_costs_a_walk_and_no_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a"), NOW_MS)
    log.close()
    read_bytes = Path.read_bytes

    def broken(path: Path) -> bytes:
        if path.suffix == ".index":
            raise OSError(errno.EIO, "Input/output error")
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", broken)
    again = open_log(tmp_path)
    assert again.recovery.batch_count == 1
    assert values(fetched(again)) == [b"a"]
