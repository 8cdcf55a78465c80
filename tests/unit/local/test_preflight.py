"""Preflight: each fault is one line with its remedy, all at once; nothing is said where nothing is lacking."""

import ast
import fcntl
import os
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from headrace.local import preflight
from tests.support.processes import free_port

TOP = Path(__file__).resolve().parents[3]
SCRIPT = TOP / "platform" / "local" / "preflight.py"


def java(folder: Path, said: str) -> dict[str, str]:
    """Return an environment whose Java says this of its version, on stderr as Java does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(folder), "PATH": os.defpath}


def test_a_python_3_8_can_read_the_script() -> None:
    ast.parse(SCRIPT.read_text(), feature_version=(3, 8))


def test_the_script_runs_by_itself_without_what_is_installed_here() -> None:
    environment = {"PATH": os.environ["PATH"], "JAVA_HOME": os.environ.get("JAVA_HOME", "")}
    done = subprocess.run([sys.executable, "-I", "-S", str(SCRIPT), "install"], env=environment, capture_output=True, timeout=60)
    assert b"Traceback" not in done.stderr
    assert done.returncode in (0, 1)


def test_the_pythons_are_those_of_pyproject() -> None:
    wanted = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["requires-python"]
    oldest, newest = preflight.OLDEST, preflight.NEWEST
    assert wanted == f">={oldest[0]}.{oldest[1]},<{newest[0]}.{newest[1] + 1}"


@pytest.mark.parametrize("version", [(3, 8, 10), (3, 10, 14), (3, 14, 0)])
def test_a_python_that_will_not_do_is_told_with_one_that_would(version: tuple[int, ...]) -> None:
    (fault,) = preflight.python_faults(version, ["python3.12", "python3.11"])
    assert "3.11 to 3.13" in fault
    assert "make PYTHON=python3.12" in fault
    (alone,) = preflight.python_faults(version)
    assert "install one" in alone


@pytest.mark.parametrize("version", [(3, 11, 2), (3, 12, 0), (3, 13, 5)])
def test_a_python_that_will_do_is_no_fault(version: tuple[int, ...]) -> None:
    assert preflight.python_faults(version) == []


def test_without_java_the_package_is_named(tmp_path: Path) -> None:
    (fault,) = preflight.java_faults({"PATH": str(tmp_path)})
    assert "sudo apt install default-jre-headless" in fault
    (named,) = preflight.java_faults({"JAVA_HOME": str(tmp_path)})
    assert f"{tmp_path}/bin/java (JAVA_HOME)" in named


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ('openjdk version "17.0.15" 2025-04-15', None),
        ('openjdk version "21" 2023-09-19', None),
        ('java version "1.8.0_392"', "Java 8"),
        ('openjdk version "11.0.2" 2019-01-15', "Java 11"),
        ("no words of a version", "does not print its version"),
    ],
)
def test_java_must_be_17_or_newer(tmp_path: Path, said: str, fault: str | None) -> None:
    faults = preflight.java_faults(java(tmp_path, said))
    assert [fault in one for one in faults] == [True] if fault else faults == []


def test_a_folder_too_full_or_not_a_folder_is_told(tmp_path: Path) -> None:
    assert preflight.folder_faults(tmp_path / "not" / "yet", 1, "move") == []
    (full,) = preflight.folder_faults(tmp_path / "not" / "yet", 1 << 60, "move")
    assert "GB are free" in full
    assert full.endswith("or move")
    (tmp_path / "file").touch()
    (file,) = preflight.folder_faults(tmp_path / "file" / "in", 1, "move")
    assert "not a folder" in file


def test_a_folder_that_may_not_be_written_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    (fault,) = preflight.folder_faults(tmp_path / "home", 1, "name another folder")
    assert f"{tmp_path} may not be written" in fault
    assert fault.endswith("name another folder")


def test_every_taken_port_is_named_in_one_line_with_its_owner() -> None:
    with socket.socket() as one, socket.socket() as other:
        for taken in (one, other):
            taken.bind(("127.0.0.1", 0))
            taken.listen()
        first, second = sorted((one.getsockname()[1], other.getsockname()[1]))
        (fault,) = preflight.port_faults({first: "audit", second: "registry", free_port(): "mirror"})
    assert f"{first} (audit), {second} (registry)" in fault
    assert "mirror" not in fault
    assert "PORT_SHIFT" in fault


def test_the_ports_of_the_table_are_those_that_the_readme_lists_shifted() -> None:
    ports = preflight.ports_of(preflight.TABLE.read_text(), 1_000)
    listed = (2181, 2182, 8080, 8081, 8088, 8090, 9092, 9094, 9095, 9097, 9098, 9099, 9192, 9194)
    assert ports.keys() == {port + 1_000 for port in listed}
    assert ports[10_094] == "broker-live", "a broker's metrics belong to the broker"
    assert ports[3_181] == "zookeeper-live", "and not to whom reads from there"


def test_faults_come_all_at_once(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        table = tmp_path / "table.toml"
        table.write_text(f'[[process]]\nname = "audit"\nport = {taken.getsockname()[1]}\n')
        environment = {"PATH": str(tmp_path), "HEADRACE_PROCESS_TABLE": str(table)}
        faults = preflight.platform_faults(tmp_path / "file" / "home", 0, environment)
        assert len(faults) == 2
        (tmp_path / "file").touch()
        assert len(preflight.platform_faults(tmp_path / "file" / "home", 0, environment)) == 3


def test_a_home_whose_supervisor_runs_lacks_nothing(tmp_path: Path) -> None:
    lock = tmp_path / "run" / "supervisor.lock"
    lock.parent.mkdir()
    assert not preflight.is_running(tmp_path)
    with lock.open("w") as held:
        assert not preflight.is_running(tmp_path)
        fcntl.flock(held, fcntl.LOCK_EX)
        assert preflight.is_running(tmp_path)
        assert preflight.platform_faults(tmp_path, 0, {"PATH": ""}) == []


def test_a_port_shift_that_is_no_number_is_a_fault_among_the_others() -> None:
    faults = preflight.faults_before("demo", {"PATH": os.environ["PATH"], "PORT_SHIFT": "x", "LOG": "here"})
    assert [fault for fault in faults if "PORT_SHIFT=x" in fault]
