"""The audit itself in need: a record of its topic is missing, and its host's clock jumps."""

import pytest

from headrace.local import control
from headrace.local.drills import log_surgery
from headrace.local.drills.batch_damage import stored_batches
from headrace.runtime.layout import AUDIT_TOPIC
from tests.support.platform import Platform
from tests.support.processes import eventually

from .attacks import RUNNING, Stopped, Story, Truth, complete, play, unknown
from .host_clock import HostClock
from .topics import HOUR_MS, Topic

EACH = 10


@pytest.mark.situation(
    "audit's own data",
    "the audit topic lacks a record",
    shown="UNKNOWN, `silent` names the producer of the report",
    when="when the audit reads on",
    do="`retire-producer`",
)
def test_a_report_lost_before_the_audit_read_it_makes_its_windows_unknown(platform: Platform) -> None:
    topic, other = Topic(platform, "report_lost").make(), Topic(platform, "report_kept").make()
    control.stop(platform.layout, "audit")
    other.log(10)
    logger = topic.logger()
    instance = logger.instance
    folder = platform.layout.home / "broker-live"

    def reports() -> list[int]:
        """Return the positions of the batches that speak of the run and of records in the topic."""
        found = stored_batches(folder, AUDIT_TOPIC)
        contents = [one.path.read_bytes()[one.position : one.position + one.size_bytes] for one in found]
        return [at for at, content in enumerate(contents) if instance.encode() in content and b'"acknowledged"' in content]

    topic.log_window(logger, topic.windows[0], 10)
    eventually(reports, what="a report of what was acknowledged")
    topic.log_window(logger, topic.windows[1], 10)
    logger.close()
    control.stop(platform.layout, "broker-live")
    try:
        log_surgery.cut_out(stored_batches(folder, AUDIT_TOPIC)[reports()[0]])
    finally:
        control.start(platform.layout, "broker-live")
    control.start(platform.layout, "audit")
    named = {topic.windows[0]: unknown(f"producer:{instance}")}
    Truth(topic, named, others=None).wait("audit topic: a record missing")
    platform.await_complete(other.name)


def tail_cut(topic: Topic) -> Story:
    """The audit topic loses its tail: what the audit has read, so that it stands ahead of the log, and what nobody has read."""
    platform, folder = topic.platform, topic.platform.layout.home / "broker-live"
    (end,) = platform.log_ends(platform.layout.live_bootstrap, AUDIT_TOPIC).values()
    platform.await_complete(topic.make().log(EACH).name)
    yield Stopped("audit")
    unheard = Topic(platform, f"{topic.name}_unheard").make().log(EACH)
    eventually(lambda: unheard.copied_as() == (set(), set(), set()), within_ms=60_000, what="copied by the mirror")
    yield Stopped("audit", "broker-live")
    cut = next(one for one in stored_batches(folder, AUDIT_TOPIC) if one.base_offset >= end)
    log_surgery.cut_tail(cut)
    yield RUNNING
    after = Topic(platform, f"{topic.name}_after").make().log(EACH)
    topic.log(EACH)
    unheard.log(1)  # of a run that is heard: the topic has a producer again
    lost = {start: {"verdict": "UNKNOWN", "unread_reports": EACH, "unaudited": 0} for start in unheard.windows}
    told = Truth(after, dict.fromkeys(after.windows, complete(EACH)), also=Truth(unheard, lost))
    return Truth(topic, dict.fromkeys(topic.windows, complete(2 * EACH)), also=told)


@pytest.mark.situation(
    "audit's own data",
    "the audit topic loses its tail",
    shown="nothing where the audit had read it; else UNKNOWN, `unread_reports` n",
    when="when the audit reads on",
    do="`known-loss --tier producer`",
)
def test_an_audit_ahead_of_its_topic_hears_what_comes_below_and_knows_what_it_never_heard(platform: Platform) -> None:
    name = "tail_cut"
    play(platform, {name: tail_cut})[name].await_told()


@pytest.mark.situation(
    "audit's own data",
    "the clock of the audit's host jumps while a second audit runs",
    shown="COMPLETE as before",
    when="–",
    do="nothing",
)
def test_windows_are_decided_while_the_clock_of_the_audit_s_host_is_ahead_and_after_it_went_back(
    platform: Platform, audit_clock: HostClock
) -> None:
    """Fault: OPEN for as long as the jump."""
    topic = Topic(platform, "jumping_clock").make().log(5)
    platform.await_complete(topic.name)
    try:
        audit_clock.set_wrong_by(2 * HOUR_MS)
        topic.log(5)
        Truth(topic, dict.fromkeys(topic.windows, complete(10))).wait("audit's clock: two hours ahead")
        control.restart(platform.layout, "audit")
        topic.log(5)
        Truth(topic, dict.fromkeys(topic.windows, complete(15))).wait("audit's clock: two hours ahead, and started so")
    finally:
        audit_clock.set_wrong_by(0)
    topic.log(5)
    Truth(topic, dict.fromkeys(topic.windows, complete(20))).wait("audit's clock: back")
    control.restart(platform.layout, "audit")
    topic.log(5)
    assert len(topic.live()) == 25 * len(topic.windows)
    Truth(topic, dict.fromkeys(topic.windows, complete(25))).wait("audit's clock: back, and started so")
