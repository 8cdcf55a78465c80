"""README, from top to bottom: its commands and snippets in their order, on an empty home and shifted ports."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.access_logs import generate, window_counts
from tests.support.platform import Platform, free_shift
from tests.support.processes import Process, eventually

README = (Path(__file__).parents[2] / "README.md").read_text()
BLOCK = re.compile(r"(?:^    .*\n(?:\n(?=    ))?)+", re.MULTILINE)
BLOCKS = [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in BLOCK.findall(README)]
PICTURE, MAKE, LOGGING, READING, WALK = BLOCKS
COMMANDS = [line.split("  #")[0].strip() for line in WALK.splitlines()]
LINES = 2_000
NOISE = re.compile(r"SLF4J|log4j|WARN |Setting .*log level|Using Spark's|Traceback|^\d\d/\d\d/\d\d ", re.MULTILINE)
"""Banners of Java and Spark. One stays: the JVM's line about the module jdk.incubator.vector, which no option turns off."""

Said = Mapping[str, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("log") / "access.log", lines=LINES, hours=6, seed=7)


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory, log: Path) -> Iterator[Said]:
    """What each command printed, by its first two words after `headrace`; `log` and `read` are the snippets."""
    folder = tmp_path_factory.mktemp("readme")
    platform = Platform(folder / "home", free_shift())
    environment = {**os.environ, **platform.environment, "COLUMNS": "200"}
    said: dict[str, subprocess.CompletedProcess[str]] = {}

    def run(name: str, command: list[str]) -> None:
        said[name] = subprocess.run(
            command, cwd=log.parent, env=environment, capture_output=True, text=True, timeout=900, check=False
        )

    def here(snippet: str) -> list[str]:
        layout = platform.layout
        for there, ours in (("localhost:9092", layout.live_bootstrap), ("http://localhost:8081", layout.registry_url)):
            assert there in snippet
            snippet = snippet.replace(there, ours)
        return [sys.executable, "-uc", snippet]

    try:
        run("demo", platform.command("demo"))  # what `make demo` runs
        run("up", platform.command("up"))
        run("log", here(LOGGING))
        reader = Process(here(LOGGING[: LOGGING.index("with EventLogger")] + READING), folder / "reader.log")
        reader.start()
        try:
            eventually(lambda: "/\n" in reader.output(), what="the event that was logged", within_ms=60_000)
        finally:
            said["read"] = subprocess.CompletedProcess("read", reader.stop(), reader.output(), "")
        for line in COMMANDS:
            words = shlex.split(line)[1:]
            run(" ".join(words[:2]), platform.command(*words))
        yield said
    finally:
        platform.down()


def test_the_blocks_of_the_page_are_those_that_are_run() -> None:
    assert "applications" in PICTURE
    assert "apt install" in MAKE
    assert re.findall(r"^make (\S+)", MAKE, re.MULTILINE) == ["install", "demo", "up"]
    assert len(COMMANDS) >= 6
    assert all(line.startswith("headrace ") for line in COMMANDS)


def test_each_step_succeeds_and_prints_only_what_is_its_own(walked: Said) -> None:
    for name, done in walked.items():
        assert done.returncode == 0, (name, done.stdout[-2_000:], done.stderr[-2_000:])
        assert NOISE.search(done.stdout + done.stderr) is None, (name, done.stdout, done.stderr)


def test_the_walk_ends_with_every_window_proven_and_the_lost_record_named(walked: Said, log: Path) -> None:
    assert f"{LINES} sent" in walked["replay access.log"].stdout
    phases = [line.split(":")[0] for line in walked["load access_log"].stdout.splitlines()]
    assert (phases.count("load"), phases.count("count"), phases[2]) == (1, 1, "publish"), phases
    assert walked["audit report"].stdout.count(" COMPLETE") >= len(window_counts(log))
    drill = walked["audit drill"].stdout
    assert re.search(r"held  .*INCOMPLETE at offline: 1 record missing: partition 0, offset \d+", drill), drill
