"""What a process leaves that is killed while it makes a journal: removed, and never that of one that lives."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.agent.journals import CLEAR_EVERY_MS, JournalGroup
from headrace.runtime.clock import ManualClock
from headrace.sdk.journal import remove_abandoned_below
from tests.support.processes import Process, eventually
from tests.unit.sdk.journal.journals import SmallJournal

MAKER = """
import signal, sys
from pathlib import Path
from headrace.sdk.journal.files import folder
from tests.unit.sdk.journal.journals import SmallJournal

def stop_here(*words):
    print("all but its name", flush=True)
    signal.pause()

folder._put_in_place = stop_here
SmallJournal(Path(sys.argv[1]))
"""


@pytest.fixture
def maker(tmp_path: Path) -> Iterator[Callable[[], Process]]:
    """Starts processes that stop before their journal has its name."""
    started: list[Process] = []

    def start() -> Process:
        one = Process([sys.executable, "-c", MAKER, str(tmp_path / "root")], tmp_path / f"maker-{len(started)}.log").start()
        started.append(one)
        eventually(lambda: "all but its name" in one.output(), within_ms=60_000, what="the journal is half made")
        return one

    yield start
    for one in started:
        one.kill()


def unfinished(root: Path) -> list[Path]:
    return sorted((root / "app").glob(".*"))


def age(root: Path, by_s: int) -> None:
    for path in unfinished(root):
        os.utime(path, (time.time() - by_s, time.time() - by_s))


def test_what_a_killed_process_left_goes_after_a_minute_and_what_a_living_one_makes_stays(
    tmp_path: Path, maker: Callable[[], Process]
) -> None:
    root = tmp_path / "root"
    killed = maker()
    killed.kill()
    assert len(unfinished(root)) == 1
    assert remove_abandoned_below(root) == 0  # its process might be about to take the lock
    maker()
    age(root, 120)
    assert remove_abandoned_below(root) == 1
    assert len(unfinished(root)) == 1
    age(root, 7_200)
    assert remove_abandoned_below(root) == 1
    assert remove_abandoned_below(tmp_path / "missing") == 0


def test_the_next_journal_of_the_application_clears_its_folder_and_so_does_the_agent(
    tmp_path: Path, maker: Callable[[], Process]
) -> None:
    """Fault: without another start of the application its unfinished folders stayed for ever."""
    root, clock = tmp_path / "root", ManualClock(1_800_000_000_000)
    group = JournalGroup(root, ["clicks"], agent="one", clock=clock)
    maker().kill()
    group.scan({})
    age(root, 120)
    group.scan({})
    assert len(unfinished(root)) == 1  # it looks once a minute
    clock.advance(CLEAR_EVERY_MS)
    group.scan({})
    assert unfinished(root) == []
    maker().kill()
    age(root, 120)
    SmallJournal(root)
    assert unfinished(root) == []
    group.close()
