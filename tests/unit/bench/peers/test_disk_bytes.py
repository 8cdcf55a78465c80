"""Bytes on disk, by length and by blocks."""

from pathlib import Path

from bench.peers.disk_bytes import allocated_bytes_of, bytes_of


def test_bytes_on_disk_are_counted_by_length_and_by_blocks(tmp_path: Path) -> None:
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(1 << 24)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "full").write_bytes(b"x" * 5000)
    assert bytes_of(tmp_path) == (1 << 24) + 5000
    assert allocated_bytes_of(tmp_path) < 1 << 20
    assert bytes_of(tmp_path, "deep/*") == 5000
