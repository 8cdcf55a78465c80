"""A few rounds, as `make kill-readers` plays many."""

import sys
from pathlib import Path

import pytest

from tests.support.processes import Process

ROUNDS_MS = 600_000


@pytest.mark.needs("postgresql")
@pytest.mark.parametrize("rounds", ["4", pytest.param("60", marks=pytest.mark.whole)])
def test_rounds_of_kills_lose_and_double_nothing(tmp_path: Path, rounds: str) -> None:
    words = [sys.executable, "-m", "tests.integration.reader.kill_rounds", "--rounds", rounds, "--seed", "7"]
    playing = Process(words, tmp_path / "log").start()
    try:
        assert playing.wait(ROUNDS_MS * max(1, int(rounds) // 20)) == 0, playing.output()[-6_000:]
    finally:
        playing.stop()
    assert "0 lost, 0 doubled, each known to the audit once" in playing.output()
