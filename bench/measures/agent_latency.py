"""How long an event takes from a journal to a consumer, at 1,000 a second: application, agent and broker on this machine.

An event carries the moment before `log`; librdkafka reads it. The flushes of the disk are part of it: the agent commits its plan
before it sends. One small flush alone is measured beside it.
"""

import os
import shutil
import statistics
import threading
import time
from io import BytesIO
from pathlib import Path

import fastavro
from confluent_kafka import Consumer, Message

from headrace.sdk import EventLogger, event_schema

from ..harness.child import BenchFault
from ..harness.measure import Case, Figures
from ..peers import kafka_clients
from ..peers.agent import Agent as AgentProcess
from ..peers.headrace import Headrace
from ..peers.registry import Registry

A_SECOND = 1_000
_EVENTS = 10_000
_FIRST = 2_000
"""Not counted: a scan finds the journal within a second, and the agent asks for its topic and its schema."""
_LONGEST_S = 120
_FLUSHES = 200
SCHEMA = event_schema("Sent", [{"name": "at_ns", "type": "long"}])
_PARSED = fastavro.parse_schema(SCHEMA)


def latency(server: Headrace, registry: Registry, folder: Path) -> Case:
    """Return the case: p50 and p99 from `log` to a consumer, and the agent's share of a core meanwhile."""

    def run(turn: int) -> Figures:
        topic = f"agent-latency-{turn}"
        kafka_clients.make_topic(server, topic)
        where = folder / topic
        journals = where / "journals"
        journals.mkdir(parents=True)
        agent = AgentProcess(
            where / "agent", journals=journals, bootstrap=server.bootstrap, registry_url=registry.url, topic=topic
        )
        agent.start()
        try:
            began, cpu_s = time.monotonic(), agent.cpu_s()
            found = _delays_ms(server, topic, journals)
            share = 100 * (agent.cpu_s() - cpu_s) / (time.monotonic() - began)
        finally:
            agent.stop()
            shutil.rmtree(where, ignore_errors=True)
        counted = sorted(found[_FIRST:])
        return {
            "p50_ms": statistics.median(counted),
            "p99_ms": counted[len(counted) * 99 // 100],
            "core_share_percent": share,
            "flush_ms": _flush_ms(folder),
        }

    return Case(subject="headrace agent", shape="journal to consumer", run=run)


def _delays_ms(server: Headrace, topic: str, journals: Path) -> list[float]:
    """Return how long each event took, in the order of arrival."""
    found: list[float] = []
    is_over = threading.Event()

    def consume() -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": server.bootstrap,
                "group.id": topic,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 500,
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([topic])
        try:
            while len(found) < _EVENTS and not is_over.is_set():
                message: Message | None = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    found.append((time.monotonic_ns() - _sent_ns(message.value())) / 1e6)
        finally:
            consumer.close()

    reader = threading.Thread(target=consume, daemon=True)
    reader.start()
    try:
        with EventLogger(topic, SCHEMA, journal=journals, application="latency") as logger:
            due = time.monotonic()
            for _ in range(_EVENTS):
                time.sleep(max(0.0, due - time.monotonic()))
                logger.log({"at_ns": time.monotonic_ns()})
                due += 1 / A_SECOND
            reader.join(_LONGEST_S)
    finally:
        is_over.set()
    if len(found) < _EVENTS:
        raise BenchFault(f"{len(found)} of {_EVENTS} events arrived within {_LONGEST_S} s")
    return found


def _sent_ns(value: bytes | None) -> int:
    """Return the moment in an event, which is behind an envelope of five bytes."""
    event = fastavro.schemaless_reader(BytesIO((value or b"")[5:]), _PARSED, None)
    assert isinstance(event, dict)
    return int(event["at_ns"])


def _flush_ms(folder: Path) -> float:
    """Return what a small flush of this disk takes, the median."""
    path = folder / "flush"
    took = []
    with path.open("wb", buffering=0) as file:
        for _ in range(_FLUSHES):
            file.write(bytes(4_096))
            began = time.monotonic_ns()
            os.fdatasync(file.fileno())
            took.append((time.monotonic_ns() - began) / 1e6)
    path.unlink()
    return statistics.median(took)
