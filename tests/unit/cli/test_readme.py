"""README's first commands: each is one that there is, in an order in which each finds what it needs."""

import argparse
import re
import shlex
from pathlib import Path

import pytest

from headrace.cli import main as front_door

README = Path(__file__).parents[3] / "README.md"
PART = README.read_text().split("Then, with `.venv/bin` on the path:")[1].split("## What it is not")[0]
IN_BLOCK = [line.strip().split("  #")[0].rstrip() for line in PART.splitlines() if line.startswith("    headrace ")]
IN_TEXT = re.findall(r"`(headrace [^`]*)`", PART)
SNIPPET_TOPIC = re.findall(r'EventLogger\("([^"]+)"', PART)


def parsed(line: str) -> argparse.Namespace:
    name, *words = shlex.split(line)[1:]
    command = front_door._command(name)
    parser = argparse.ArgumentParser(prog=name)
    command.configure(parser)
    return parser.parse_args(words)


def test_the_part_is_there() -> None:
    assert len(IN_BLOCK) >= 8
    assert IN_TEXT
    assert len(SNIPPET_TOPIC) == 1


@pytest.mark.parametrize("line", [*IN_BLOCK, *IN_TEXT])
def test_every_command_is_one_that_there_is(line: str) -> None:
    parsed(line)


def test_each_topic_is_filled_before_it_is_asked_about() -> None:
    filled: set[str] = set()
    for line in IN_BLOCK:
        words = parsed(line)
        topic = getattr(words, "topic", None)
        if line.startswith("headrace replay"):
            filled.add(words.topic)
        elif topic is not None:
            assert topic in filled, line
        elif line.startswith("headrace query"):
            assert any(f"FROM {one} " in line for one in filled), line


def test_the_application_s_events_have_a_topic_of_their_own() -> None:
    replayed = {parsed(line).topic for line in IN_BLOCK if line.startswith("headrace replay")}
    assert not replayed & set(SNIPPET_TOPIC), "its schema is another: the registry would refuse it"


def test_the_rates_that_are_shown_are_of_the_topic_that_the_platform_s_consumers_count() -> None:
    table = (README.parent / "deploy" / "local" / "processes.toml").read_text()
    counted = set(re.findall(r'"consumer", "run", "--topic", "([^"]+)"', table))
    assert {parsed(line).topic for line in IN_BLOCK if line.startswith("headrace rates")} == counted
