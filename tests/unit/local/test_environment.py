"""The installer's progress, as pip's own lines tell it."""

from pathlib import Path

import pytest

from headrace.local.environment import Progress, lacking_for_native

LINES = """Collecting a2wsgi==1.10.10 (from -r requirements.lock (line 1))
  Downloading a2wsgi-1.10.10-py3-none-any.whl (17 kB)
Requirement already satisfied: anyio==4.16.0 in ./.venv/lib
Collecting pyspark==4.3.0 (from -r requirements.lock (line 900))
  Downloading https://files.example/packages/pyspark-4.3.0.tar.gz (456.7 MB)
""".splitlines()


def test_packages_are_counted_as_they_are_looked_at_and_the_download_is_named() -> None:
    progress = Progress(185)
    for line in LINES:
        progress.line(line)
    assert progress.words(0) == "fetching: 3 of 185 packages, downloading pyspark-4.3.0.tar.gz (456.7 MB)"


def test_once_all_is_fetched_the_files_in_place_are_counted() -> None:
    progress = Progress(3)
    for line in [*LINES, "Installing collected packages: a2wsgi, pyspark"]:
        progress.line(line)
    assert progress.is_installing
    assert progress.words(2) == "installing: 2 of 3 packages"
    assert progress.words(4) == "installing: 3 of 3 packages", "pip itself is there, too"


def test_without_compiler_or_headers_the_compilation_is_left_out_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "no-such-compiler"))
    assert "gcc" in str(lacking_for_native())
    monkeypatch.setenv("CC", "sh")
    assert "python3-dev" in str(lacking_for_native(str(tmp_path)))
    (tmp_path / "Python.h").touch()
    assert lacking_for_native(str(tmp_path)) is None
