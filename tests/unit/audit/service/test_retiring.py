"""Rules retire producers that died, and a deployment that closes its loggers leaves nothing to retire."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.audit.model.codec import decode
from headrace.audit.model.messages import Hold, ProducerReport, Retirement
from headrace.audit.model.runs import Run, RunKey
from headrace.audit.publisher import ProducerReporter
from headrace.audit.service.retiring import application_of, due
from headrace.audit.service.settings import RetireRule
from headrace.runtime.clock import ManualClock
from tests.support.audit_parts import SHORT, T0, Service, W, mirror

RULE = RetireRule(applications="shop*", after_ms=900_000, reason="hosts are cattle")
HOSTS = 1_000


def run(instance: str = "www1/shop-7/uuid", **changes: object) -> Run:
    known = Run(key=RunKey(instance, 1), first_heard_ms=0, heard_ms=1_000_000, holds=(Hold(T0, T0 + W, 2),))
    for name, value in changes.items():
        setattr(known, name, value)
    return known


def retired(one: Run, silent_ms: int, listening_since_ms: int = 0) -> bool:
    return bool(due([one], [RULE], heard_ms=one.heard_ms + silent_ms, listening_since_ms=listening_since_ms))


def test_a_run_of_a_named_application_that_is_silent_for_long_enough_is_due() -> None:
    assert not retired(run(), 900_000)
    assert retired(run(), 900_001)
    assert not retired(run("www1/cart/uuid"), 900_001)
    assert not retired(run(), 900_001, listening_since_ms=1_000_001), "as far as the audit has listened"


def test_what_a_person_must_decide_or_nobody_waits_for_is_left_alone() -> None:
    assert not retired(run(holds=None), 1 << 40), "an SDK of before, or an agent's enrolment"
    assert not retired(run(gaps=[(3, 4)]), 1 << 40), "a lost report"
    assert not retired(run(holds=()), 1 << 40)
    assert not retired(run(is_closed=True), 1 << 40)
    assert retired(run(holds=(), cut_off_ms=5), 1 << 40)


def test_the_application_is_what_stands_between_host_and_uuid() -> None:
    assert [application_of(name) for name in ("h/shop/u", "h/a/b/u", "mine", "x/y")] == ["shop", "a/b", "mine", "x/y"]


class Topic:
    """Takes reports as the audit topic does."""

    def __init__(self) -> None:
        self.values: list[bytes] = []

    def send(self, topic: str, value: bytes, *, key: bytes | None = None, timestamp_ms: int) -> None:
        self.values.append(value)

    def flush(self, timeout_ms: int) -> None:
        pass


def reporters(topic: Topic, clock: ManualClock, version: str) -> list[ProducerReporter]:
    """Start a fleet: each host announces itself, and holds the current window."""
    fleet = [ProducerReporter(instance=f"host{at}/shop/{version}", sender=topic, clock=clock) for at in range(HOSTS)]
    for at, one in enumerate(fleet):
        one.announce(["clicks"], [at + 1], holds=(Hold(T0, T0 + W),))
    return fleet


@pytest.mark.situation(
    "producers", "a rolling deployment ends 1,000 hosts by SIGTERM", shown="nothing", when="at once", do="nothing"
)
def test_a_rolling_deployment_of_a_thousand_hosts_that_close_leaves_no_window_unsealed(tmp_path: Path) -> None:
    service, topic = Service(tmp_path / "audit.db", replace(SHORT, deadline_ms={})), Topic()
    old = reporters(topic, service.clock, "1")
    for one in old:  # each ends by SIGTERM, with `close_on_signals`
        one.seal_and_close()
    for one in reporters(topic, service.clock, "2"):
        one.beat(moved_past_ms=T0 + W, holds=(Hold(T0 + W, T0 + 2 * W),))
    service.report(*topic.values)
    service.read("live", 0, 100, {})
    service.hear()
    assert service.verdicts() == {T0 + W: "OPEN"}, "the one that the new version holds"
    assert len(service.ledger.unsealed()) == HOSTS, "the new version's"
    assert all("/shop/2" in one["instance"] for one in service.ledger.unsealed())


@pytest.mark.situation(
    "producers",
    "a rolling deployment kills 1,000 hosts, with a rule `[[retire]]`",
    shown="UNKNOWN, then ACCEPTED, in the windows that they held",
    when="its `after_ms`",
    do="nothing",
)
def test_a_deployment_that_kills_is_accepted_by_a_rule_in_the_windows_that_were_held(tmp_path: Path) -> None:
    service, topic = Service(tmp_path / "audit.db", replace(SHORT, deadline_ms={})), Topic()
    reporters(topic, service.clock, "1")
    service.report(*topic.values, mirror(0, 100, {}))
    service.read("live", 0, 100, {})
    for _ in range(300):
        service.clock.advance(4_000)
        service.hear()
    assert service.verdicts() == {T0: "UNKNOWN"}
    found = service.ledger.silent_runs(lambda runs, heard, since: due(runs, [RULE], heard_ms=heard, listening_since_ms=since))
    assert len(found) == 500, "so many at a time"
    words = [
        Retirement(instance=key.instance, epoch=key.epoch, at_ms=1, by="a rule", reason=RULE.reason)
        for key in (RunKey(one.instance, one.epoch) for one in map(decode, topic.values) if isinstance(one, ProducerReport))
    ]
    service.report(*words, offset=len(topic.values) + 1)
    service.read("live", 100, 100, {})
    service.hear()
    assert service.verdicts() == {T0: "ACCEPTED"}
