"""A few rounds of each kind, as `make kill-commits` and `make kill-cluster` play many."""

import sys
from pathlib import Path

import pytest

from tests.support.processes import Process

ROUNDS_MS = 900_000
OVER_REST = [pytest.mark.needs("rest catalog"), pytest.mark.whole]


@pytest.mark.needs("s3")
@pytest.mark.needs("postgresql")
@pytest.mark.parametrize(
    ("module", "rounds", "catalog"),
    [
        ("commit_rounds", "4", "postgresql"),
        pytest.param("commit_rounds", "20", "rest", marks=OVER_REST),
        pytest.param("kill_rounds", "3", "postgresql", marks=pytest.mark.whole),
        pytest.param("kill_rounds", "3", "rest", marks=OVER_REST),
    ],
)
def test_rounds_of_kills_lose_and_double_nothing(tmp_path: Path, module: str, rounds: str, catalog: str) -> None:
    words = [sys.executable, "-m", f"tests.integration.cluster.{module}", "--rounds", rounds, "--seed", "1", "--catalog", catalog]
    playing = Process(words, tmp_path / "log").start()
    try:
        assert playing.wait(ROUNDS_MS) == 0, playing.output()[-6_000:]
    finally:
        playing.stop()
    assert "0 lost, 0 doubled, nothing left over" in playing.output()
