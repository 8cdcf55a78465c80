"""Opening by sidecars: the same log as without them, far less to read, and none of them is ever needed or trusted too far."""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.broker.log import PartitionLog, boot
from headrace.broker.log.sidecar import SidecarDamaged, decode
from headrace.wire.errors import CorruptBatch
from headrace.wire.generators import run_to_end
from headrace.wire.record_batch import BatchHeader, crc_matches, read_header

from .small_logs import DAY_MS, NOW_MS, batch, claiming, fetched, headers, open_log, scrubbed, values

pytestmark = pytest.mark.usefixtures("no_fsync")


def checkpointed(log: PartitionLog) -> PartitionLog:
    """Return the log with every sidecar written that is due."""
    job = log.checkpoint_job()
    if job is not None:
        job.run()
        log.checkpoint_done(job)
    return log


def names(folder: Path, suffix: str) -> list[str]:
    return sorted(path.name.lstrip("0") for path in folder.glob(f"*{suffix}"))


def reread(log: PartitionLog) -> int:
    return log.recovery.checked_bytes


def twelve_batches(folder: Path, **config: int | bool) -> PartitionLog:
    """Return a log of batches of one producer, some with holes; not closed, as a kill leaves it."""
    log = open_log(folder, **config)
    for number in range(12):
        if number == 5:
            log.append(claiming(150), NOW_MS)
        else:
            log.append(batch(b"%d" % number, producer_id=7, epoch=1, sequence=number - (number > 5)), NOW_MS)
    return log


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
    monkeypatch.setattr(boot, "current", lambda: b"another start...")
    again = open_log(tmp_path, segment_bytes=300)
    assert reread(again) == again.size_bytes
    assert fetched(again) == fetched(log)


def test_what_was_on_disk_is_trusted_ever_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = twelve_batches(tmp_path, segment_bytes=300, flush_on_roll=False)
    log.flush()
    checkpointed(log)
    assert names(tmp_path, ".recent") == []
    monkeypatch.setattr(boot, "current", lambda: b"another start...")
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
    monkeypatch.setattr(boot, "current", lambda: b"another start...")
    os.truncate(tmp_path / f"{0:020d}.log", flushed)  # the power cut took what was not flushed
    again = open_log(tmp_path)
    assert again.log_end_offset == flushed
    # The batch that is lost is not taken for one that is there.
    lost = read_header(batch(b"later", producer_id=7, epoch=1, sequence=11))
    assert str(again.producers.judge(lost)) == "Fresh()"


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
    log.flush_failed(OSError(5, "Input/output error"))
    assert log.checkpoint_job() is None


def test_nothing_is_written_twice(tmp_path: Path) -> None:
    log = twelve_batches(tmp_path, segment_bytes=300)
    log.flush()
    checkpointed(log)
    assert (log.checkpoint_job(), log.undescribed_bytes, log.needs_sidecars) == (None, 0, False)
    log.append(batch(b"more"), NOW_MS)
    assert log.undescribed_bytes > 0


def test_damage_in_what_is_taken_on_trust_is_found_by_the_first_reader(tmp_path: Path) -> None:
    log = twelve_batches(tmp_path, segment_bytes=10_000, index_interval_bytes=1)
    log.close()
    made = fetched(log)
    path = tmp_path / f"{0:020d}.log"
    with path.open("r+b") as file:
        file.seek(made[3][0].position + 65)
        file.write(b"\xff")
    again = open_log(tmp_path, index_interval_bytes=1)
    assert again.bad_ranges == []
    assert fetched(again) == made[:3] + made[4:]
    assert [bad[:2] for bad in again.bad_ranges] == [(made[3][0].position, made[4][0].position)]
    scrubbed(again)
    assert [bad[:2] for bad in again.bad_ranges] == [(made[3][0].position, made[4][0].position)]


def test_the_scrub_reports_damage_once_and_no_reader_comes_into_it(tmp_path: Path) -> None:
    log = twelve_batches(tmp_path, segment_bytes=10_000, index_interval_bytes=1)
    log.close()
    made = fetched(log)
    path = tmp_path / f"{0:020d}.log"
    with path.open("r+b") as file:
        for index in (3, 4):
            file.seek(made[index][0].position + 65)
            file.write(b"\xff")
    again = open_log(tmp_path, index_interval_bytes=1)
    job = again.scrub_job()
    assert job is not None
    job.run()
    assert [bad[:2] for bad in again.scrub_done(job)] == [(made[3][0].position, made[5][0].position)]
    assert again.scrub_job() is None
    for offset in range(made[3][0].position, made[5][0].position):
        assert fetched(again, from_offset=offset)[0] == made[5]


def test_a_segment_that_cannot_be_read_is_left_to_its_readers(tmp_path: Path) -> None:
    twelve_batches(tmp_path, segment_bytes=300).close()
    again = open_log(tmp_path, segment_bytes=300)
    job = again.scrub_job()
    assert job is not None
    assert "Input/output" in str(again.scrub_failed(job, OSError(5, "Input/output error")))
    other = again.scrub_job()
    assert other is not None
    assert other.segment is not job.segment


def test_a_scrub_goes_on_in_parts_and_over_a_deleted_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.broker.log.segment_scrub.PART_BATCHES", 1)
    twelve_batches(tmp_path, segment_bytes=10_000).close()
    again = open_log(tmp_path, retention_ms=DAY_MS)
    job = again.scrub_job()
    assert job is not None
    for _ in range(3):
        job.run()
        assert again.scrub_done(job) == []
    assert not job.is_finished
    again.expire(NOW_MS + 2 * DAY_MS)
    assert again.scrub_job() is job
    while not job.is_finished:
        job.run()
    assert again.scrub_done(job) == []
    assert again.scrub_job() is None


# -- the same as without ---------------------------------------------------------------------------------------------------------

Whole = list[tuple[int, bytes]]


def oracle(folder: Path) -> Whole:
    """Return (offset, bytes) of every batch that may be served, by a walk that shares nothing with the log's own."""
    whole: Whole = []
    bases = sorted(int(path.stem) for path in folder.glob("*.log"))
    for base, limit in zip(bases, [*bases[1:], 1 << 62], strict=True):
        data = (folder / f"{base:020d}.log").read_bytes()
        at = 0
        while at + 61 <= len(data):
            header = _header(data, at)
            if (
                header is not None
                and header.base_offset == base + at + max(0, header.size_bytes - header.record_count)
                and at + header.size_bytes <= len(data)
                and header.last_offset_delta + 1 == header.record_count
                and header.base_offset + header.record_count <= limit
                and crc_matches(data, at, header.size_bytes)
            ):
                whole.append((base + at, data[at : at + header.size_bytes]))
                at += max(header.size_bytes, header.record_count)
            else:
                at += 1
    return whole


def _header(data: bytes, at: int) -> BatchHeader | None:
    try:
        return read_header(data, at)
    except CorruptBatch:
        return None


def served(log: PartitionLog, **how: Any) -> Whole:
    return [(header.position, data) for header, data in fetched(log, **how)]


@given(st.data())
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_damage_is_met_as_an_opening_without_sidecars_meets_it(no_fsync: None, data: st.DataObject) -> None:
    folder = Path(tempfile.mkdtemp(prefix="headrace-log-"))
    try:
        config = {
            "segment_bytes": data.draw(st.sampled_from([150, 400, 100_000])),
            "index_interval_bytes": data.draw(st.sampled_from([1, 200, 5_000])),
            "flush_on_roll": data.draw(st.booleans()),
        }
        log = open_log(folder, **config)
        sequence = 0
        for step in data.draw(st.lists(st.sampled_from("aaaaahcfk"), max_size=25)):
            match step:
                case "a":
                    log.append(batch(b"%d" % sequence, b"more", producer_id=3, epoch=0, sequence=sequence), NOW_MS)
                    sequence += 2
                case "h":
                    log.append(claiming(100), NOW_MS)
                case "c":
                    checkpointed(log)
                case "f":
                    log.flush()
                case "k":
                    log = open_log(folder, **config)
        whole_before = {header.position for header in headers(log)}
        files = sorted(folder.glob("*.log"))
        for _ in range(data.draw(st.integers(0, 3))):
            _damage(data, data.draw(st.sampled_from(files)))
        for path in [*folder.glob("*.index"), *folder.glob("*.recent")]:
            match data.draw(st.sampled_from(["keep", "keep", "remove", "flip"])):
                case "remove":
                    path.unlink()
                case "flip":
                    _damage(data, path)
        expected = [entry for entry in oracle(folder) if entry[0] in whole_before]
        bare = Path(tempfile.mkdtemp(prefix="headrace-bare-"))
        for path in folder.glob("*.log"):
            shutil.copy2(path, bare / path.name)
        try:
            full = open_log(bare, **config)
            assert served(full) == expected
            for ready in (lambda log: log, scrubbed):
                with_sidecars = ready(open_log(folder, **config))
                for max_bytes in (1, 150, 100_000):
                    assert served(with_sidecars, max_bytes=max_bytes) == expected
                # A batch that was whole once keeps its offsets even where it was the last and is damaged now.
                assert full.log_end_offset <= with_sidecars.log_end_offset
        finally:
            shutil.rmtree(bare)
    finally:
        shutil.rmtree(folder)


def _damage(data: st.DataObject, path: Path) -> None:
    content = bytearray(path.read_bytes())
    if not content:
        return
    at = data.draw(st.integers(0, len(content) - 1))
    match data.draw(st.sampled_from(["flip", "zeros", "cut"])):
        case "flip":
            content[at] ^= 1 << data.draw(st.integers(0, 7))
        case "zeros":
            length = data.draw(st.integers(1, 300))
            content[at : at + length] = bytes(len(content[at : at + length]))
        case "cut":
            del content[at:]
    with path.open("r+b") as file:  # in place: the same inode
        file.write(content)
        file.truncate()


@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_small_log_damaged_at_every_byte_is_served_alike_with_and_without_sidecars(tmp_path: Path, damage: str) -> None:
    def at_every_byte(make: Callable[[Path], PartitionLog]) -> None:
        log = make(tmp_path / "log")
        path = sorted((tmp_path / "log").glob("*.log"))[0]
        content = path.read_bytes()
        aside = {each.name: each.read_bytes() for each in (tmp_path / "log").iterdir() if each.suffix != ".log"}
        before = {header.position for header in headers(log)}
        for at in range(len(content)):
            for name, bytes_ in aside.items():
                (tmp_path / "log" / name).write_bytes(bytes_)
            with path.open("r+b") as file:
                file.write(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :] if damage == "flip" else content)
                file.truncate(at if damage == "cut" else len(content))
            expected = [entry for entry in oracle(tmp_path / "log") if entry[0] in before]
            assert served(open_log(tmp_path / "log", segment_bytes=300), max_bytes=200) == expected

    at_every_byte(lambda folder: checkpointed(_few_batches(folder)))


def _few_batches(folder: Path) -> PartitionLog:
    log = open_log(folder, segment_bytes=300)
    for number in range(5):
        log.append(claiming(90) if number == 2 else batch(b"%d" % number), NOW_MS)
    return log


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
