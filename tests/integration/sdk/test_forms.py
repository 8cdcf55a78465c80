"""Every form of event through both transports: what the logger's ledger says at the end is what the broker holds."""

import asyncio
import json
import logging
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import pytest

from headrace.client.connection.cluster import Cluster
from headrace.sdk import (
    ACCESS_LOG_SCHEMA,
    LOG_RECORD_SCHEMA,
    AuditedRequests,
    AuditedWsgiRequests,
    EventHandler,
    EventLogger,
    event_schema,
)
from tests.integration.sdk.identities import records_of
from tests.support.agent import AgentProcess
from tests.support.live_side import LiveSide
from tests.support.processes import eventually

GOOD, BAD = 50, 3


@dataclass
class Order:
    number: int
    note: str | None = None


class Click(TypedDict):
    page: str


@pytest.fixture(scope="module")
def agent(live: LiveSide, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    running = AgentProcess(tmp_path_factory.mktemp("agent"), live)
    yield running.start()
    running.process.kill()


def _log_mappings(logger: EventLogger) -> None:
    for number in range(GOOD):
        assert logger.log({"page": str(number)})
    for number in range(BAD):
        assert not logger.log({"page": number})


def _log_instances(logger: EventLogger) -> None:
    for number in range(GOOD):
        assert logger.log(Order(number))
    for number in range(BAD):
        assert not logger.log(Order(str(number)))  # type: ignore[arg-type]


def _log_records(logger: EventLogger) -> None:
    own = logging.Logger("shop")
    own.addHandler(EventHandler(logger))
    for number in range(GOOD):
        own.info("order %d", number)
    for number in range(BAD):
        own.log(2**31 + number, "a level that no int holds")


def _log_asgi(logger: EventLogger) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": scope["status"], "headers": []})

    async def nothing(message: Any) -> None: ...

    async def serve() -> None:
        audited = AuditedRequests(app, logger)
        for status in [200] * GOOD + [2**31] * BAD:
            scope = {"type": "http", "method": "GET", "path": "/", "status": status}
            await audited(scope, None, nothing)  # type: ignore[arg-type]

    asyncio.run(serve())


def _log_wsgi(logger: EventLogger) -> None:
    audited = AuditedWsgiRequests(lambda environ, start: start("200 OK", []) and [b"hello"], logger)  # type: ignore[arg-type, func-returns-value]
    for user in ["ann"] * GOOD + [7] * BAD:
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "REMOTE_USER": user}
        audited(environ, lambda status, headers: [].append or True).close()  # type: ignore[attr-defined]


async def _log_awaited(logger: EventLogger) -> None:
    for number in range(GOOD):
        assert await logger.alog({"page": str(number)})
    for number in range(BAD):
        assert not await logger.alog({"page": number})


CLICK = event_schema("Click", [{"name": "page", "type": "string"}])
FORMS: dict[str, tuple[Any, Callable[[EventLogger], None]]] = {
    "mapping": (CLICK, _log_mappings),
    "dataclass": (Order, _log_instances),
    "typed dict": (Click, _log_mappings),
    "log record": (LOG_RECORD_SCHEMA, _log_records),
    "asgi": (ACCESS_LOG_SCHEMA, _log_asgi),
    "wsgi": (ACCESS_LOG_SCHEMA, _log_wsgi),
    "awaited": (CLICK, lambda logger: asyncio.run(_log_awaited(logger))),
}


@pytest.mark.parametrize("has_journal", [False, True], ids=["direct", "journal"])
@pytest.mark.parametrize("form", FORMS)
def test_the_ledger_at_the_end_is_what_the_broker_holds(
    form: str, has_journal: bool, live: LiveSide, cluster: Cluster, agent: AgentProcess, caplog: pytest.LogCaptureFixture
) -> None:
    described, log_all = FORMS[form]
    topic = f"forms-{uuid.uuid4().hex[:8]}"
    where: dict[str, Any] = {"bootstrap": live.bootstrap, "registry_url": live.registry_url}
    if has_journal:
        where = {"journal": Path(agent.journals)}
    with caplog.at_level(logging.INFO), EventLogger(topic, described, application="shop", **where) as logger:
        log_all(logger)
    ledger = logger.ledger()
    stored = ledger.journaled if has_journal else ledger.acknowledged
    assert (ledger.taken, stored, ledger.quarantined, dict(ledger.dropped)) == (GOOD, GOOD, BAD, {})
    (line,) = [one.getMessage() for one in caplog.records if one.getMessage().startswith("logger_closed")]
    assert f"taken={GOOD}" in line
    assert f"quarantined={BAD}" in line
    if has_journal:
        eventually(lambda: not _journals_of(agent, topic), within_ms=60_000, what="the agent has shipped and told all")
    assert len(records_of(cluster, topic)) == GOOD
    assert len(records_of(cluster, f"{topic}.quarantine")) == BAD


def _journals_of(agent: AgentProcess, topic: str) -> list[Path]:
    heads = agent.journals.glob("*/*/journal.json")
    return [head for head in heads if json.loads(head.read_text())["topic"] == topic]
