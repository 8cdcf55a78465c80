"""What an agent shows of itself, and its pages."""

import json
import urllib.error
import urllib.request
from dataclasses import replace

import pytest

from headrace.agent.process.agent import Agent
from headrace.agent.process.pages import LATE_MS, Pages, metrics_of
from headrace.agent.process.retirement import retire
from headrace.agent.process.snapshot import Snapshot, SourceState, snapshot_of
from headrace.agent.process.status import status_of
from headrace.audit.model.facts import Kind
from headrace.audit.model.windows import WINDOW_MS
from headrace.runtime.http_access import Unprotected
from headrace.runtime.monitoring.text_format import text

from .world import START_MS, World

SNAPSHOT = Snapshot(
    name="one",
    instance="host/agent/one",
    at_ms=1_000,
    is_ready=True,
    reason=None,
    sources=(SourceState(name='a"b', topic="clicks", settled="7", lag_bytes=10, lag_ms=2_500),),
    source_count=2,
    lag_bytes=10,
    lag_ms=2_500,
    acknowledged=99,
    losses={"quarantined": 3},
    events={"tail:nginx": {"damaged": 1}},
)


def test_a_snapshot_says_how_far_each_source_is(world: World) -> None:
    behind, done = world.group.journal("behind"), world.group.journal("done")
    behind.log(1, 2, at_ms=START_MS)
    behind.refuses = True
    done.log(3, at_ms=START_MS)
    world.group.events = {"truncated": 2}
    with world.running() as agent:
        world.work(agent, lambda: done.released == 1 and not agent.audit_reports.reports_under_way, "the readable one is shipped")
        found = snapshot_of(agent, START_MS + 5_000)
    assert (found.acknowledged, found.source_count, found.lag_bytes, found.is_ready) == (1, 2, 2, True)
    first = found.sources[0]
    assert (first.name, first.lag_ms, first.trouble) == ("journals/behind", 5_000, "journals/behind cannot be read")
    assert found.events == {"journals": {"truncated": 2}}
    json.dumps(found.words())


def test_a_full_disk_is_shown_and_makes_an_agent_unready(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with world.running() as agent:
        world.ship_all(agent)
        monkeypatch.setattr("headrace.runtime.disk_room.LEAST_BYTES", 1 << 62)
        found = snapshot_of(agent, START_MS)
        assert not found.is_ready
        assert "the disk is full" in str(found.reason)
        assert any("the disk is full" in one for one in found.trouble)
        monkeypatch.undo()
        assert snapshot_of(agent, START_MS).is_ready


def test_a_turn_that_was_cut_short_is_shown_at_once(world: World) -> None:
    with world.running() as shipper:
        world.ship_all(shipper)
        shown = Agent(world.settings)
        shown._last = snapshot_of(shipper, START_MS)
        shown._show_fault("OSError: no space is left")
    assert not shown._last.is_ready
    assert shown._last.reason == "OSError: no space is left"
    assert shown._last.trouble == ["OSError: no space is left"]


def test_status_of_a_stopped_agent_comes_from_its_state(world: World) -> None:
    journal = world.group.journal("a")
    journal.log(1, 2, at_ms=START_MS)
    with world.running() as agent:
        world.ship_all(agent)
        assert status_of(world.settings)["is_running"]
    found = status_of(world.settings)
    assert (found["is_running"], found["acknowledged"], found["reason"]) == (False, 2, "it is not running")
    assert [(one["name"], one["settled"]) for one in found["sources"]] == [("journals/a", "2")]


def test_the_pages_are_served_on_the_loopback() -> None:
    shown: list[Snapshot | None] = [None]
    now_ms = [1_000]
    pages = Pages(0, lambda: shown[0], lambda: now_ms[0])
    pages.start()
    try:
        assert ask(pages, "/healthz") == (200, "alive\n")
        assert ask(pages, "/readyz")[0] == 503
        shown[0] = SNAPSHOT
        assert ask(pages, "/readyz") == (200, "ready\n")
        assert json.loads(ask(pages, "/status")[1])["acknowledged"] == 99
        code, page = ask(pages, "/metrics")
        assert code == 200
        assert 'headrace_agent_source_lag_bytes{source="a\\"b",topic="clicks"} 10' in page
        assert "headrace_agent_lag_seconds 2.5" in page
        assert 'headrace_agent_lost_records_total{name="quarantined"} 3' in page
        assert "headrace_agent_ready 1" in page
        assert ask(pages, "/other")[0] == 404
        now_ms[0] += LATE_MS + 1
        assert ask(pages, "/readyz") == (503, "its last turn is long ago\n")
        shown[0] = replace(SNAPSHOT, at_ms=now_ms[0], is_ready=False, reason="the audit has no report of it yet")
        assert ask(pages, "/readyz") == (503, "the audit has no report of it yet\n")
    finally:
        pages.stop()


def test_each_line_of_the_metrics_page_has_a_help_and_a_type() -> None:
    lines = text(metrics_of(SNAPSHOT, is_ready=True)).splitlines()
    told = {line.split()[2] for line in lines if line.startswith("# HELP")}
    assert told == {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert {line.partition("{")[0].split()[0] for line in lines if not line.startswith("#")} <= told
    assert 'headrace_agent_source_events_total{group="tail:nginx",event="damaged"} 1' in lines


@pytest.mark.situation("agent and journals", "a host is lost with journals that no agent has read")
def test_a_retired_agent_is_waited_for_no_more_and_its_windows_are_accepted_never_complete(world: World) -> None:
    journal = world.group.journal("a", begins_ms=START_MS)
    journal.log(1, 2, 3, at_ms=START_MS)
    with world.running() as agent:
        world.ship_all(agent)
    world.clock.jump(2 * WINDOW_MS)
    assert world.verdicts(silent_ms=60_000)[START_MS].kind is Kind.UNKNOWN
    runs = retire(world.settings, by="ana", reason="the host was given back")
    assert [one.partition(" ")[0] for one in runs] == ["host/agent/one", "host/app/a"]
    assert world.verdicts(silent_ms=60_000)[START_MS].kind is Kind.ACCEPTED


def ask(pages: Pages, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{pages.port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.parametrize("path", ["/status", "/metrics"])
def test_before_the_first_turn_a_page_says_so(path: str) -> None:
    pages = Pages(0, lambda: None, lambda: 0)
    pages.start()
    try:
        assert ask(pages, path) == (503, "it has made no turn yet\n")
    finally:
        pages.stop()


def test_whoever_serves_others_than_this_machine_asks_them_for_a_token() -> None:
    with pytest.raises(Unprotected, match="metrics_token_file"):
        Pages(0, lambda: None, lambda: 0, host="0.0.0.0")
