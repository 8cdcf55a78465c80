"""Applications of the runbooks' tests: loggers as processes of their own, and what is stored of their events, by librdkafka and
fastavro.
"""

import io
import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from fastavro import parse_schema, schemaless_reader

from tests.support.processes import Process

from . import logging_application
from .test_runbooks import values_in
from .versions import Version

HOUR_MS = 3_600_000
_SCHEMA = parse_schema(logging_application.SCHEMA)
_FRAME_BYTES = 5
"""The magic byte and the schema's id."""


class Application:
    """A logger in a process of its own, under one version. `where`: its cluster and registry, or its journal."""

    def __init__(self, folder: Path, name: str, version: Version, *, hours_ago: int = 1, **where: str) -> None:
        """The events' times lie `hours_ago`: their windows are over, so that an agent's enrolment passes them at once."""
        self.name = name
        self._said = folder / f"{name}.said"
        self.event_time_ms = int(time.time() * 1000) - hours_ago * HOUR_MS
        words = {"topic": "orders", "application": name, "event_time_ms": self.event_time_ms, "said": str(self._said)}
        command = [sys.executable, logging_application.__file__, json.dumps({**words, **where})]
        self.process = Process(command, folder / f"{name}.log", version.environment)
        self.process.start()

    def stop(self) -> int:
        """Return how many events it logged; fail where one of them was lost by name."""
        os.kill(self.process.pid, signal.SIGTERM)
        assert self.process.wait(60_000) == 0, self.process.output()[-3000:]
        said = json.loads(self._said.read_text())
        assert said["dropped"] == {}
        return int(said["logged"])


def event_of(value: bytes) -> tuple[str, int]:
    """Return application and number of a stored event."""
    event = schemaless_reader(io.BytesIO(value[_FRAME_BYTES:]), _SCHEMA, None)
    return event["application"], event["number"]  # type: ignore[index, call-overload]


def orders(address: str) -> list[list[tuple[str, int]]]:
    """Return (application, number) of each event, by partition and in order."""
    return [[event_of(value) for value in values] for values in values_in(address, "orders")]


def has_each_once_in_order(found: list[list[tuple[str, int]]], logged: dict[str, int]) -> bool:
    for partition in found:
        for name in logged:
            mine = [number for application, number in partition if application == name]
            assert mine == sorted(mine), f"{name} is out of order"
    counts = Counter(one for partition in found for one in partition)
    assert max(counts.values(), default=1) == 1, f"doubled: {[one for one, count in counts.items() if count > 1][:5]}"
    return counts.keys() == {(name, number) for name, count in logged.items() for number in range(count)}
