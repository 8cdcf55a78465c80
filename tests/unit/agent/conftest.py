"""A live cluster in this process, with an agent's folder beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.agent.audit_reports import audit_reports
from tests.support.serving_broker import ServingBroker

from .world import World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(audit_reports, "BEAT_MS", 500)
    with ServingBroker(tmp_path / "live", topics={"clicks": 2}) as broker:
        yield World(tmp_path, broker)
