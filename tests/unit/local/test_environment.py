"""The installer: pip's progress in words, from pip's own lines; what is pinned; which path is active."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.local.environment import FIRST, Progress, Screen, lacking_for_native, path_in_words, pinned, written_by

TOP = Path(__file__).parents[3]
RESOLVED = """Ignoring colorama: markers 'sys_platform == "win32"' don't match your environment
Collecting a2wsgi==1.10.10 (from -r requirements.lock (line 1))
  Downloading a2wsgi-1.10.10-py3-none-any.whl (17 kB)
Requirement already satisfied: anyio==4.16.0 in ./.venv/lib
Collecting pyspark==4.3.0 (from -r requirements.lock (line 900))
  Downloading https://files.example/packages/pyspark-4.3.0.tar.gz (456.7 MB)
""".splitlines()


def after(*lines: str, package_count: int = 186) -> Progress:
    progress = Progress(package_count)
    for line in [*RESOLVED, *lines]:
        progress.line(line)
    return progress


def test_packages_are_counted_as_they_are_looked_at_and_the_download_is_named() -> None:
    assert after().words(0, None) == "fetching: 3 of 185 packages, downloading pyspark-4.3.0.tar.gz"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Progress 51000000 of 456700000", "downloading pyspark-4.3.0.tar.gz (51 of 457 MB)"),
        ("  Preparing metadata (pyproject.toml): started", "unpacking the source of pyspark"),
        ("  Building wheel for pyspark (pyproject.toml): started", "building pyspark"),
        ("  Created wheel for pyspark: filename=pyspark-4.3.0-py2.py3-none-any.whl size=456587423", "unpacking what was built"),
    ],
)
def test_each_long_silence_of_pip_has_a_name_and_bytes(line: str, words: str) -> None:
    assert after(line).words(0, 1_250_000_000) == f"fetching: 3 of 185 packages, {words}, 1,250 MB written"


def test_the_next_package_ends_what_was_said_of_the_one_before() -> None:
    assert after("Collecting pytz==2026.1").words(0, None) == "fetching: 4 of 185 packages"


def test_once_all_is_fetched_the_files_in_place_are_counted_and_the_package_that_is_next_is_named() -> None:
    progress = after("Installing collected packages: a2wsgi, pyspark, numpy\n")
    assert progress.to_install == ["a2wsgi", "pyspark", "numpy"]
    assert progress.words(1, 577_000_000) == "installing files: 1 of 3 packages, now pyspark, 577 MB written"
    assert progress.words(3, None) == "installing files: 3 of 3 packages"


def test_without_a_terminal_a_line_comes_at_least_each_ten_seconds_and_says_what_is_new() -> None:
    now_s = 100.0
    output = io.StringIO()
    screen = Screen(output, lambda: now_s)
    progress = after("  Building wheel for pyspark (pyproject.toml): started")
    for second in range(1, 31):
        now_s = 100.0 + second
        screen.show(progress.words(0, second * 10_000_000))
    said = [(int(line[1:5]), line.split(", ")[-1]) for line in output.getvalue().splitlines()]
    assert said == [(10, "100 MB written"), (20, "200 MB written"), (30, "300 MB written")]


def test_what_a_process_and_its_children_write_is_counted_together_also_when_they_have_ended(tmp_path: Path) -> None:
    write = f"open({str(tmp_path / 'out')!r} + str(sys.argv), 'wb').write(bytes(3_000_000))"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {'import sys; ' + write!r}], check=True); {write}"
    parent = subprocess.Popen([sys.executable, "-c", f"{child}; print('done', flush=True); input()"], stdin=-1, stdout=-1)
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"done\n"
        written = written_by(parent.pid)
        assert written is None or 6_000_000 <= written < 7_000_000
        assert written_by(os.getpid()) is not None or written is None, "the kernel says it of both or of neither"
    finally:
        parent.communicate(b"\n", timeout=30)
    assert written_by(parent.pid) is None, "it has ended"


def test_pip_and_setuptools_are_pinned_with_hashes_in_the_lock_and_taken_from_it() -> None:
    entries = pinned((TOP / "requirements.lock").read_text(), FIRST)
    assert re.findall(r"^([\w-]+)==", entries, re.MULTILINE) == list(FIRST)
    assert entries.count("--hash=sha256:") >= 2
    assert not entries.rstrip().endswith("\\")


def test_without_compiler_or_headers_the_compilation_is_left_out_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "no-such-compiler"))
    assert "no C compiler" in str(lacking_for_native())
    monkeypatch.setenv("CC", "sh")
    assert "Python.h" in str(lacking_for_native(str(tmp_path)))
    assert "sudo apt install gcc libc6-dev python3-dev" in str(lacking_for_native(str(tmp_path)))
    (tmp_path / "Python.h").touch()
    assert lacking_for_native(str(tmp_path)) is None


def test_the_active_path_is_one_line_and_pure_python_says_what_it_costs_and_what_to_install() -> None:
    assert "C (headrace_native)" in path_in_words(True, None, is_off=False)
    pure = path_in_words(False, "sudo apt install gcc libc6-dev python3-dev (there is no C compiler)", is_off=False)
    off = path_in_words(False, None, is_off=True)
    assert "\n" not in pure + off
    assert "twice the processor time" in pure
    assert "sudo apt install gcc libc6-dev python3-dev (there is no C compiler), then make install" in pure
    assert off.endswith("HEADRACE_NATIVE=0 switches C off: unset it")
