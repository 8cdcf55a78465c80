"""A folder whose every change is recorded, for tests that cut the power."""

from pathlib import Path

import pytest

from tests.crash.recorded_disk import RecordedDisk


@pytest.fixture
def disk(tmp_path: Path) -> RecordedDisk:
    root = tmp_path / "disk"
    root.mkdir()
    return RecordedDisk(root)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    return tmp_path / "scratch"
