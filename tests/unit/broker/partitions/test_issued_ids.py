"""`producer_ids.json`: up to where a broker has issued ids, kept over restarts."""

from pathlib import Path

import pytest

from headrace.broker.errors import FolderDamaged, FolderUnusable
from headrace.broker.partitions.issued_ids import IssuedIds


def test_what_was_noted_is_known_after_a_restart_and_only_of_its_prefix(tmp_path: Path) -> None:
    assert IssuedIds(tmp_path).end(7) == 0
    IssuedIds(tmp_path).note(7, 3_000)
    assert (IssuedIds(tmp_path).end(7), IssuedIds(tmp_path).end(8)) == (3_000, 0)


def test_a_file_that_cannot_be_read_is_not_taken_for_none(tmp_path: Path) -> None:
    (tmp_path / "producer_ids.json").write_text("{}")
    with pytest.raises(FolderDamaged, match=r"producer_ids\.json cannot be read"):
        IssuedIds(tmp_path).end(7)
    (tmp_path / "producer_ids.json").unlink()
    (tmp_path / "producer_ids.json").mkdir()
    with pytest.raises(FolderUnusable):
        IssuedIds(tmp_path).end(7)
    with pytest.raises(FolderUnusable):
        IssuedIds(tmp_path).note(7, 1_000)
