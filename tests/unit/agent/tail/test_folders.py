"""Finding files costs little while nothing changes, and misses nothing when something does."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.agent.tail import folders as folders_module
from headrace.agent.tail.content import open_content
from headrace.agent.tail.folders import Folders
from headrace.agent.tail.look_times import IDLE_MS, SOON_MS, LookTimes, pause_ms
from headrace.agent.tail.open_files import OpenFiles


def finder(*patterns: str, exclude: Sequence[str] = (), now_ns: int = 1 << 62) -> Folders:
    return Folders(patterns, exclude, now_ns=lambda: now_ns, monotonic_ms=lambda: 0)


def names(found: Folders, folder: Path) -> list[str]:
    return sorted(os.path.relpath(path, folder) for path in found.find()[0].files)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for path in ("a.log", "a.log.1", ".hidden.log", "x/b.log", "x/y/c.log", "x/y/c.txt", "z1/d.log", "z2/d.log"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.log", ["a.log"]),
        ("a.log*", ["a.log", "a.log.1"]),
        ("a.log", ["a.log"]),
        (".*.log", [".hidden.log"]),
        ("**/*.log", ["a.log", "x/b.log", "x/y/c.log", "z1/d.log", "z2/d.log"]),
        ("x/**/*.log", ["x/b.log", "x/y/c.log"]),
        ("z?/d.log", ["z1/d.log", "z2/d.log"]),
        ("z[13]/*", ["z1/d.log"]),
        ("no/such/*.log", []),
    ],
)
def test_patterns_match_as_in_a_shell(tree: Path, pattern: str, expected: list[str]) -> None:
    assert names(finder(f"{tree}/{pattern}"), tree) == expected


def test_what_is_excluded_is_not_found(tree: Path) -> None:
    assert names(finder(f"{tree}/**/*.log", exclude=["c.*", f"{tree}/z1/*"]), tree) == ["a.log", "x/b.log", "z2/d.log"]


def test_a_folder_that_did_not_change_is_not_listed_again(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = finder(f"{tree}/**/*.log")
    assert found.find()[1]
    listed: list[str] = []
    real = folders_module._entries

    def entries(folder: str) -> tuple[folders_module.Entry, ...]:
        listed.append(folder)
        return real(folder)

    monkeypatch.setattr(folders_module, "_entries", entries)
    assert not found.find()[1]
    assert listed == []
    (tree / "x" / "new.log").write_text("")
    files, is_changed = found.find()
    assert is_changed
    assert f"{tree}/x/new.log" in files.files
    assert listed == [f"{tree}/x"]


def test_a_folder_that_changed_a_moment_ago_is_listed_again(tree: Path) -> None:
    found = finder(f"{tree}/*.log", now_ns=os.stat(tree).st_mtime_ns)
    found.find()
    os.rename(tree / "a.log", tree / "b.log")
    os.utime(tree, ns=(1, 1))
    os.utime(tree, ns=(1, os.stat(tree).st_mtime_ns))
    assert names(found, tree) == ["b.log"]


def test_a_folder_that_cannot_be_listed_is_told(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: str) -> tuple[folders_module.Entry, ...]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(folders_module, "_entries", refuse)  # root may list everything
    found, _ = finder(f"{tree}/*.log").find()
    assert found.unlisted == {str(tree): "the folder cannot be listed: Permission denied"}


def test_a_busy_file_is_looked_at_often_and_an_idle_one_seldom() -> None:
    assert [pause_ms(idle) for idle in (0, 1_000, 8_000, 1 << 40)] == [SOON_MS, 500, 4_000, IDLE_MS]
    looks: LookTimes[str] = LookTimes()
    looks.set("a", 10)
    looks.set("b", 5)
    looks.set("a", 20)
    assert [*looks.take_due(15)] == ["b"]
    assert [*looks.take_due(20)] == ["a"]
    assert len(looks) == 0


def test_the_queue_of_looks_does_not_grow_with_its_changes() -> None:
    looks: LookTimes[str] = LookTimes()
    for at in range(10_000):
        looks.set("a", at)
    assert len(looks._queue) < 100


def test_open_files_are_bounded_and_those_without_a_name_stay(tmp_path: Path) -> None:
    files = OpenFiles(2)
    for name in "abc":
        path = tmp_path / name
        path.write_text(name)
        files.open(name, lambda path=path: open_content(str(path)))  # type: ignore[misc]
    assert files.of("a") is None
    files.pin("b")
    files.open("d", lambda: open_content(str(tmp_path / "a")))
    assert files.of("b") is not None
    files.pin("d")
    with pytest.raises(OSError, match="2 deleted files are open"):
        files.open("e", lambda: open_content(str(tmp_path / "a")))
    files.close_all()
    assert len(files) == 0
