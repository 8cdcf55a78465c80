"""The list of leader epochs beside a log, and the cut of the log's end."""

from pathlib import Path

import pytest

from headrace.broker.log import LogUnusable, OffsetOutOfRange, leader_epochs
from headrace.broker.log.tools.check import check
from headrace.wire.batch.record_batch import read_header
from tests.support.small_logs import NOW_MS, batch, fetched, more_records_than_bytes, open_log, values

pytestmark = pytest.mark.usefixtures("no_fsync")


def test_the_file_is_as_kafka_writes_it(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events-0")
    log.begin_epoch(3, 0)
    log.append(batch(b"a"), NOW_MS, leader_epoch=3)
    log.begin_epoch(5, log.log_end_offset)
    assert (log.folder / "leader-epoch-checkpoint").read_text() == f"0\n2\n3 0\n5 {log.log_end_offset}\n"
    log.append(batch(b"b"), NOW_MS, leader_epoch=5)
    log.close()
    assert open_log(tmp_path / "events-0").leader_epochs == log.leader_epochs
    assert [problem for problem in check(log.folder) if not problem.kind.is_harmless] == []


def test_a_log_of_one_replica_has_no_file(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events-0")
    log.append(batch(b"a"), NOW_MS)
    log.close()
    assert open_log(tmp_path / "events-0").leader_epochs == ()
    assert not (log.folder / leader_epochs.NAME).exists()


def test_an_epoch_without_a_batch_goes_when_a_later_one_begins_at_its_start(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events-0")
    for epoch in (1, 2, 3):
        log.begin_epoch(epoch, 0)
    assert log.leader_epochs == ((3, 0),)


def test_an_epoch_of_which_a_crash_left_no_batch_is_forgotten(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events-0")
    log.begin_epoch(1, 0)
    log.append(batch(b"a"), NOW_MS)
    log.begin_epoch(2, log.log_end_offset)
    log.close()
    assert open_log(tmp_path / "events-0").leader_epochs == ((1, 0),)


@pytest.mark.parametrize("text", ["1\n0\n", "0\n2\n1 0\n", "0\n2\n2 0\n1 9\n", "0\n1\nx y\n", ""])
def test_a_list_that_cannot_be_read_keeps_the_log_shut(tmp_path: Path, text: str) -> None:
    """To guess the epochs from the bytes of batches would be wrong: their CRC does not cover them."""
    open_log(tmp_path / "events-0").close()
    (tmp_path / "events-0" / leader_epochs.NAME).write_text(text)
    with pytest.raises(LogUnusable, match="leader-epoch-checkpoint"):
        open_log(tmp_path / "events-0")


def test_the_epochs_of_the_list_hold_though_a_batch_says_another_one(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events-0")
    log.begin_epoch(1, 0)
    log.append(batch(b"a"), NOW_MS, leader_epoch=1)
    log.close()
    path = next(log.folder.glob("*.log"))
    data = bytearray(path.read_bytes())
    data[15] ^= 4
    path.write_bytes(data)
    again = open_log(tmp_path / "events-0")
    assert read_header(fetched(again)[0][1]).leader_epoch == 5
    assert again.leader_epochs == ((1, 0),)


@pytest.mark.parametrize("kept", range(9))
def test_a_cut_ends_the_log_after_any_batch(tmp_path: Path, kept: int) -> None:
    log = open_log(tmp_path / "events-0", segment_bytes=250)
    starts = [log.append(batch(b"%d" % number), NOW_MS).next_offset for number in range(8)]
    batches = fetched(log)
    to_offset = batches[kept][0].position if kept < 8 else log.log_end_offset
    assert starts[-1] == log.log_end_offset
    again = log.cut_end(to_offset, aside=tmp_path / "aside", now_ms=NOW_MS)
    assert again.log_end_offset == to_offset
    assert values(fetched(again)) == [b"%d" % number for number in range(kept)]
    aside = b"".join(path.read_bytes() for path in sorted((tmp_path / "aside").iterdir()))
    assert aside == b"".join(data for _, data in batches[kept:]), "the tail is put aside"
    again.append(batch(b"other"), NOW_MS)
    again.close()
    assert [problem for problem in check(again.folder) if not problem.kind.is_harmless] == []
    assert values(fetched(open_log(tmp_path / "events-0")))[kept:] == [b"other"]


def test_a_cut_after_a_hole_keeps_the_hole(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events-0")
    end = log.append(more_records_than_bytes(), NOW_MS).next_offset
    log.append(batch(b"tail"), NOW_MS)
    again = log.cut_end(end, aside=tmp_path / "aside", now_ms=NOW_MS)
    assert again.log_end_offset == end


@pytest.mark.parametrize("offset", [1, 10_000])
def test_a_cut_inside_a_batch_or_behind_the_end_is_refused(tmp_path: Path, offset: int) -> None:
    log = open_log(tmp_path / "events-0")
    log.append(batch(b"a"), NOW_MS)
    with pytest.raises(OffsetOutOfRange):
        log.cut_end(offset, aside=tmp_path / "aside", now_ms=NOW_MS)
    log.append(batch(b"b"), NOW_MS)
    assert values(fetched(log)) == [b"a", b"b"]


@pytest.mark.parametrize("interval", [1, 100_000])
@pytest.mark.parametrize("kept", [3, 4, 5, 6])
def test_a_cut_at_damage_keeps_what_is_damaged_before_it_and_it_can_be_repaired(tmp_path: Path, kept: int, interval: int) -> None:
    """After a power cut, the leader's epoch may begin inside what this replica has lost. A log that ended where its damage begins
    would be shorter than its replica has promised, and undamaged.
    """
    log = open_log(tmp_path / "events-0", segment_bytes=10_000, index_interval_bytes=interval)
    for number in range(9):
        log.append(batch(b"%d" % number), NOW_MS)
    made = fetched(log)
    log.close()
    path = next(log.folder.glob("*.log"))
    data = bytearray(path.read_bytes())
    begin, end, to_offset = (made[number][0].position for number in (3, 6, kept))
    data[begin:end] = bytes(end - begin)
    path.write_bytes(data)
    for sidecar in [*log.folder.glob("*.index"), *log.folder.glob("*.recent")]:
        sidecar.unlink()
    log = open_log(tmp_path / "events-0", segment_bytes=10_000, index_interval_bytes=interval)
    log.skips_damage = False
    assert [bad[:2] for bad in log.bad_ranges] == [(begin, end)]
    log = log.cut_end(to_offset, aside=tmp_path / "aside", now_ms=NOW_MS)
    log.skips_damage = False
    assert log.log_end_offset == to_offset
    assert [bad[:2] for bad in log.bad_ranges] == ([(begin, to_offset)] if kept > 3 else [])
    log.append(batch(b"other"), NOW_MS)
    for bad in log.bad_ranges:
        whole = b"".join(data for _, data in made[3:kept])
        log.comparison.repair_job(bad, memoryview(whole), tmp_path / "damaged").run_to_end()
    log.close()
    assert [problem for problem in check(log.folder) if not problem.kind.is_harmless] == []
    again = open_log(tmp_path / "events-0", segment_bytes=10_000, index_interval_bytes=interval)
    assert values(fetched(again)) == [*(b"%d" % number for number in range(kept)), b"other"]


def test_producers_of_the_tail_are_forgotten(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events-0")
    kept = log.append(batch(b"a", producer_id=7, epoch=0, sequence=0), NOW_MS)
    log.append(batch(b"b", producer_id=7, epoch=0, sequence=1), NOW_MS)
    again = log.cut_end(kept.next_offset, aside=tmp_path / "aside", now_ms=NOW_MS)
    sent_again = batch(b"b", producer_id=7, epoch=0, sequence=1)
    assert type(again.producers.classify(read_header(sent_again))).__name__ == "Fresh"


def test_a_flush_and_a_checkpoint_from_before_a_cut_change_nothing_after_it(tmp_path: Path) -> None:
    """Trace 9 of decision 66."""
    log = open_log(tmp_path / "events-0")
    kept = log.append(batch(b"a"), NOW_MS)
    log.append(batch(b"longer than what comes in its place"), NOW_MS)
    flush, checkpoint = log.flush_job(), log.checkpoint_job()
    assert flush is not None
    assert checkpoint is not None
    again = log.cut_end(kept.next_offset, aside=tmp_path / "aside", now_ms=NOW_MS)
    again.begin_epoch(2, kept.next_offset)
    again.append(batch(b"new"), NOW_MS)
    flush.run()
    flush.done()
    with pytest.raises(OSError, match="no sidecar is written") as caught:
        checkpoint.run()
    checkpoint.failed(caught.value)
    assert again.flushed_offset == kept.next_offset
    again.close()
    after = open_log(tmp_path / "events-0")
    assert values(fetched(after)) == [b"a", b"new"]
    assert after.leader_epochs == ((2, kept.next_offset),)


def test_a_jump_leaves_a_gap_and_an_empty_log_begins_where_it_jumps(tmp_path: Path) -> None:
    log = open_log(tmp_path / "events-0")
    log.jump_to(500, NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, log.gaps) == (500, 500, [])
    end = log.append(batch(b"a"), NOW_MS).next_offset
    log.jump_to(2_000, NOW_MS)
    assert (log.log_end_offset, log.gaps) == (2_000, [(end, 2_000)])
    log.append(batch(b"b"), NOW_MS)
    with pytest.raises(OffsetOutOfRange):
        log.jump_to(1_999, NOW_MS)
    log.close()
    again = open_log(tmp_path / "events-0")
    assert (again.log_start_offset, again.gaps, values(fetched(again))) == (500, [(end, 2_000)], [b"a", b"b"])
