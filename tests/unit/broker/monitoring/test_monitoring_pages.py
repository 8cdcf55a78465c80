"""The pages of a broker that runs, hangs or fails. Real loop, server and logs; session and disk are simulated."""

import errno
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.broker.monitoring import monitoring_pages as observing
from headrace.broker.monitoring.group_lag import LagSnapshot
from headrace.broker.monitoring.monitoring_pages import MonitoringPages, Parts
from headrace.broker.replicas.damage_book import DamageBook
from headrace.coordination.standing import SessionState
from headrace.runtime.monitoring.http_server import Page
from tests.support.processes import eventually
from tests.support.raw_kafka import batch
from tests.support.serving_broker import ServingBroker


class PlayedSession:
    """The part of a ZooKeeper session that the pages use."""

    def __init__(self) -> None:
        self.state = SessionState.SURE
        self.generation = 0
        self._told: Callable[[SessionState], None] = lambda state: None

    def is_sure(self) -> bool:
        return self.state is SessionState.SURE

    def on_change(self, callback: Callable[[SessionState], None]) -> None:
        self._told = callback

    def become(self, state: SessionState) -> None:
        self.state = state
        self._told(state)


def watched(broker: ServingBroker, session: PlayedSession) -> MonitoringPages:
    pages = MonitoringPages(broker.settings, broker.loop, lambda: True)
    parts = Parts(
        metrics=broker.context.metrics,
        partitions=broker.table,
        connections=broker.server,
        accepted=lambda: 0,
        rejections=lambda: {},
        flushes=lambda: (broker.maintenance.flush_durations, broker.maintenance.failed_flush_count),
        cold_reads=lambda: (0, 0),
        groups=lambda: [],
        group_lag=lambda within_ms: LagSnapshot([], 0),
        tree_copied_at=lambda: None,
        session=session,
        api_names={0: "Produce"},
        catalog=lambda: broker.topics.catalog,
        damage=DamageBook().counts,
        stopped_replicas=lambda: 0,
    )
    pages.watch(parts)
    pages.phase = "ready"
    return pages


def asked(pages: MonitoringPages, path: str) -> Page:
    return pages.pages()[path]()


def reasons(pages: MonitoringPages) -> list[str]:
    page = asked(pages, "/readyz")
    found: list[str] = json.loads(page.body)["reasons"]
    assert (page.status == 200) == (not found)
    return found


def test_before_anything_runs_it_says_what_the_start_is_at(tmp_path: Path) -> None:
    broker = ServingBroker(tmp_path)
    pages = MonitoringPages(broker.settings, broker.loop, lambda: False)
    pages.doing = "opening logs"
    assert asked(pages, "/healthz").status == 200
    assert reasons(pages) == ["starting: opening logs"]
    page = asked(pages, "/metrics")
    assert (page.status, page.body) == (503, b"starting: opening logs\n")


def test_ready_only_after_the_registration_was_renewed_in_a_new_session(tmp_path: Path) -> None:
    session = PlayedSession()
    with ServingBroker(tmp_path) as broker:
        pages = watched(broker, session)
        assert reasons(pages) == []
        session.become(SessionState.LOST)
        assert len(reasons(pages)) == 1
        session.state = SessionState.SURE  # sure again, but the callbacks have not run: the registration is not renewed yet
        assert len(reasons(pages)) == 1
        session.become(SessionState.SURE)
        assert reasons(pages) == []


def test_a_log_that_failed_is_named_and_the_broker_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(fd: int) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    with ServingBroker(tmp_path, topics={"safe": (1, {"flush.messages": "1"})}) as broker:
        pages = watched(broker, PlayedSession())
        monkeypatch.setattr(os, "fdatasync", fails)
        with broker.client() as client:
            client.produce("safe", batch(b"x"))
        eventually(lambda: reasons(pages), what="a reason")
        assert "safe-0" in reasons(pages)[0]
        assert asked(pages, "/healthz").status == 200
        assert b"headrace_broker_logs_failed 1\n" in asked(pages, "/metrics").body
        assert b"headrace_broker_log_flush_failures_total 1\n" in asked(pages, "/metrics").body
        monkeypatch.undo()


def test_a_loop_that_hangs_costs_those_who_ask_a_bounded_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "ANSWER_MS", 50)
    gate, held = threading.Event(), threading.Event()
    with ServingBroker(tmp_path) as broker:
        pages = watched(broker, PlayedSession())
        broker.on_loop(lambda: None)
        broker.loop.post(lambda: (held.set(), gate.wait(20)))  # type: ignore[arg-type, return-value]
        assert held.wait(10)
        assert reasons(pages) == ["the loop did not answer within 50 ms"]
        assert b"headrace_broker_loop_answered 0\n" in asked(pages, "/metrics").body
        assert asked(pages, "/healthz").status == 200, "not for so short a time"
        monkeypatch.setattr(observing.health, "STILL_MS", -1)
        assert asked(pages, "/healthz").status == 503
        monkeypatch.setattr(observing.health, "STILL_MS", 10_000)
        gate.set()
        eventually(lambda: reasons(pages) == [], what="ready again")
        assert b"headrace_broker_loop_answered 1\n" in asked(pages, "/metrics").body


def test_thousands_of_partitions_are_read_in_several_turns(tmp_path: Path) -> None:
    with ServingBroker(tmp_path, topics={"many": 250}, settings={"metrics.partitions.max": 10}) as broker:
        pages = watched(broker, PlayedSession())
        body = asked(pages, "/metrics").body
    assert b'headrace_broker_partitions{topic="many"} 250\n' in body
    assert body.count(b"headrace_broker_log_end_offset{") == 1
