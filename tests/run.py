"""Runs the tests folder by folder, all of them even after failures, and ends with a table: passed, failed, skipped.

`make test` is `python -m tests.run`. `make test-root` adds `--as-root`: it runs the tests that an ordinary user has to skip. With
`--results FILE` a run adds its results to an earlier one's in the file, so that two runs make one table.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from tests import sizes, times

TOP = Path(__file__).resolve().parents[1]
LINT = {
    "ruff format": ["ruff", "format", "--check", "."],
    "ruff check": ["ruff", "check", "."],
    "mypy": ["mypy"],
    "lint-imports": ["lint-imports"],
}
ROOMS = (
    "lint",
    "unit",
    "pure",
    "contract",
    "search",
    "simulate",
    "faults",
    "fuzz",
    "integration",
    "crash",
    "chaos_sdk",
    "power",
    "e2e",
    "kafka",
    "security",
    "rights",
)
FAST_ROOMS = ("lint", "unit", "contract")
ROOT_ROOMS = ("crash", "power")
"""Folders with tests that an ordinary user may have to skip: `needs` in tests/conftest.py."""
SHARED_ROOMS = ("integration", "kafka", "security")
"""Of these only a share runs here: all but what is marked `whole`. `make test-whole`, `test-kafka`, `test-security` add it."""
WAITING_ROOMS = ("integration", "faults", "crash", "chaos_sdk", "kafka", "security")
"""Their tests wait for servers more than they compute: two workers for each core, where there is memory for so many JVMs."""
WORKERS, WORKERS_THAT_WAIT = 2, 4
"""One worker for each of two cores, or two; each has its own ZooKeeper and brokers."""
MEMORY_FOR_MORE_BYTES = 12 << 30
LONGEST_FILE_FIRST = ("--dist", "loadfile", "--no-loadscope-reorder")
"""The order is that of tests/conftest.py."""
SLOWEST = 10
PURE = (
    "tests/unit/agent/plan",
    "tests/unit/agent/test_shipping.py",
    "tests/unit/audit/test_counter.py",
    "tests/unit/client/fetch",
    "tests/unit/client/producer",
    "tests/unit/sdk/direct",
    "tests/unit/sdk/encoding",
    "tests/unit/sdk/journal",
    "tests/unit/spark/source",
    "tests/unit/reader/decoding",
)
"""The room `pure`: unit tests of what `headrace_native` does where it is built, without it. Its properties have few examples."""
ONE_BY_ONE = ("power", "e2e")
"""They share one block device, or one platform."""
ONE_ANSWER_ROOMS = ("lint", "search", "simulate", "faults", "fuzz")
"""A failure there is a finding, whatever a second run shows."""
FEW_FILES = 4
"""So many files with failures, and no more, are run a second time (decision 52)."""
PASSED, NO_TESTS = 0, 5
"""pytest's exit codes."""

Outcome = Literal["passed", "failed", "left out"]


@dataclass(slots=True)
class Result:
    """The result of one folder: outcomes and reasons by the test's name."""

    room: str
    seconds: float = 0.0
    processor_seconds: float = 0.0
    """Of all processes that ended in it."""
    tests: dict[str, float] = field(default_factory=dict)
    """Seconds of the slowest tests."""
    files: dict[str, float] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    unstable: list[str] = field(default_factory=list)
    """Tests that failed among others and passed when their file ran a second time, alone."""

    def add(self, name: str, outcome: Outcome, reason: str = "") -> None:
        self.outcomes[name] = outcome
        self.reasons.pop(name, None)
        if reason:
            self.reasons[name] = reason

    def count(self, outcome: Outcome) -> int:
        return sum(1 for one in self.outcomes.values() if one == outcome)

    def named(self, outcome: Outcome) -> list[str]:
        return [name for name, one in self.outcomes.items() if one == outcome]


def read_report(result: Result, report: Path, exit_code: int) -> None:
    """Add pytest's JUnit file to the result. If a session failed without naming a failed test, the session itself counts as
    failed.
    """
    try:
        cases = list(ElementTree.parse(report).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        cases = []
    for case in cases:
        name = f"{case.get('classname', '')}.{case.get('name', '')}".lstrip(".")
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            result.add(name, "failed")
        elif skipped is not None:
            result.add(name, "left out", skipped.get("message", ""))
        elif result.outcomes.get(name) != "failed":  # an error during teardown is a case of its own
            result.add(name, "passed")
    if exit_code not in (PASSED, NO_TESTS) and not result.count("failed"):
        result.add("the session", "failed", f"pytest ended with {exit_code}")


def take_second(result: Result, second: Result) -> None:
    """Replace outcomes by those of a second run. What had failed and passes is unstable; what fails there has failed."""
    for name, outcome in second.outcomes.items():
        if outcome == "failed" or result.outcomes.get(name) == "failed":
            if outcome == "passed":
                result.unstable.append(name)
            result.add(name, outcome, second.reasons.get(name, ""))


def table(results: Sequence[Result]) -> list[str]:
    """Return the closing lines; the last is of the form 'N passed, N failed, N skipped'."""
    lines = ["", f"{'room':<14}{'passed':>8}{'failed':>8}{'left out':>10}{'time':>9}{'processor':>11}"]
    grown = times.grown({one.room: one.processor_seconds for one in results}, times.recorded().rooms)
    for one in results:
        counts = f"{one.count('passed'):>8}{one.count('failed'):>8}{one.count('left out'):>10}"
        more = f"  {round(100 * grown[one.room] - 100)} % more than tests/times.json has" if one.room in grown else ""
        lines.append(f"{one.room:<14}{counts}{_minutes(one.seconds):>9}{_minutes(one.processor_seconds):>11}{more}")
    for outcome in ("left out", "failed"):
        named = [(one, name) for one in results for name in one.named(outcome)]
        lines += ["", f"{outcome}:"] if named else []
        lines += [f"  {one.room}: {name}{_because(one.reasons.get(name))}" for one, name in named]
    named = [(one, name) for one in results for name in one.unstable]
    lines += ["", "unstable (failed, and passed when its file ran alone; to be mended):"] if named else []
    lines += [f"  {one.room}: {name}" for one, name in named]
    passed, failed, left_out = (sum(one.count(outcome) for one in results) for outcome in ("passed", "failed", "left out"))
    whole = _minutes(sum(one.seconds for one in results))
    return [*lines, "", f"{passed} passed, {failed} failed, {left_out} skipped in {whole}"]


def merged(earlier: Sequence[Result], later: Sequence[Result]) -> list[Result]:
    """Return both as one. A test that the earlier run skipped has the later run's outcome; a test that failed once has failed."""
    by_room = {one.room: one for one in earlier}
    for new in later:
        known = by_room.setdefault(new.room, Result(new.room))
        known.seconds += new.seconds
        known.processor_seconds += new.processor_seconds
        known.unstable += new.unstable
        for name, outcome in new.outcomes.items():
            if known.outcomes.get(name) != "failed" and (outcome != "left out" or name not in known.outcomes):
                known.add(name, outcome, new.reasons.get(name, ""))
    return list(by_room.values())


def _lint(result: Result) -> None:
    for name, (program, *words) in LINT.items():
        done = subprocess.run([str(Path(sys.executable).with_name(program)), *words], cwd=TOP, check=False)
        result.add(name, "passed" if done.returncode == 0 else "failed")
    for line in sizes.for_review():
        print(f"for review: {line}")


def _pytest(result: Result, extra: Iterable[str], files: Sequence[str] = ()) -> None:
    """Run a room's tests, or those of some of its files one after the other, and add what came out of them."""
    with tempfile.TemporaryDirectory(prefix="headrace-tests-") as folder:
        report = Path(folder) / "report.xml"
        spread = [] if files or result.room in ONE_BY_ONE else ["-n", str(_workers(result.room)), *LONGEST_FILE_FIRST]
        share = ["-m", "not whole"] if result.room in SHARED_ROOMS else ["-m", "not needs"] if result.room == "pure" else []
        paths = files or (PURE if result.room == "pure" else [f"tests/{result.room}"])
        switches = {"HEADRACE_NATIVE": "0", "HEADRACE_TEST_FAST": "1"} if result.room == "pure" else {}
        words = [*spread, *share, f"--junitxml={report}", *extra]
        command = [sys.executable, "-m", "pytest", *paths, *words]
        if result.room == "power" and os.geteuid() == 0:
            command = ["unshare", "--mount", *command]  # its mounts end with the last process of its namespace
        done = subprocess.run(command, cwd=TOP, env=os.environ | switches, check=False)
        read_report(result, report, done.returncode)
        if files:
            return
        measured = times.by_test(report)
        result.files = {} if result.room == "pure" else times.by_file(measured, TOP)
        slowest = sorted(measured.items(), key=lambda one: -one[1])[:SLOWEST]
        result.tests = {f"{module}.{name}": seconds for (module, name), seconds in slowest}


def _second_run(result: Result, extra: Iterable[str]) -> None:
    """Run the files with failures a second time, alone, if they are few."""
    found = {times.file_of(name, TOP) for name in result.named("failed")}
    files = sorted(file for file in found if file is not None)
    if result.room in ONE_ANSWER_ROOMS or not 0 < len(found) <= FEW_FILES or len(files) < len(found):
        return
    print(f"\n== {result.room}: a second run, alone, of {', '.join(files)}", flush=True)
    second = Result(result.room)
    _pytest(second, extra, files)
    take_second(result, second)


def _workers(room: str) -> int:
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return WORKERS_THAT_WAIT if room in WAITING_ROOMS and memory_bytes >= MEMORY_FOR_MORE_BYTES else WORKERS


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_room(room: str, extra: Iterable[str]) -> Result:
    print(f"\n== {room}", flush=True)
    result = Result(room)
    began, used = time.monotonic(), _processor_seconds()
    try:
        if room == "lint":
            _lint(result)
        else:
            _pytest(result, extra)
            _second_run(result, extra)
    finally:
        result.seconds = time.monotonic() - began
        result.processor_seconds = _processor_seconds() - used
        print(f"{room}: {_minutes(result.seconds)}, {_minutes(result.processor_seconds)} of a processor", flush=True)
        for name, seconds in result.tests.items():
            print(f"  {seconds:6.1f} s  {name}", flush=True)
    return result


def _because(reason: str | None) -> str:
    return f" ({reason})" if reason else ""


def _minutes(seconds: float) -> str:
    return f"{round(seconds) // 60}:{round(seconds) % 60:02}"


def _read(path: Path | None) -> list[Result]:
    return [Result(**one) for one in json.loads(path.read_text())] if path is not None and path.exists() else []


def main(argv: Sequence[str] | None = None) -> int:
    """Run the folders. Return 0 if nothing failed, 1 if something did, 130 if it was interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tests.run", description=__doc__, epilog="example: python -m tests.run unit")
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(ROOMS)}; all without one")
    parser.add_argument("--fast", action="store_true", help=f"{', '.join(FAST_ROOMS)}, properties with few examples")
    parser.add_argument("--as-root", action="store_true", help="only what an ordinary user may have to leave out; wants root")
    parser.add_argument("--results", type=Path, help="a file that is added to")
    parser.add_argument(
        "--record", action="store_true", help=f"write the times to tests/{times.RECORD.name}; on a machine at rest"
    )
    words = parser.parse_args(argv)
    rooms = words.rooms or (FAST_ROOMS if words.fast else ROOT_ROOMS if words.as_root else ROOMS)
    unknown = [room for room in rooms if room not in ROOMS]
    if unknown:
        parser.error(f"no room {unknown[0]!r}: there are {', '.join(ROOMS)}")
    if words.as_root and os.geteuid() != 0:
        print("test-root wants root: sudo make test-root", file=sys.stderr)
        return 2
    if words.fast:
        os.environ["HEADRACE_TEST_FAST"] = "1"
    results: list[Result] = []
    interrupted = False
    for room in rooms:
        try:
            results.append(run_room(room, ["-m", "needs"] if words.as_root else []))
        except KeyboardInterrupt:
            interrupted = True
            break
    results = merged(_read(words.results), results)
    if words.record:
        files = {file: seconds for one in results for file, seconds in one.files.items()}
        times.record(times.Times({one.room: one.processor_seconds for one in results}, files))
    if words.results is not None:
        words.results.write_text(json.dumps([asdict(one) for one in results]))
    print("\n".join(table(results)), flush=True)
    if interrupted:
        print("interrupted: the other rooms did not run", file=sys.stderr)
        return 130
    return 1 if any(one.count("failed") for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
