"""`headrace load`: which steps are run, and what is refused before anything is done."""

import json
from collections.abc import Collection
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.spark.all_topics import job
from headrace.spark.all_topics.job import AllTopicsOutcome
from headrace.spark.load import load_job, offline_topics, reload_job
from headrace.spark.load.load_job import LoadOutcome
from headrace.spark.load.reload_job import ReloadOutcome
from headrace.spark.load.settings import LoadSettings
from headrace.spark.warehouse.hours import hour_of_name, hours_of_names

TEN, ELEVEN = hour_of_name("2015-05-17T10"), hour_of_name("2015-05-17T11")


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, set[int], set[int]]]:
    """What the jobs were asked for, in order: (job, hours, restore). They load nothing."""
    found: list[tuple[str, set[int], set[int]]] = []

    class Load:
        def __init__(self, settings: LoadSettings) -> None:
            found.append((f"load {settings.topic}", set(), set()))

        def run(self) -> LoadOutcome:
            return LoadOutcome(topic="clicks")

    class Reload:
        def __init__(self, settings: LoadSettings, hours: Collection[int], *, restore: Collection[int]) -> None:
            found.append((f"reload {settings.topic}", set(hours), set(restore)))

        def run(self) -> ReloadOutcome:
            return ReloadOutcome(
                topic="clicks",
                hours=("2015-05-17T10",),
                load_count=2,
                row_count=1_200,
                replaced_count=1_100,
                file_count=3,
                size_bytes=1,
                snapshot_id=7,
            )

    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    monkeypatch.setattr(load_job, "LoadJob", Load)
    monkeypatch.setattr(reload_job, "ReloadJob", Reload)
    return found


def test_a_reload_comes_before_the_load_of_what_is_new(
    asked: list[tuple[str, set[int], set[int]]], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["load", "clicks", "--step", "load", "--reload", "2015-05-17T10..2015-05-17T11", "--restore", "2015-05-17T11"]
    assert main(words) == 0
    assert asked == [("reload clicks", {TEN, ELEVEN}, {ELEVEN}), ("load clicks", set(), set())]
    assert "reload: 1,200 rows of clicks in 1 hours read again, in 3 files; there stood 1,100" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reload"]["row_count"] == 1_200


@pytest.mark.parametrize("step", ["count", "publish"])
def test_a_reload_of_another_step_is_refused(
    asked: list[tuple[str, set[int], set[int]]], capsys: pytest.CaptureFixture[str], step: str
) -> None:
    assert main(["load", "clicks", "--step", step, "--reload", "2015-05-17T10"]) == 2
    assert capsys.readouterr().err == f"headrace load: --reload belongs to the step load, not to {step}\n"
    assert asked == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("yesterday", "'yesterday' is not an hour's name: 2015-05-17T10 is one, in UTC"),
        ("2015-05-17T11..2015-05-17T10", "is not a range of hours: the first and the last one, at most 744 of them"),
        ("2015-05-17T10..2015-06-17T10", "is not a range of hours: the first and the last one, at most 744 of them"),
    ],
)
def test_what_is_no_hour_is_refused(
    asked: list[tuple[str, set[int], set[int]]], capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    assert main(["load", "clicks", "--reload", name]) == 1
    assert words in capsys.readouterr().err
    assert asked == []


def test_ranges_of_hours_hold_both_ends_and_hours_before_1970_are_one() -> None:
    assert hours_of_names(["2015-05-17T10..2015-05-17T11", "1969-12-31T23", "1950-01-01T00"]) == {TEN, ELEVEN, -1}


def test_all_topics_and_one_topic_are_not_asked_for_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["load", "clicks", "--all"]) == 2
    assert "--all is of every topic" in capsys.readouterr().err
    assert main(["load", "--all", "--reload", "2015-05-17T10"]) == 2
    assert main(["load"]) == 2
    assert "`headrace load --all`" in capsys.readouterr().err


def test_a_load_of_all_topics_names_those_at_fault_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loads = [LoadOutcome(topic="a", run="r", row_count=1_000), LoadOutcome(topic="a", run="s", row_count=5)]
    outcome = AllTopicsOutcome(topic_count=3, loads=[*loads, LoadOutcome(topic="c", run="t", quarantined={"not_framed": 2})])
    outcome.faults["b"] = ValueError("no column")
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    monkeypatch.setattr(offline_topics, "loadable_topics", lambda layout: ["a", "b", "c"])
    monkeypatch.setattr(job.AllTopicsJob, "run", lambda _, topics: outcome)
    assert main(["load", "--all", "--step", "load"]) == 3
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        "load: 1,005 rows of a",
        "load: 0 rows of c, 2 in quarantine",
        "load: 3 topics, 2 with something new: 1,005 rows",
    ]
    assert told.err == "load: topic b: ValueError: no column\n"
    outcome.faults.clear()
    assert main(["load", "--all", "--step", "load", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["load"]["row_counts"] == {"a": 1005, "c": 0}
