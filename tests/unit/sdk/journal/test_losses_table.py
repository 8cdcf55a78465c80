"""The table of losses: exact, bounded, and kept by the kernel when its process is killed."""

import os
import random
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.sdk.journal import JournalDamaged, JournalTooNew
from headrace.sdk.journal.files.losses_table import LossesTable

WINDOW = 600_000


def test_counts_add_up_by_window_and_name(tmp_path: Path) -> None:
    table = LossesTable(tmp_path / "losses")
    for n in range(10):
        table.add(WINDOW * (n % 3), "dropped_journal_full", n)
        table.add(-WINDOW, "refused_by_schema")
    found = LossesTable.read(tmp_path / "losses")
    assert found.counts == {
        (0, "dropped_journal_full"): 18,
        (WINDOW, "dropped_journal_full"): 12,
        (2 * WINDOW, "dropped_journal_full"): 15,
        (-WINDOW, "refused_by_schema"): 10,
    }
    assert found.unassigned == 0
    assert table.by_name() == {"dropped_journal_full": 45, "refused_by_schema": 10}


def test_a_full_table_counts_on_without_windows_and_says_so(tmp_path: Path) -> None:
    table = LossesTable(tmp_path / "losses", slots=4)
    size = (tmp_path / "losses").stat().st_size
    for n in range(10):
        table.add(WINDOW * n, "dropped_journal_full", 2)
    table.add(0, "dropped_journal_full")
    found = LossesTable.read(tmp_path / "losses")
    assert found.counts == {(0, "dropped_journal_full"): 3} | {(WINDOW * n, "dropped_journal_full"): 2 for n in (1, 2)}
    assert found.unassigned == 14
    assert table.by_name() == {"dropped_journal_full": 21}
    assert (tmp_path / "losses").stat().st_size == size


def test_counts_survive_a_kill(tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        LossesTable(tmp_path / "losses").add(WINDOW, "dropped_journal_full", 7)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert LossesTable.read(tmp_path / "losses").counts == {(WINDOW, "dropped_journal_full"): 7}


def test_threads_and_calls_that_interrupt_a_count_lose_none(tmp_path: Path) -> None:
    table = LossesTable(tmp_path / "losses")

    def count() -> None:
        for _ in range(50):
            table.add(WINDOW, "dropped_journal_full")

    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    nested: list[str] = []
    chance = random.Random(5)

    def trace(frame: Any, event: str, argument: object) -> Any:
        # Seldom: a count of ten lines that is interrupted at every fifth one begets more than it ends.
        if event == "line" and frame.f_code.co_filename.endswith("losses_table.py") and chance.random() < 0.04:
            table.add(WINDOW, "dropped_journal_full")
            nested.append(frame.f_code.co_name)
        return trace

    sys.settrace(trace)
    for _ in range(100):
        table.add(WINDOW, "dropped_journal_full")
    sys.settrace(None)
    for thread in threads:
        thread.join()
    assert {"add", "_store"} <= set(nested)
    assert LossesTable.read(tmp_path / "losses").counts == {(WINDOW, "dropped_journal_full"): 200 + len(nested)}


def test_what_is_no_table_is_an_error_by_name(tmp_path: Path) -> None:
    path = tmp_path / "losses"
    with pytest.raises(JournalDamaged, match="cannot be read"):
        LossesTable.read(path)
    LossesTable(path)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(JournalDamaged, match="it was cut"):
        LossesTable.read(path)
    path.write_bytes(content[:8] + b"\x02" + content[9:])
    with pytest.raises(JournalTooNew):
        LossesTable.read(path)
    path.write_bytes(b"something else")
    with pytest.raises(JournalDamaged, match="is not a table of losses"):
        LossesTable.read(path)
