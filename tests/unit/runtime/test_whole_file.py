"""Small files are replaced whole: old or new, never half, and nothing left lying beside them."""

import errno
from pathlib import Path

import pytest

from headrace.runtime.whole_file import replace_file


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
