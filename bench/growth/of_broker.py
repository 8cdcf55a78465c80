"""What topics cost a broker: their creation and deletion, and a fetch of partitions without news, with and without a session."""

import time
from collections.abc import Callable

from headrace.client.connection.connection import Connection
from headrace.client.connection.control_plane import ask, ask_create_topics
from headrace.client.fetch.fetch_session import NO_SESSION, Asked, FetchSession
from headrace.wire.messages import fetch

from ..harness.child import BenchFault
from ..harness.proc_meters import cpu_s
from .world import World

CHURN = 1_000
"""Topics that are created and deleted."""
ASKED_AT_ONCE = 250
DELETE_TOPICS = (20, 4)
FETCHES = 20
MOST_PARTITIONS = 15_000
"""Of the fetch that is measured: a request takes 20,000."""


def churn(world: World, topics: int, rest_s: float) -> dict[str, float]:
    """Create and delete topics of one partition at the live broker, beside those that are there."""
    names = [f"churn-{number:04}" for number in range(CHURN)]
    broker = world.live.broker.pid
    figures: dict[str, float] = {}
    for what, do in (("created", _create), ("deleted", _delete)):
        before_s, began = cpu_s([broker]), time.monotonic()
        for at in range(0, CHURN, ASKED_AT_ONCE):
            do(world, names[at : at + ASKED_AT_ONCE])
        figures[what] = time.monotonic() - began
        figures[f"{what}, broker's processor time"] = cpu_s([broker]) - before_s
    return figures


def _create(world: World, names: list[str]) -> None:
    answers = ask_create_topics(world.source.controller(), [(name, 1, 1, {}) for name in names], timeout_ms=30_000)
    refused = [name for name, why in answers.items() if why[0]]
    if refused:
        raise BenchFault(f"{len(refused)} topics were not created: {refused[0]}: {answers[refused[0]]}")


def _delete(world: World, names: list[str]) -> None:
    answer = ask(world.source.controller(), DELETE_TOPICS, {"topic_names": names, "timeout_ms": 30_000})
    refused = [one for one in answer.responses if one.error_code]
    if refused:
        raise BenchFault(f"{len(refused)} topics were not deleted: {refused[0]}")


def idle_fetches(world: World, topics: int, rest_s: float) -> dict[str, float]:
    """Fetch all partitions of the live cluster at their ends, once without a session and once in one."""
    ends = dict(list(world.ends(world.source).items())[:MOST_PARTITIONS])
    connection = Connection(*_address(world.live.bootstrap), client_id="bench-growth")
    session = FetchSession()
    for name, offset in ends.items():
        session.put(name, offset)

    def whole() -> Asked:
        everything = FetchSession()
        for name, offset in ends.items():
            everything.put(name, offset)
        return everything.ask(1 << 20)._replace(session_id=0, session_epoch=NO_SESSION)

    def in_session() -> Asked:
        return session.ask(1 << 20)

    try:
        figures = {"partitions": float(len(ends))}
        if len(ends) < 2:
            return figures
        session.answered(_fetch(connection, in_session())[2])
        for what, next_of in (("without a session", whole), ("in a session", in_session)):
            figures |= {f"{what}, {name}": figure for name, figure in _fetches(world, connection, session, next_of).items()}
    finally:
        connection.close()
    return figures


def _fetches(world: World, connection: Connection, session: FetchSession, next_of: Callable[[], Asked]) -> dict[str, float]:
    before_s, client_s, total_bytes = cpu_s([world.live.broker.pid]), time.thread_time(), 0
    for _ in range(FETCHES):
        sent, received, session_id = _fetch(connection, next_of())
        total_bytes += sent + received
        if session_id:
            session.answered(session_id)
    return {
        "bytes": total_bytes / FETCHES,
        "broker": 1_000 * (cpu_s([world.live.broker.pid]) - before_s) / FETCHES,
        "client": 1_000 * (time.thread_time() - client_s) / FETCHES,
    }


def _fetch(connection: Connection, asked: Asked) -> tuple[int, int, int]:
    """Return the bytes sent and received, and the session's id."""
    request = fetch.FetchRequest(
        0, 1, 1 << 20, asked.topics, session_id=asked.session_id, session_epoch=asked.session_epoch, forgotten=asked.forgotten
    )
    body = fetch.encode_request(fetch.MAX_VERSION, request)
    answer = connection.request(fetch.API_KEY, fetch.MAX_VERSION, body)
    return len(body), len(answer), fetch.decode_response(fetch.MAX_VERSION, answer).session_id


def _address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)
