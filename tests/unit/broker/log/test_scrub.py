"""Damage in what a start took over from sidecars is found by the first reader, or by the scrub."""

from pathlib import Path

import pytest

from tests.support.small_logs import DAY_MS, NOW_MS, fetched, open_log, scrubbed, twelve_batches

pytestmark = pytest.mark.usefixtures("no_fsync")


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
    assert [bad[:2] for bad in job.done()] == [(made[3][0].position, made[5][0].position)]
    assert again.scrub_job() is None
    for offset in range(made[3][0].position, made[5][0].position):
        assert fetched(again, from_offset=offset)[0] == made[5]


def test_a_segment_that_cannot_be_read_is_left_to_its_readers(tmp_path: Path) -> None:
    twelve_batches(tmp_path, segment_bytes=300).close()
    again = open_log(tmp_path, segment_bytes=300)
    job = again.scrub_job()
    assert job is not None
    assert "Input/output" in str(job.failed(OSError(5, "Input/output error")))
    other = again.scrub_job()
    assert other is not None
    assert other.work.segment is not job.work.segment


def test_a_scrub_goes_on_in_parts_and_over_a_deleted_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.broker.log.jobs.segment_scrub.PART_BATCHES", 1)
    twelve_batches(tmp_path, segment_bytes=10_000).close()
    again = open_log(tmp_path, retention_ms=DAY_MS)
    job = again.scrub_job()
    assert job is not None
    for _ in range(3):
        job.run()
        assert job.done() == []
    assert not job.work.is_finished
    again.expire(NOW_MS + 2 * DAY_MS)
    going_on = again.scrub_job()
    assert going_on is not None
    assert going_on.work is job.work
    while not job.work.is_finished:
        job.run()
    assert job.done() == []
    assert again.scrub_job() is None
