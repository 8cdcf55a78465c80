"""Random runs with the real log on recorded disks: what the list log cannot show, such as a cut on a disk that loses power."""

import os
import shutil
from pathlib import Path

import pytest

from headrace.broker.log import PartitionLog

from .actions import drawn, failure_of, play
from .real_log import RealLog, real_disks

FRESH = int(os.environ.get("HEADRACE_SIMULATE_FROM", "0"))
SEEDS = 40 if os.environ.get("HEADRACE_TEST_FAST") else 300


def failure_on_real_logs(seed: int, folder: Path) -> str | None:
    with real_disks(folder / "disks") as disks:
        return failure_of(drawn(seed), disks.make_log)


@pytest.mark.parametrize("part", range(4))
def test_nothing_breaks_with_the_real_log(part: int, tmp_path: Path) -> None:
    for seed in range(FRESH + part, FRESH + SEEDS, 4):
        why = failure_on_real_logs(seed, tmp_path)
        assert why is None, f"seed {seed} on real logs: {why}"
        shutil.rmtree(tmp_path / "disks", ignore_errors=True)


def test_the_runs_cut_real_logs_and_take_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate against runs in which nothing happens."""
    cuts, cut_end = [0], PartitionLog.cut_end

    def counted(log: PartitionLog, to_offset: int, *, aside: Path, now_ms: int) -> PartitionLog:
        cuts[0] += 1
        return cut_end(log, to_offset, aside=aside, now_ms=now_ms)

    monkeypatch.setattr(PartitionLog, "cut_end", counted)
    takeovers = acknowledgements = 0
    for seed in range(40):
        with real_disks(tmp_path / f"{seed}") as disks:
            checks = play(drawn(seed), disks.make_log).checks
        takeovers += checks.takeovers
        acknowledgements += checks.acknowledgements
    assert cuts[0] >= 5
    assert takeovers >= 40
    assert acknowledgements >= 80


def test_a_log_that_forgets_its_cut_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut that is not carried out, as if it had not been durable."""

    def forgotten(log: RealLog, to_offset: int) -> None:
        log.incarnation += 1

    monkeypatch.setattr(RealLog, "cut", forgotten)
    assert any(failure_on_real_logs(seed, tmp_path / f"{seed}") is not None for seed in range(60))


def test_a_log_that_loses_its_list_of_epochs_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionLog, "begin_epoch", lambda log, epoch, start: None)
    assert any(failure_on_real_logs(seed, tmp_path / f"{seed}") is not None for seed in range(60))
