"""What retention drops is gone on purpose: noted in the table, never reported as missing, and nothing else changes."""

from pathlib import Path

import pytest

from headrace.audit.model.messages import Stretch
from headrace.cli.main import main
from headrace.runtime.clock import ManualClock
from headrace.spark.errors import ReloadRefused, WarehouseError
from headrace.spark.load.reload_job import ReloadJob
from headrace.spark.load.settings import LoadSettings
from headrace.spark.maintenance.retention_job import RetentionJob, RetentionOutcome
from headrace.spark.publish.announcements import hours_to_announce, set_announced
from headrace.spark.publish.count_job import needs_count
from headrace.spark.publish.verify import verify
from headrace.spark.warehouse.hours import hour_name
from headrace.spark.warehouse.load_record import read_record
from headrace.spark.warehouse.proofs import EXPIRED
from headrace.spark.warehouse.query import query
from headrace.spark.warehouse.topic_table import LOADS, MAIN
from tests.support.other_hands import roll_back
from tests.support.stored_rows import HOUR_MS, span, store
from tests.support.stored_table import Stored

from .worlds import TOPIC, compact, contents, file_counts

NOW = 20
"""Hour; with an age of 17 hours the hours 0, 1 and 2 are too old."""


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stored:
    """Six published hours; the load `run-24` has rows of the hours 1 and 5."""
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    found = Stored(tmp_path / "warehouse", TOPIC)
    for hour in range(6):
        found.load(hour, 4)
    assert store(found.warehouse, "run-24", [(0, 24, HOUR_MS + 9), (0, 25, 5 * HOUR_MS + 9)], [span(0, 24, 26)])
    found.publish()
    return found


def retain(stored: Stored, *, apply: bool = True, now_hour: int = NOW, **words: object) -> RetentionOutcome:
    words = {"keep_hours": 17, **words}
    clock = ManualClock(now_hour * HOUR_MS)
    return RetentionJob(stored.warehouse, TOPIC, apply=apply, clock=clock, **words).run()  # type: ignore[arg-type]


def is_sound(stored: Stored) -> bool:
    assert not needs_count(stored.warehouse.existing_table(TOPIC))
    done = stored.publish()
    assert (done.withdrawn, done.shut, done.pending, done.published, done.revisions) == ((), (), (), (), ())
    assert [fault for one in verify(stored.warehouse, TOPIC) for fault in one.faults] == []
    return True


def test_nothing_is_dropped_by_default_or_in_a_dry_run(stored: Stored) -> None:
    before = contents(stored)
    assert retain(stored, keep_hours=None).keep_hours == 0
    done = retain(stored, apply=False)
    assert (done.hours, done.row_count, done.is_applied) == ({hour_name(0): 4, hour_name(1): 5, hour_name(2): 4}, 13, False)
    assert contents(stored) == contents(stored, MAIN) == before
    assert stored.warehouse.existing_table(TOPIC).expired_through() is None


@pytest.mark.situation("warehouse", "`headrace retention` drops hours")
def test_hours_past_their_age_leave_both_branches_and_the_table_says_so(stored: Stored) -> None:
    before, told, offsets = contents(stored), dict(stored.audit._told), stored.warehouse.existing_table(TOPIC).offsets()
    done = retain(stored)
    assert (len(done.hours), done.row_count, done.expired_through) == (3, 13, hour_name(2))
    assert contents(stored) == contents(stored, MAIN) == [row for row in before if row[2] in {*range(12, 24), 25}]
    after = stored.warehouse.existing_table(TOPIC)
    assert (after.expired_through(), after.offsets()) == (2, offsets)
    assert is_sound(stored)
    assert stored.audit._told == told
    assert stored.publish().expired_through == hour_name(2)
    assert {one.hour: one.verdict for one in verify(stored.warehouse, TOPIC)}[hour_name(1)] == EXPIRED
    assert "expired by retention" in query(stored.warehouse, f"SELECT count(*) FROM {TOPIC}").notes[0]
    assert retain(stored).hours == {}


def test_what_a_later_load_commits_repeats_how_far_retention_has_come(stored: Stored) -> None:
    retain(stored)
    stored.load(6, 2)
    compact(stored, hours={5, 6})
    assert stored.warehouse.existing_table(TOPIC).expired_through() == 2
    stored.publish()
    assert is_sound(stored)


@pytest.mark.situation(
    "warehouse",
    "`headrace retention` drops hours",
    shown="the verdict stays; `verify-table` says EXPIRED",
    when="–",
    do="a rollback of `loads` brings them back for a while",
)
def test_a_load_that_is_read_again_reports_dropped_rows_as_they_were(stored: Stored) -> None:
    """Fault: a range report without the rows that retention had dropped is a report of missing ones."""
    before = {key: one.windows for key, one in stored.audit._told.items()}
    retain(stored)
    (stored.warehouse.folder / "loads" / TOPIC / "counted.json").unlink()
    assert stored.count() > 0
    assert {key: one.windows for key, one in stored.audit._told.items()} == before
    record = read_record(stored.warehouse.existing_table(TOPIC).records_folder, "run-24")
    assert record is not None
    assert record.expired == {0: {HOUR_MS: (Stretch(24, 1),)}}
    assert is_sound(stored)


def test_rows_of_merged_files_are_dropped_and_told_as_well(stored: Stored) -> None:
    before = {key: one.windows for key, one in stored.audit._told.items()}
    compact(stored)
    assert file_counts(stored)[1] == 1
    retain(stored)
    (stored.warehouse.folder / "loads" / TOPIC / "counted.json").unlink()
    stored.count()
    assert {key: one.windows for key, one in stored.audit._told.items()} == before
    assert is_sound(stored)


def test_late_rows_of_an_expired_hour_are_told_not_published_and_dropped_by_the_next_run(stored: Stored) -> None:
    retain(stored)
    stored.load(1, 3)
    done = stored.publish()
    assert (done.published, done.withdrawn, done.shut) == ((), (), ())
    assert file_counts(stored)[1] == 1
    assert 1 not in file_counts(stored, MAIN)
    assert retain(stored).hours == {hour_name(1): 3}
    assert 1 not in file_counts(stored)
    assert is_sound(stored)


def test_a_killed_retention_leaves_the_hours_as_they_were(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(stored)
    with monkeypatch.context() as patch:
        patch.setattr("headrace.spark.maintenance.retention_job.commit_retention", _killed)
        with pytest.raises(KeyboardInterrupt):
            retain(stored)
    assert contents(stored) == contents(stored, MAIN) == before
    assert is_sound(stored)
    assert len(retain(stored).hours) == 3
    assert is_sound(stored)


def _killed(*words: object, **more: object) -> bool:
    raise KeyboardInterrupt


def test_a_load_into_the_hours_during_a_retention_is_dropped_with_them_and_told(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.spark.maintenance import retention_job

    commit, calls = retention_job.commit_retention, list[int]()

    def with_a_load_first(*words: object, **more: object) -> bool:
        if not calls:
            store(stored.warehouse, "run-26", [(0, 26, HOUR_MS + 26), (0, 27, HOUR_MS + 27)], [span(0, 26, 28)])
        calls.append(1)
        return commit(*words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(retention_job, "commit_retention", with_a_load_first)
    retain(stored)
    assert len(calls) == 2
    assert set(file_counts(stored)) == {3, 4, 5}
    assert stored.count() == 1
    assert [one.held for key, told in stored.audit._told.items() if key[1] == 26 for one in told.windows.values()] == [
        (Stretch(26, 2),)
    ]
    assert is_sound(stored)


def test_a_rollback_of_loads_over_a_retention_brings_rows_back_until_the_next_one(stored: Stored) -> None:
    before, head = contents(stored), stored.warehouse.existing_table(TOPIC).snapshot_id(LOADS)
    retain(stored)
    roll_back(stored.warehouse, head)
    assert contents(stored) == before
    assert stored.warehouse.existing_table(TOPIC).expired_through() is None
    done = stored.publish()
    assert (len(done.published), done.withdrawn) == (3, ())
    assert contents(stored, MAIN) == before
    retain(stored)
    assert set(file_counts(stored)) == set(file_counts(stored, MAIN)) == {3, 4, 5}
    assert is_sound(stored)


def test_a_rollback_of_main_over_a_retention_is_seen_by_verify_and_dropped_by_the_next_one(stored: Stored) -> None:
    retain(stored)
    iceberg = stored.warehouse.existing_table(TOPIC).iceberg
    head = iceberg.metadata.snapshot_by_name(MAIN)
    assert head is not None
    assert head.parent_snapshot_id is not None
    iceberg.manage_snapshots().rollback_to_snapshot(head.parent_snapshot_id).commit()
    assert stored.publish().withdrawn == ()
    assert any(one.faults for one in verify(stored.warehouse, TOPIC))
    assert len(retain(stored).hours) == 3
    assert set(file_counts(stored, MAIN)) == {3, 4, 5}
    assert is_sound(stored)


def test_schedulers_hear_nothing_of_expired_hours_and_a_reload_of_one_is_refused(stored: Stored) -> None:
    set_announced(stored.warehouse, TOPIC, hours_to_announce(stored.warehouse, TOPIC))
    retain(stored)
    assert hours_to_announce(stored.warehouse, TOPIC) == {}
    settings = LoadSettings(
        topic=TOPIC, bootstrap="-", quarantine_bootstrap="-", registry_url="-", warehouse=stored.warehouse.settings, home=None
    )
    with pytest.raises(ReloadRefused, match="have expired"):
        ReloadJob(settings, {1}).run()


def test_a_bounded_run_drops_the_oldest_hours(stored: Stored) -> None:
    done = retain(stored, most_hours=2)
    assert (list(done.hours), done.more, done.expired_through) == ([hour_name(0), hour_name(1)], 1, hour_name(1))
    assert is_sound(stored)
    assert list(retain(stored, most_hours=2).hours) == [hour_name(2)]


def test_the_settings_name_ages_by_topic(stored: Stored) -> None:
    path = stored.warehouse.folder / "retention.toml"
    path.write_text("[default]\nhours = 720\n[topics.clicks]\nhours = 17\n")
    assert len(retain(stored, keep_hours=None, apply=False).hours) == 3
    path.write_text("[default]\nhours = 17\n[topics.clicks]\nhours = 0\n")
    assert retain(stored, keep_hours=None).hours == {}
    for text, words in (
        ("[default]\nhours = -1\n", "is not a number of hours"),
        ("[default]\ndays = 3\n", "nothing else"),
        ("[x]\nhours = 3\n", r"no section \[x\]"),
        ("topics = 3\n", "is not a table"),
        ("hours", "cannot be read"),
    ):
        path.write_text(text)
        with pytest.raises(WarehouseError, match=words):
            retain(stored, keep_hours=None)


def test_the_command_changes_nothing_without_apply(stored: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(stored)
    assert main(["retention", "--all"]) == 0
    assert "retention: clicks: off, its hours are kept permanently" in capsys.readouterr().out
    (stored.warehouse.folder / "retention.toml").write_text("[default]\nhours = 100\n")
    assert main(["retention", TOPIC]) == 0
    assert "6 hours from 1970-01-01T00 to 1970-01-01T05, 26 rows in 8 files, would be dropped" in capsys.readouterr().out
    assert contents(stored) == before
    assert main(["retention", "--all", "--apply", "--most-hours", "1"]) == 0
    assert "dropped; 5 more in the next run" in capsys.readouterr().out
    assert main(["query", f"SELECT count(*) FROM {TOPIC}"]) == 0
    assert "through 1970-01-01T00 have expired by retention" in capsys.readouterr().err
    assert main(["retention", "--all", "--hours", "3"]) == 2
