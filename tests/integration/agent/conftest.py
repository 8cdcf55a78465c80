"""An agent, applications and an audit service beside the module's cluster; all of them end with the test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.agent import AgentProcess
from tests.support.audit_service import AuditService
from tests.support.live_side import LiveSide

AUDIT = """
[service]
discover_ms = 200
judge_every_ms = 200
[deadlines_ms]
default = 20000
[topics.default]
tiers = ["producer", "live"]
"""


@pytest.fixture
def agent(tmp_path: Path, live: LiveSide) -> Iterator[Callable[..., AgentProcess]]:
    """Makes the test's agent: `agent(topics=[…], tail=…)`, not started yet."""
    made: list[AgentProcess] = []

    def make(**settings: object) -> AgentProcess:
        made.append(AgentProcess(tmp_path / f"agent-{len(made)}", live, **settings))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.process.kill()


@pytest.fixture
def audit(tmp_path: Path, live: LiveSide) -> Iterator[AuditService]:
    service = AuditService(tmp_path / "audit", live.bootstrap, settings=AUDIT)
    service.start()
    yield service
    service.process.kill()
