"""The commands of README and of docs/PLATFORM.md: each is one that there is, in an order in which each finds what it needs."""

import argparse
import re
import shlex
from pathlib import Path

import pytest

from headrace.cli import main as front_door

TOP = Path(__file__).parents[3]
README, PLATFORM = (TOP / "README.md").read_text(), (TOP / "docs" / "PLATFORM.md").read_text()


def in_block(page: str) -> list[str]:
    return [line.strip().split("  #")[0].rstrip() for line in page.splitlines() if line.startswith("    headrace ")]


IN_BLOCK = {"README.md": in_block(README), "PLATFORM.md": in_block(PLATFORM)}
IN_TEXT = re.findall(r"`(headrace [a-z][^`]*)`", README + PLATFORM.split("## The broker alone")[0])
SNIPPET_TOPIC = re.findall(r'EventLogger\("([^"]+)"', README)


def parsed(line: str) -> argparse.Namespace:
    name, *words = shlex.split(line)[1:]
    command = front_door._command(name)
    parser = argparse.ArgumentParser(prog=name)
    command.configure(parser)
    return parser.parse_args(words)


def test_the_commands_are_there() -> None:
    assert len(IN_BLOCK["README.md"]) >= 6
    assert len(IN_BLOCK["PLATFORM.md"]) >= 16
    assert IN_TEXT
    assert len(SNIPPET_TOPIC) == 1


@pytest.mark.parametrize("line", [*IN_BLOCK["README.md"], *IN_BLOCK["PLATFORM.md"], *IN_TEXT])
def test_every_command_is_one_that_there_is(line: str) -> None:
    parsed(line)


@pytest.mark.parametrize("page", IN_BLOCK)
def test_each_topic_is_filled_before_it_is_asked_about(page: str) -> None:
    filled: set[str] = set()
    for line in IN_BLOCK[page]:
        words = parsed(line)
        topic = getattr(words, "topic", None)
        if line.startswith("headrace replay"):
            filled.add(words.topic)
        elif topic is not None:
            assert topic in filled, line
        elif line.startswith("headrace query"):
            assert any(f"FROM {one} " in line for one in filled), line


def test_the_application_s_events_have_a_topic_of_their_own() -> None:
    replayed = {parsed(line).topic for page in IN_BLOCK.values() for line in page if line.startswith("headrace replay")}
    assert not replayed & set(SNIPPET_TOPIC), "its schema is another: the registry would refuse it"


def test_the_rates_that_are_shown_are_of_the_topic_that_the_platform_s_consumers_count() -> None:
    table = (TOP / "deploy" / "local" / "processes.toml").read_text()
    counted = set(re.findall(r'"consumer", "run", "--topic", "([^"]+)"', table))
    assert {parsed(line).topic for line in IN_BLOCK["PLATFORM.md"] if line.startswith("headrace rates")} == counted


def test_a_stranger_finishes_it() -> None:
    assert len(README.splitlines()) <= 100


def test_every_page_of_the_docs_is_named() -> None:
    assert [page.name for page in sorted((TOP / "docs").glob("*.md")) if f"docs/{page.name}" not in README] == []
