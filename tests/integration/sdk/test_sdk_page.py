"""Every code block of docs/SDK.md is run as it stands, but for addresses and folders, against a real cluster."""

import itertools
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.client.connection.cluster import Cluster
from tests.integration.sdk.identities import records_of
from tests.support.live_side import LiveSide
from tests.support.processes import Process, eventually

PAGE = Path(__file__).parents[3] / "docs" / "SDK.md"
JOURNALS, STATE = "/var/lib/headrace/journals", "/var/lib/headrace/agent"
MOST_FIRST_LINES = 40


@dataclass(frozen=True)
class Block:
    kind: str
    text: str
    heading: str
    output: str | None
    """What the page says it prints; None: it does not say."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.heading}"


def _blocks() -> list[Block]:
    found: list[Block] = []
    heading = ""
    for match in re.finditer(r"^#+ ([^\n]*)$|^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S):
        if match[1] is not None:
            heading = match[1]
        elif match[2] == "text":
            found[-1] = Block(found[-1].kind, found[-1].text, heading, match[3])
        else:
            found.append(Block(match[2], match[3], heading, None))
    return found


BLOCKS = _blocks()
PYTHON = [block for block in BLOCKS if block.kind == "python"]


def _here(text: str, live: LiveSide, folder: Path) -> str:
    for there, here in {
        "localhost:9092": live.bootstrap,
        "http://localhost:8081": live.registry_url,
        JOURNALS: str(folder / "journals"),
        STATE: str(folder / "agent"),
    }.items():
        text = text.replace(there, here)
    return text


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_an_example_runs_and_prints_what_the_page_says(block: Block, live: LiveSide, tmp_path: Path) -> None:
    program = _here(block.text, live, tmp_path)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    if block.output is not None:
        assert done.stdout == block.output


def test_the_agent_of_the_page_ships_the_journal_of_the_page(live: LiveSide, cluster: Cluster, tmp_path: Path) -> None:
    (journaled,) = [block for block in PYTHON if "journal=" in block.text]
    (settings,) = [block for block in BLOCKS if block.kind == "toml"]
    (command,) = [block for block in BLOCKS if block.kind == "sh"]
    (tmp_path / "agent.toml").write_text(_here(settings.text, live, tmp_path))
    subprocess.run([sys.executable, "-c", _here(journaled.text, live, tmp_path)], check=True, timeout=60)
    before = len(records_of(cluster, "clicks"))
    program, *words = command.text.split()
    assert program == "headrace"
    words = [str(tmp_path / word) if word.endswith(".toml") else word for word in words]
    agent = Process([sys.executable, "-m", "headrace.cli.main", *words], tmp_path / "log").start()
    try:
        eventually(lambda: len(records_of(cluster, "clicks")) > before, what="the journaled event is in the topic")
        assert agent.stop() == 0, agent.output()
    finally:
        agent.kill()


def test_every_block_of_the_page_is_run_here() -> None:
    assert {block.kind for block in BLOCKS} == {"python", "toml", "sh"}
    assert len(PYTHON) >= 7


def test_a_first_use_has_forty_lines() -> None:
    assert len([line for line in PYTHON[0].text.splitlines() if line.strip()]) <= MOST_FIRST_LINES


def test_what_the_readme_logs_its_reader_handles(live: LiveSide, tmp_path: Path) -> None:
    page = (PAGE.parents[1] / "README.md").read_text()
    logging, reading = (_block_after(page, title) for title in ("## Log events", "## Read events"))
    assert "EventLogger(" in logging
    subprocess.run([sys.executable, "-c", _here(logging, live, tmp_path)], check=True, timeout=60)
    click = logging[: logging.index("with EventLogger")]
    reader = Process([sys.executable, "-uc", _here(click + reading, live, tmp_path)], tmp_path / "reader.log")
    reader.start()
    eventually(lambda: "/\n" in reader.output(), what=f"the event that was logged; {reader.output()}")
    assert reader.stop() == 0, reader.output()


def _block_after(page: str, title: str) -> str:
    """Return the first indented block behind a title, without its indent."""
    lines = itertools.dropwhile(lambda one: not one.startswith("    "), page.partition(title)[2].splitlines())
    block = itertools.takewhile(lambda one: not one or one.startswith("    "), lines)
    return "\n".join(line.removeprefix("    ") for line in block)
