"""Processes that end with the test, and names of topics."""

import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.support.processes import Process

Background = Callable[[Process], Process]


@pytest.fixture
def background() -> Iterator[Background]:
    """Ends the processes that it is given, in every case."""
    running: list[Process] = []

    def note(process: Process) -> Process:
        running.append(process)
        return process

    yield note
    for process in running:
        process.kill()


@pytest.fixture
def topic() -> str:
    return f"log_{uuid.uuid4().hex[:8]}"
