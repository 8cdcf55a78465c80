"""Small files are replaced whole: old or new, never half, and nothing left lying beside them."""

import errno
from pathlib import Path

import pytest

from headrace.runtime import status
from headrace.runtime.status import StatusFile, read_status
from headrace.runtime.whole_file import is_disk_full, replace_file


def test_the_folder_is_made_and_the_content_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.json"
    replace_file(path, b"old")
    replace_file(path, b"new", is_durable=True)
    assert path.read_bytes() == b"new"
    assert [one.name for one in path.parent.iterdir()] == ["b.json"]


def test_what_cannot_be_put_in_place_leaves_the_old_file_and_no_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "b.json"
    replace_file(path, b"old")

    def full(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["b.json"]


@pytest.mark.parametrize(
    ("number", "is_full"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EFBIG, True), (errno.EACCES, False)]
)
def test_a_full_disk_is_told_from_a_wrong_path(number: int, is_full: bool) -> None:
    """Fault: a replica that met its process's limit on file sizes stayed stopped when that was lifted (round 122 of seed 101 of
    `make faults`)."""
    assert is_disk_full(OSError(number, "why")) == is_full


def test_a_process_whose_status_finds_no_room_goes_on_and_one_with_a_wrong_path_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names a fault: a full disk ended each process that writes a status file, the mirror for example."""
    path = tmp_path / "mirror.json"
    file = StatusFile(path)
    file.write("ready")

    def fails(number: int) -> None:
        def replace(path: Path, content: bytes) -> None:
            raise OSError(number, "why")

        monkeypatch.setattr(status, "replace_file", replace)

    fails(errno.ENOSPC)
    file.write("stalled")
    assert (read_status(path) or {})["state"] == "ready"
    fails(errno.EACCES)
    with pytest.raises(OSError, match="why"):
        file.write("stalled")
    monkeypatch.undo()
    file.write("stalled")
    assert (read_status(path) or {})["state"] == "stalled"
