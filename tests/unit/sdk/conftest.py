"""A scripted broker, a scripted registry, and loggers on them that end with the test."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.sdk import EventLogger, event_logger
from tests.support.scripted_broker import ScriptedBroker
from tests.unit.sdk.logged import SCHEMA, WINDOW_MS, Make
from tests.unit.sdk.scripted_registry import ScriptedRegistry


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    made = ScriptedBroker({"clicks": 2, "clicks.quarantine": 1})
    yield made
    made.close()


@pytest.fixture
def registry() -> Iterator[ScriptedRegistry]:
    made = ScriptedRegistry()
    yield made
    made.close()


@pytest.fixture
def make(broker: ScriptedBroker, registry: ScriptedRegistry, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.setattr(event_logger, "WINDOW_MS", WINDOW_MS)
    made: list[EventLogger] = []

    def make(**changes: Any) -> EventLogger:
        settings: dict[str, Any] = {
            "bootstrap": broker.address,
            "registry_url": registry.url,
            "application": "shop",
            "server_name": "web-1",
            "report_every_ms": 20,
            "linger_ms": 1,
            "start_timeout_ms": 10_000,
            **changes,
        }
        made.append(EventLogger("clicks", settings.pop("schema", SCHEMA), **settings))
        return made[-1]

    yield make
    for logger in made:
        logger.close(timeout_ms=0)
