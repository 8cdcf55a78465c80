"""The log of an application without its own logging setup while the cluster is away: the address and the reason once, and one
line when the cluster is back.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from headrace.client.connection.cluster import Cluster
from tests.support.live_side import LiveSide
from tests.support.processes import eventually

APPLICATION = """
import sys
from headrace.sdk import EventLogger, event_schema

schema = event_schema("Click", [{"name": "path", "type": "string"}])
bootstrap, registry, topic = sys.argv[1:]
logger = EventLogger(topic, schema, bootstrap=bootstrap, registry_url=registry, application="shop")
for line in sys.stdin:
    logger.log({"path": line.strip()})
logger.close()
"""


class Application:
    """A process that logs one event for each line it is given."""

    def __init__(self, folder: Path, live: LiveSide, topic: str) -> None:
        self._errors = folder / "stderr"
        words = [sys.executable, "-c", APPLICATION, live.bootstrap, live.registry_url, topic]
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=errors, text=True)

    def log(self, path: str) -> None:
        pipe: IO[str] | None = self.process.stdin
        assert pipe is not None
        pipe.write(f"{path}\n")
        pipe.flush()

    def said(self) -> list[str]:
        assert self.process.poll() in (None, 0), self._errors.read_text()
        return self._errors.read_text().splitlines()

    def lines(self, event: str) -> list[str]:
        return [line for line in self.said() if line.startswith(event)]


@pytest.fixture
def broker_away(live: LiveSide) -> Iterator[None]:
    """The broker runs again after the block, in every case."""
    yield
    if not live.broker.process.is_running():
        live.broker.restart()


@pytest.fixture
def application(tmp_path: Path, live: LiveSide) -> Iterator[Application]:
    made = Application(tmp_path, live, "outage")
    yield made
    made.process.kill()
    made.process.wait()


def test_a_broker_that_goes_and_comes_is_told_twice_with_address_and_reason(
    live: LiveSide, broker_away: None, application: Application, cluster: Cluster
) -> None:
    application.log("/before")
    eventually(lambda: "outage" in cluster.topics(), what="the first event's topic")
    live.broker.kill()
    application.log("/meanwhile")
    (waits,) = eventually(lambda: application.lines("logger_waits"), within_ms=30_000, what="the outage told")
    assert f"waits_for=the cluster at {live.bootstrap}" in waits
    assert f"broker {live.bootstrap} failed: " in waits
    live.broker.restart()
    eventually(lambda: application.lines("logger_goes_on"), within_ms=30_000, what="its end told")
    application.log("/after")
    application.process.communicate(timeout=60)
    assert application.process.returncode == 0, application.said()
    said = [line.split()[0] for line in application.said()]
    assert said == ["sigterm_ends_loggers_unsealed", "logger_waits", "logger_goes_on"]
