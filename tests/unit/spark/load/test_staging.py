"""The scratch folder of a run over all topics: its own while it lives, and nobody's after a kill."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from headrace.spark.errors import WarehouseError
from headrace.spark.load.staging import machine_scratch

HOLDING = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from headrace.spark.load.staging import machine_scratch
with machine_scratch("all") as mine:
    (mine / "spilled").touch()
    print(mine, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _own_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_it_is_deleted_at_the_end_and_those_of_living_runs_are_left_alone() -> None:
    with machine_scratch("all") as one, machine_scratch("all") as other:
        (one / "spilled").touch()
        assert one != other
        assert other.is_dir()
    assert not one.exists()
    assert not other.exists()


def test_what_a_killed_run_left_goes_with_the_next_run(tmp_path: Path) -> None:
    words = [sys.executable, "-c", HOLDING, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holding:
        assert holding.stdout is not None
        left = Path(holding.stdout.readline().strip())
        with machine_scratch("all"):
            assert (left / "spilled").exists()
        holding.kill()
    with machine_scratch("all"):
        assert not left.exists()


def test_another_user_s_folder_under_the_name_is_refused(tmp_path: Path) -> None:
    root = tmp_path / f"headrace-load-{os.getuid()}"
    with machine_scratch("all") as mine:
        assert mine.parent == root
        assert root.stat().st_mode & 0o777 == 0o700
    root.chmod(0o755)
    with pytest.raises(WarehouseError, match="not this user's own folder"), machine_scratch("all"):
        pass
    root.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    root.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WarehouseError, match="set TMPDIR"), machine_scratch("all"):
        pass
    assert list((tmp_path / "elsewhere").iterdir()) == []
