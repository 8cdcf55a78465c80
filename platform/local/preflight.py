"""Finds everything that this machine lacks before anything is installed or started: one line for each fault, with its remedy.

`python3 -I platform/local/preflight.py install|up|demo|test` needs only a Python: `make` runs it first, with whatever Python the
machine has. So this file uses the standard library only, and only syntax that Python 3.8 reads. `headrace up` and `headrace demo`
call the same functions.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Iterable, Mapping, Sequence  # noqa: UP035 - read by Python 3.8, see above

CHECKOUT = Path(__file__).resolve().parents[2]
TABLE = CHECKOUT / "deploy" / "local" / "processes.toml"
LOOPBACK = "127.0.0.1"
OLDEST, NEWEST = (3, 11), (3, 13)
"""The oldest and newest Python that `requires-python` in pyproject.toml allows; `tests/unit/local/test_preflight.py` compares
the two.
"""
OLDEST_JAVA = 17
_IN_WORDS = {"headrace": "our broker", "kafka": "Apache Kafka"}
ENGINES = tuple(_IN_WORDS)
INSTALLED_BYTES = 1_600_000_000
"""The size of `.venv`."""
HOME_BYTES = 300_000_000
"""The size of a platform with a demo's events, its logs and Airflow's database."""
FRONTEND_PORT = 8000
JAVA_MS = 30_000
_PORT_IN_WORDS = re.compile(r"\{port\[(\d+)\]\}")
_PORT_OF_ENTRY = re.compile(r"^port *= *(\d+)", re.MULTILINE)
_ENGINE_OF_ENTRY = re.compile(r'^engine *= *"([^"]*)"', re.MULTILINE)
_BROKERS_OF_ENTRY = re.compile(r"^brokers *= *(\d+)", re.MULTILINE)
_NAME_OF_ENTRY = re.compile(r'^name *= *"([^"]*)"', re.MULTILINE)
_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def python_faults(version: Sequence[int], found: Iterable[str] = ()) -> list[str]:
    """Return the fault of a Python that is too old or too new. `found`: other Pythons on this machine that would do."""
    if OLDEST <= tuple(version[:2]) <= NEWEST:
        return []
    others = sorted(found)
    remedy = f"make PYTHON={others[-1]} ..." if others else "install one of these, then: make PYTHON=python3.12 ..."
    said = ".".join(str(part) for part in version[:3])
    return [f"Python {said} will not do, Headrace runs on {_dotted(OLDEST)} to {_dotted(NEWEST)}: {remedy}"]


def venv_faults() -> list[str]:
    """Return the fault of a Python that cannot create an environment with pip: Debian has that in a separate package."""
    if importlib.util.find_spec("venv") is not None and importlib.util.find_spec("ensurepip") is not None:
        return []
    return ["Python's venv module is missing: sudo apt install python3-venv"]


def java_faults(environment: Mapping[str, str]) -> list[str]:
    """Return the fault of a Java that is missing, does not run, or is too old. Checks `JAVA_HOME`'s, else the one on the path."""
    remedy = f"sudo apt install default-jre-headless, or set JAVA_HOME to a Java {OLDEST_JAVA} or newer"
    home = environment.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environment.get("PATH"))
    if program is None or not os.access(program, os.X_OK):
        return [f"Java is missing{f' at {program} (JAVA_HOME)' if home else ''}: {remedy}"]
    try:
        said = subprocess.run(
            [program, "-version"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=dict(environment),
            timeout=JAVA_MS / 1000,
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"Java at {program} does not run ({error}): {remedy}"]
    version = _JAVA_VERSION.search(said)
    if version is None:
        return [f"Java at {program} does not print its version: {remedy}"]
    if int(version.group(1)) < OLDEST_JAVA:
        return [f"Java {version.group(1)} at {program} is too old: {remedy}"]
    return []


def folder_faults(folder: Path, needed_bytes: int, remedy: str) -> list[str]:
    """Return what is wrong with a folder that must be created or written to and must hold `needed_bytes`."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        return [f"{there} is not a folder, {folder} is to be one: {remedy}"]
    if not os.access(there, os.W_OK | os.X_OK):
        return [f"{there} may not be written by user {os.getuid()}: {remedy}"]
    free = shutil.disk_usage(there).free
    if free < needed_bytes:
        return [f"{_giga(free)} GB are free at {there}, {_giga(needed_bytes)} GB are needed: make room, or {remedy}"]
    return []


def port_faults(ports: Mapping[int, str]) -> list[str]:
    """Return one fault with all loopback ports (port → its process) on which something else listens."""
    taken = [f"{port} ({name})" for port, name in sorted(ports.items()) if not is_free(port)]
    if not taken:
        return []
    return [f"something else listens on {', '.join(taken)}: end it, or move this platform with PORT_SHIFT=n"]


def program_faults(program: str, package: str) -> list[str]:
    """Return the fault of a program that is not on the path."""
    return [] if shutil.which(program) else [f"{program} is missing: sudo apt install {package}"]


def is_free(port: int) -> bool:
    """Return whether nothing listens on the loopback port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def ports_of(table: str, shift: int, engine: str = "headrace", brokers: int = 1) -> dict[int, str]:
    """Return every port of an engine's processes, shifted, with the process that listens there. `brokers`: of the live cluster.

    A port that no entry has as its `port` (a broker's metrics) belongs to the first entry that mentions it.
    """
    entries = [one for one in table.split("[[process]]")[1:] if _first(_ENGINE_OF_ENTRY, one, engine) == engine]
    entries = [one for one in entries if int(_first(_BROKERS_OF_ENTRY, one, "1")) <= brokers]
    named = [(_first(_NAME_OF_ENTRY, entry, "?"), entry) for entry in entries]
    ports: dict[int, str] = {}
    for name, entry in named:
        for port in _PORT_OF_ENTRY.findall(entry):
            ports[int(port) + shift] = name
    for name, entry in named:
        for port in _PORT_IN_WORDS.findall(entry):
            ports.setdefault(int(port) + shift, name)
    return ports


def is_running(home: Path) -> bool:
    """Return whether a supervisor holds this home's lock; then the ports in use are its own."""
    try:
        descriptor = os.open(str(home / "run" / "supervisor.lock"), os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def platform_faults(home: Path, shift: int, environment: Mapping[str, str]) -> list[str]:
    """Return what prevents a platform from starting in `home`: Java, permissions, disk space, ports, the engine. If one is
    running, return what prevents its use: it has another engine.
    """
    engine, wrong = engine_faults(home, environment)
    brokers, too = brokers_faults(home, environment, engine)
    wrong += too
    if is_running(home):
        return wrong
    table = Path(environment.get("HEADRACE_PROCESS_TABLE") or TABLE)
    ports = ports_of(table.read_text(encoding="utf-8"), shift, engine, brokers) if table.exists() else {}
    remedy = "name another folder with HEADRACE_HOME=..."
    lacking = [*wrong, *java_faults(environment), *folder_faults(home, HOME_BYTES, remedy)]
    return [*lacking, *(kafka_faults(environment) if engine == "kafka" else []), *port_faults(ports)]


def engine_faults(home: Path, environment: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the engine of a platform in `home`, and what is wrong with it: unknown, or another one than the home's.

    A home keeps its engine, so `make down` alone does not help: the other engine needs another home.
    """
    try:
        made_with = (home / "engine").read_text(encoding="utf-8").strip()
    except OSError:
        made_with = ""
    engine = environment.get("HEADRACE_ENGINE") or made_with or ENGINES[0]
    if engine not in ENGINES:
        return engine, [f"ENGINE={engine} is not an engine: {' or '.join(ENGINES)}"]
    if made_with and made_with != engine:
        other = "name another folder with HEADRACE_HOME=..."
        if not is_running(home):
            held = f"{home} (HEADRACE_HOME) holds the data of a platform with ENGINE={made_with}"
            return engine, [f"{held}, ENGINE={engine} cannot read it: {other}, or use ENGINE={made_with}"]
        runs = f"a platform with ENGINE={made_with} ({_IN_WORDS.get(made_with, 'unknown')}) is running in {home} (HEADRACE_HOME)"
        remedy = f"run `make down` first and {other}, or run both: HEADRACE_HOME=... and PORT_SHIFT=10000"
        return engine, [f"{runs}, ENGINE={engine} ({_IN_WORDS[engine]}) cannot use it: {remedy}"]
    return engine, []


def brokers_faults(home: Path, environment: Mapping[str, str], engine: str) -> tuple[int, list[str]]:
    """Return how many brokers the live cluster of a platform in `home` has, and what is wrong with that number."""
    try:
        made_with = (home / "brokers").read_text(encoding="utf-8").strip() or "1"
    except OSError:
        made_with = "1"
    asked = environment.get("HEADRACE_BROKERS") or made_with
    if asked not in ("1", "2", "3"):
        return 1, [f"BROKERS={asked} is not a number of brokers from 1 to 3"]
    if engine != ENGINES[0] and asked != "1":
        return 1, [f"BROKERS={asked} is for our own broker, and the engine is {engine}: leave BROKERS away"]
    if int(asked) < int(made_with):
        why = "the replicas of the others would be missing"
        return int(made_with), [f"{home} (HEADRACE_HOME) has {made_with} live brokers, and {why}: leave BROKERS away"]
    if int(asked) > int(made_with) and is_running(home):
        return int(asked), [
            f"a platform with {made_with} live brokers is running in {home} (HEADRACE_HOME): run `make down` first"
        ]
    return int(asked), []


def kafka_faults(environment: Mapping[str, str]) -> list[str]:
    """Return what prevents Apache Kafka from being run: its jars are not here and cannot be fetched."""
    home = environment.get("KAFKA_HOME")
    if home:
        if any((Path(home) / "libs").glob("kafka_2.*.jar")):
            return []
        return [f"KAFKA_HOME={home} is not an Apache Kafka, there is no libs/kafka_2.*.jar: name the folder it was unpacked into"]
    caches = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(environment.get("HEADRACE_BENCH_CACHE") or caches / "headrace-bench")
    if any(cache.glob("kafka-*/complete")) or shutil.which("mvn", path=environment.get("PATH")):
        return []
    remedy = "sudo apt install maven, or name an unpacked Apache Kafka with KAFKA_HOME"
    return [f"Apache Kafka's jars are not in {cache}, and there is no Maven to fetch them: {remedy}"]


def installing_faults(environment: Mapping[str, str]) -> list[str]:
    """Return what prevents `make` from building `.venv`; empty once it is built."""
    if (CHECKOUT / ".venv" / ".installed").exists():
        return []
    found = [name for name in _candidates() if shutil.which(name, path=environment.get("PATH"))]
    faults = python_faults(sys.version_info[:3], found) or venv_faults()
    return [*faults, *folder_faults(CHECKOUT / ".venv", INSTALLED_BYTES, "clone the repository to another folder")]


def faults_before(what: str, environment: Mapping[str, str]) -> list[str]:
    """Return all that prevents `make install|up|demo|test` on this machine."""
    faults = installing_faults(environment)
    if what in ("install", "test"):
        faults += java_faults(environment)
    if what == "test":
        faults += program_faults("kcat", "kcat")
    if what in ("up", "demo"):
        shift, wrong = _shift(environment)
        home = Path(environment.get("HEADRACE_HOME") or CHECKOUT / ".headrace")
        faults += wrong or platform_faults(home, shift, environment)
        if what == "demo" and not environment.get("LOG") and not wrong:
            faults += port_faults({FRONTEND_PORT + shift: "the sample frontend"})
    return faults


def in_lines(faults: Sequence[str]) -> str:
    """Return the faults as one message: a single one unchanged, several with a line each."""
    return faults[0] if len(faults) == 1 else "".join(f"\n  {fault}" for fault in faults)


def _shift(environment: Mapping[str, str]) -> tuple[int, list[str]]:
    words = environment.get("PORT_SHIFT") or "0"
    if words.isdigit() and int(words) <= 50_000:
        return int(words), []
    return 0, [f"PORT_SHIFT={words} is not a whole number from 0 to 50000: unset it or give one"]


def _candidates() -> list[str]:
    return [f"python3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]


def _first(pattern: re.Pattern[str], text: str, otherwise: str) -> str:
    found = pattern.search(text)
    return otherwise if found is None else str(found.group(1))


def _dotted(version: Sequence[int]) -> str:
    return ".".join(str(part) for part in version)


def _giga(count: int) -> str:
    return f"{count / 1e9:.1f}"


def main() -> int:
    """Print what is lacking, one fault a line, and return 1; if nothing is, print nothing and return 0."""
    faults = faults_before(sys.argv[1] if len(sys.argv) > 1 else "install", os.environ)
    for fault in faults:
        sys.stderr.write(f"headrace: {fault}\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
