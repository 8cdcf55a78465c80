"""`python -m tests.run`: every room runs whatever fails, and the closing table tells what passed, failed and was left out."""

import os
import re
from pathlib import Path

import pytest

from tests import run, times

REPORT = """<testsuites><testsuite>
<testcase classname="tests.crash.test_a" name="test_well"/>
<testcase classname="tests.crash.test_a" name="test_ill"><failure message="no"/></testcase>
<testcase classname="tests.crash.test_a" name="test_torn"/>
<testcase classname="tests.crash.test_a" name="test_torn"><error message="at teardown"/></testcase>
<testcase classname="tests.crash.test_b" name="test_left"><skipped message="wants root: sudo make test-root"/></testcase>
</testsuite></testsuites>"""


def read(folder: Path, text: str, exit_code: int) -> run.Result:
    report = folder / "report.xml"
    report.write_text(text)
    result = run.Result("crash", seconds=61)
    run.read_report(result, report, exit_code)
    return result


def test_passed_failed_and_left_out_are_told_by_name_and_the_last_line_counts_them(tmp_path: Path) -> None:
    lines = run.table([read(tmp_path, REPORT, 1)])
    assert "  crash: tests.crash.test_b.test_left (wants root: sudo make test-root)" in lines
    assert "  crash: tests.crash.test_a.test_ill" in lines
    assert "  crash: tests.crash.test_a.test_torn" in lines
    assert lines[-1] == "1 passed, 2 failed, 1 skipped in 1:01"


@pytest.mark.parametrize("text", ["", "<testsuites/>", "<torn"])
def test_a_session_that_ended_without_a_report_has_failed(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text, 3).named("failed") == ["the session"]


def test_a_room_all_of_whose_tests_are_left_out_has_not_failed(tmp_path: Path) -> None:
    assert read(tmp_path, "<testsuites/>", run.NO_TESTS).count("failed") == 0


def test_what_root_took_up_is_no_longer_left_out(tmp_path: Path) -> None:
    earlier = read(tmp_path, REPORT, 1)
    later = run.Result("crash", seconds=5)
    later.add("tests.crash.test_b.test_left", "passed")
    (both,) = run.merged([earlier], [later])
    assert (both.count("passed"), both.count("failed"), both.count("left out")) == (2, 2, 0)
    assert run.table([both])[-1] == "2 passed, 2 failed, 0 skipped in 1:06"


def test_what_failed_once_has_failed_though_it_passes_as_root(tmp_path: Path) -> None:
    later = run.Result("crash", seconds=5)
    later.add("tests.crash.test_a.test_ill", "passed")
    later.add("tests.crash.test_a.test_well", "left out", "wants root")
    (both,) = run.merged([read(tmp_path, REPORT, 1)], [later])
    assert (both.count("passed"), both.count("failed"), both.count("left out")) == (1, 2, 1)


def test_a_test_that_passes_alone_is_unstable_and_one_that_fails_again_has_failed(tmp_path: Path) -> None:
    first = read(tmp_path, REPORT, 1)
    second = run.Result("crash")
    second.add("tests.crash.test_a.test_ill", "passed")
    second.add("tests.crash.test_a.test_torn", "failed")
    second.add("tests.crash.test_a.test_well", "passed")
    run.take_second(first, second)
    lines = run.table([first])
    unstable = lines.index("unstable (failed, and passed when its file ran alone; to be mended):")
    assert lines[unstable + 1] == "  crash: tests.crash.test_a.test_ill"
    assert lines[-1] == "2 passed, 1 failed, 1 skipped in 1:01"


FLAKY = """
import os, pathlib, pytest
@pytest.mark.parametrize("name", ["a.b/c"])
def test_among_others(name): assert "PYTEST_XDIST_WORKER" not in os.environ
"""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of its own, whose runs are not those of a worker."""
    for name in [one for one in os.environ if one.startswith("PYTEST_XDIST")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(run, "TOP", tmp_path)
    return tmp_path / "tests"


@pytest.mark.parametrize(("files", "outcome"), [(1, "passed"), (run.FEW_FILES, "passed"), (run.FEW_FILES + 1, "failed")])
def test_a_few_files_with_failures_run_a_second_time_alone(files: int, outcome: str, room: Path) -> None:
    (room / "crash").mkdir(parents=True)
    for number in range(files):
        (room / "crash" / f"test_{number}.py").write_text(FLAKY)
    (room / "crash" / "test_well.py").write_text("""def test_well(): open("runs", "a").write("x")""")
    result = run.run_room("crash", [])
    assert (room.parent / "runs").read_text() == "x", "a file without failures runs once"
    result.outcomes.pop("tests.crash.test_well.test_well")
    assert result.count(outcome) == files  # type: ignore[arg-type]
    assert len(result.unstable) == (files if outcome == "passed" else 0)


def test_a_failure_of_a_search_is_a_finding_whatever_a_second_run_shows(room: Path) -> None:
    (room / "simulate").mkdir(parents=True)
    (room / "simulate" / "test_0.py").write_text(FLAKY)
    assert run.run_room("simulate", []).count("failed") == 1


def test_a_failing_room_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def one_room(room: str, extra: object) -> run.Result:
        asked.append(room)
        result = run.Result(room)
        result.add("test", "failed" if room == "unit" else "passed")
        return result

    monkeypatch.setattr(run, "run_room", one_room)
    assert run.main([]) == 1
    assert asked == list(run.ROOMS)
    assert re.search(rf"{len(run.ROOMS) - 1} passed, 1 failed, 0 skipped", capsys.readouterr().out)


def test_interrupted_it_tells_what_ran(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def one_room(room: str, extra: object) -> run.Result:
        if room == "unit":
            raise KeyboardInterrupt
        result = run.Result(room)
        result.add("test", "passed")
        return result

    monkeypatch.setattr(run, "run_room", one_room)
    assert run.main([]) == 130
    assert "1 passed, 0 failed" in capsys.readouterr().out


def test_a_room_that_grows_is_seen_on_a_slower_machine_too() -> None:
    known = {"unit": 300.0, "crash": 100.0, "fuzz": 50.0, "e2e": 200.0, "power": 10.0}
    slower = {room: 2 * seconds for room, seconds in known.items()}
    assert times.grown(slower, known) == {}
    assert times.grown(slower | {"crash": 250.0, "new": 5.0}, known) == {"crash": 1.25}
    assert times.grown({"unit": 900.0}, known) == {}, "one room alone tells nothing about the machine"


def test_times_are_by_file_and_keep_what_did_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "tests" / "crash").mkdir(parents=True)
    (tmp_path / "tests" / "crash" / "test_a.py").touch()
    report = tmp_path / "report.xml"
    report.write_text(REPORT.replace("<testcase ", '<testcase time="4.5" ').replace("test_b", "test_a.TestOfAClass"))
    files = times.by_file(times.by_test(report), tmp_path)
    assert files == {"tests/crash/test_a.py": 5 * 4.5}
    assert times.by_test(tmp_path / "none.xml") == {}
    record = tmp_path / "times.json"
    times.record(times.Times({"crash": 7.4, "unit": 9.6}, files | {"tests/unit/test_short.py": 1.0}), record)
    times.record(times.Times({"unit": 12.0}, {"tests/unit/test_long.py": 33.3}), record)
    assert times.recorded(record) == times.Times(
        {"crash": 7, "unit": 12}, {"tests/crash/test_a.py": 22, "tests/unit/test_long.py": 33}
    )


def test_what_uses_native_code_is_tested_without_it_too() -> None:
    users = [
        f"tests/unit/{'spark/' if top == 'spark' else ''}{file.relative_to(run.TOP / top).parent}/test_{file.name}"
        for top in ("platform", "spark")
        for file in (run.TOP / top).rglob("*.py")
        if re.search(r"^from \S*runtime\.native import", file.read_text(), re.MULTILINE)
    ]
    assert len(users) > 5
    assert [user for user in users if not user.startswith(run.PURE)] == []
    assert all((run.TOP / path).exists() for path in run.PURE)
