"""Who waits for whom: an agent that is not there makes windows UNKNOWN, never COMPLETE."""

import pytest

from headrace.audit.model.facts import Kind
from headrace.audit.model.windows import WINDOW_MS
from headrace.audit.publisher import ProducerReporter
from headrace.client.connection.cluster import Cluster
from headrace.client.producer.producer import Producer

from .world import DEADLINE_MS, START_MS, Crashed, World


def log_directly(world: World, at_ms: int) -> None:
    """Another producer of the topic, which seals all it has: without the agent the window would be COMPLETE."""
    cluster = Cluster(world.settings.brokers)
    reports = Producer(cluster, linger_ms=0)
    events: list[Producer] = []
    reporter = ProducerReporter(instance="host/other/1", sender=reports, clock=world.clock)
    producer = Producer(
        cluster, linger_ms=0, window_ms=WINDOW_MS, on_delivery=lambda one: reporter.ended(at_ms - at_ms % WINDOW_MS, one)
    )
    events.append(producer)
    producer.identify()
    reporter.announce(["clicks"], producer.producer_ids)
    for number in range(10):
        producer.send("clicks", b"\0\0\0\0\7%d" % number, timestamp_ms=at_ms)
    producer.close()
    reporter.seal_and_close()
    reports.close()
    cluster.close()


def enrol(world: World) -> None:
    """Have an agent run until the audit waits for it, and die."""
    world.group.topics = ["clicks"]
    with world.running() as agent:
        world.work(agent, lambda: world.group.enrolled_topics == ("clicks",), "enrolled")


@pytest.mark.situation(
    "agent and journals",
    "an enrolled agent is never started again",
    shown="UNKNOWN in its topics' windows, `silent` names its enrolment",
    when="its deadline",
    do="start it, or `headrace agent retire`",
)
def test_an_agent_that_is_never_started_again_keeps_windows_unknown(world: World) -> None:
    enrol(world)
    world.clock.jump(2 * WINDOW_MS)
    log_directly(world, START_MS + WINDOW_MS)
    assert world.verdicts()[START_MS + WINDOW_MS].kind is Kind.OPEN
    verdict = world.verdicts(silent_ms=DEADLINE_MS + 1)[START_MS + WINDOW_MS]
    assert (verdict.kind, verdict.silent) == (Kind.UNKNOWN, ("producer:host/agent/one",))


@pytest.mark.situation(
    "agent and journals",
    "a host is lost with journals that no agent has read",
    shown="UNKNOWN in its topics' windows, `silent` names its enrolment",
    when="its deadline",
    do="`headrace agent retire`: ACCEPTED",
)
def test_a_host_that_is_lost_with_a_journal_nobody_read_keeps_windows_unknown(world: World) -> None:
    enrol(world)
    journal = world.group.journal("a", begins_ms=START_MS)
    journal.log(1, 2, 3, at_ms=START_MS)
    log_directly(world, START_MS)
    world.clock.jump(2 * WINDOW_MS)
    verdict = world.verdicts(silent_ms=DEADLINE_MS + 1)[START_MS]
    assert (verdict.kind, verdict.silent) == (Kind.UNKNOWN, ("producer:host/agent/one",))


def test_a_host_that_is_lost_after_half_of_a_journal_keeps_windows_unknown(world: World) -> None:
    journal = world.group.journal("a", begins_ms=START_MS)
    journal.most_records = 1
    journal.log(*range(500), at_ms=START_MS)

    def step(name: str) -> None:
        if journal.released > 20:
            raise Crashed

    with world.running(step) as agent, pytest.raises(Crashed):
        world.work(agent, lambda: False, "crashes")
    world.clock.jump(2 * WINDOW_MS)
    assert world.verdicts(silent_ms=DEADLINE_MS + 1)[START_MS].kind is Kind.UNKNOWN


def test_the_enrolment_seals_no_window_before_every_journal_found_after_it_is_announced(world: World) -> None:
    enrol(world)
    world.clock.jump(WINDOW_MS + 120_000)
    journal = world.group.journal("late", begins_ms=START_MS)
    journal.log(1, at_ms=START_MS)

    def step(name: str) -> None:
        sealed = agent.audit_reports.enrolment.moved_past_ms or 0
        if sealed > START_MS:
            assert journal.is_announced

    with world.running(step) as agent:
        world.work(agent, lambda: (agent.audit_reports.enrolment.moved_past_ms or 0) > START_MS, "the window is sealed")


@pytest.mark.situation(
    "agent and journals",
    "a journal cannot be opened",
    shown="windows stay OPEN or become UNKNOWN",
    when="at the next scan",
    do="`headrace agent status` names it; restore or remove it",
)
def test_a_journal_that_cannot_be_opened_lets_no_window_be_sealed(world: World) -> None:
    enrol(world)
    log_directly(world, START_MS)
    world.group.unopened["journals/broken"] = "its head is damaged"
    world.clock.jump(WINDOW_MS + 120_000)
    with world.running() as agent:
        before = agent.audit_reports.enrolment.moved_past_ms
        world.work(agent, lambda: agent.audit_reports.enrolment.next_sequence > 4, "some reports", within_s=30)
        assert agent.audit_reports.enrolment.moved_past_ms == before
        assert world.verdicts()[START_MS].kind is Kind.OPEN
        assert world.verdicts(silent_ms=DEADLINE_MS + 1)[START_MS].kind is Kind.UNKNOWN
        world.group.unopened.clear()
        world.work(agent, lambda: (agent.audit_reports.enrolment.moved_past_ms or 0) > START_MS, "sealed once it is gone")


def test_a_topic_first_seen_in_a_journal_stays_enrolled_without_it(world: World) -> None:
    journal = world.group.journal("a", "views", begins_ms=START_MS)
    journal.log(1, at_ms=START_MS)
    journal.is_over = True
    with world.running() as agent:
        world.work(agent, lambda: journal.is_removed, "shipped")
    with world.running() as agent:
        assert agent.audit_reports.enrolment.topics == ("views",)
        world.work(agent, lambda: world.group.enrolled_topics == ("views",), "the applications know")


@pytest.mark.situation(
    "agent and journals",
    "a power cut takes the end of a journal",
    shown="the rest is sent; UNKNOWN, `silent` names its run",
    when="its deadline",
    do="`retire-producer`; `is_durable=True` prevents it",
)
def test_a_journal_whose_tail_a_power_cut_took_is_shipped_and_never_sealed(world: World) -> None:
    journal = world.group.journal("a", begins_ms=START_MS)
    journal.log(1, 2, at_ms=START_MS)
    journal.is_over = journal.is_cut_by_power = True
    with world.running() as agent:
        world.work(agent, lambda: journal.is_removed, "shipped and removed")
        world.work(agent, lambda: not agent.audit_reports.reports_under_way, "told")
    assert world.numbers() == {1: 1, 2: 1}
    assert not [one for one in world.reports() if one.state == "closed"]
    world.clock.jump(2 * WINDOW_MS)
    verdict = world.verdicts(silent_ms=DEADLINE_MS + 1)[START_MS]
    assert verdict.kind is Kind.UNKNOWN
    assert "producer:host/app/a" in verdict.silent


def test_a_restarted_agent_goes_on_under_the_same_enrolment(world: World) -> None:
    enrol(world)
    enrol(world)
    runs = {(one.instance, one.epoch) for one in world.reports()}
    sequences = [one.sequence for one in world.reports()]
    assert len(runs) == 1
    assert sorted(set(sequences)) == list(range(max(sequences) + 1))
