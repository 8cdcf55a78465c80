"""Alive and ready: which facts say no, and what is answered then."""

import json
from dataclasses import replace

import pytest

from headrace.broker.monitoring import health
from headrace.broker.monitoring.health import STILL_MS, Facts

WELL = Facts(
    phase="ready", doing="", loop_turned_ms_ago=3, loop_lives=True, zookeeper="sure", is_sure=True, fatal=None, failed_logs=()
)


def test_a_broker_that_is_well_is_alive_and_ready() -> None:
    assert health.why_dead(WELL) == []
    assert health.why_not_ready(WELL) == []


def test_without_a_sure_session_it_lives_and_is_not_ready() -> None:
    facts = replace(WELL, is_sure=False, zookeeper="unsure")
    assert health.why_dead(facts) == []
    assert health.why_not_ready(facts) == [
        "the ZooKeeper session is unsure: this broker may not be registered any more",
    ]


def test_a_start_says_what_it_is_at() -> None:
    facts = replace(WELL, phase="starting", doing="opening logs", is_sure=False, loop_turned_ms_ago=None)
    assert health.why_dead(facts) == []
    assert health.why_not_ready(facts) == ["starting: opening logs"]


def test_a_stop_is_alive_and_not_ready() -> None:
    facts = replace(WELL, phase="stopping")
    assert health.why_dead(facts) == []
    assert health.why_not_ready(facts) == ["stopping"]


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        (replace(WELL, loop_turned_ms_ago=STILL_MS + 1), "has not turned"),
        (replace(WELL, loop_lives=False), "ended unexpectedly"),
        (replace(WELL, fatal="broker id 1 is taken"), "taken"),
    ],
)
def test_what_only_a_new_start_heals_is_death(facts: Facts, word: str) -> None:
    (reason,) = health.why_dead(facts)
    assert word in reason
    assert reason in health.why_not_ready(facts)


def test_logs_that_failed_are_named_but_not_thousands_of_them() -> None:
    facts = replace(WELL, failed_logs=tuple(f"t-{number}" for number in range(health.NAMED_LOGS + 3)))
    (reason,) = health.why_not_ready(facts)
    assert "t-0, t-1" in reason
    assert "and 3 more" in reason
    assert health.why_dead(facts) == []


def test_the_page_is_200_without_reasons_and_503_with_them() -> None:
    well, ill = health.page("ready", [], WELL), health.page("ready", ["because"], WELL)
    assert (well.status, ill.status) == (200, 503)
    assert json.loads(well.body) == {"ready": True, "reasons": [], "phase": "ready", "zookeeper": "sure"}
    assert json.loads(ill.body)["reasons"] == ["because"]
