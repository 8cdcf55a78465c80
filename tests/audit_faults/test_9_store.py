"""The audit's store deleted: the service rebuilds it from its topics and the logs, and says of every topic what it said before.

Runs last: by then the other files have left topics with every kind of fault.
"""

import json
import shutil
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.local import control
from headrace.local.drills import log_surgery
from headrace.runtime.layout import AUDIT_CHECKPOINT_TOPIC, AUDIT_TOPIC
from tests.support.audit_service import AuditService
from tests.support.platform import Platform
from tests.support.processes import eventually

from .attacks import Truth, complete, differs
from .conftest import SETTINGS
from .topics import TOLD, WITHIN_S, Topic, in_window

TOLD_AGAIN = (
    "verdict",
    "tiers",
    "missing",
    "doubled",
    "altered",
    "first_bad_tier",
    "differences",
    "quarantined",
    "losses",
    "silent",
)


def told(platform: Platform, topics: list[str]) -> dict[str, dict[int, dict[str, Any]]]:
    """Return what the audit says of each window of the topics, without times."""
    return {
        topic: {start: {name: window[name] for name in TOLD_AGAIN} for start, window in platform.windows(topic).items()}
        for topic in topics
    }


def reports_lost(platform: Platform) -> int:
    with urllib.request.urlopen(f"{platform.layout.audit_url}/api/hearing", timeout=30) as answer:
        return int(json.load(answer)["reports_lost"])


def delete_checkpoints(platform: Platform, *, and_reports_before: int) -> None:
    admin = AdminClient({"bootstrap.servers": platform.layout.live_bootstrap})
    lost = [TopicPartition(AUDIT_CHECKPOINT_TOPIC, 0, OFFSET_END), TopicPartition(AUDIT_TOPIC, 0, and_reports_before)]
    for future in admin.delete_records(lost).values():
        future.result(30)


def lose_store(platform: Platform, *, and_reports_before: int | None = None) -> float:
    """Stop the service, which writes a checkpoint, delete its store, and start it; return since when. With an offset of the audit
    topic: all checkpoints and the reports before it are lost, too.
    """
    control.stop(platform.layout, "audit")
    if and_reports_before is not None:
        delete_checkpoints(platform, and_reports_before=and_reports_before)
    shutil.rmtree(platform.layout.home / "audit")
    control.start(platform.layout, "audit")
    return time.monotonic()


@pytest.fixture(scope="module")
def one_lost(platform: Platform) -> Topic:
    """A topic with a record missing at live, in its middle window, and none in the others."""
    topic = Topic(platform, "one_lost").make().log(10).await_mirrored()
    gone = in_window(topic.live(), topic.windows[1])[5]
    sequence = topic.sequences()[gone]
    control.stop(platform.layout, "mirror")
    control.stop(platform.layout, "broker-live")
    log_surgery.cut_out(topic.batch("broker-live", gone))
    control.start(platform.layout, "broker-live")
    control.start(platform.layout, "mirror")
    Truth(topic, {topic.windows[1]: differs("live", missing=[sequence])}).wait("a record lost on live, before the store is")
    return topic


@pytest.mark.situation(
    "audit's own data", "the store is lost", shown="the same verdicts as before", when="seconds after the restart", do="nothing"
)
def test_1_a_deleted_store_is_rebuilt_with_the_same_word_on_every_window(platform: Platform, one_lost: Topic) -> None:
    """Fault of this test: it demanded of two topics what can be said without a checkpoint, and there is one."""
    Topic(platform, "store_whole").make().log(10, batch=5).await_mirrored()
    platform.await_complete("store_whole")
    topics = sorted(platform.report_topics())
    before = told(platform, topics)
    since = lose_store(platform)

    def same() -> bool:
        after = told(platform, topics)
        different = {topic: (before[topic], after[topic]) for topic in topics if after[topic] != before[topic]}
        assert not different, different
        return True

    eventually(same, within_ms=WITHIN_S * 1000, every_ms=500, what="every window as before")
    TOLD["store: deleted and rebuilt"] = time.monotonic() - since


@pytest.mark.situation(
    "audit's own data",
    "store, checkpoints and older reports are lost over an INCOMPLETE window",
    shown="UNKNOWN, `unread_reports` n; batches of other programs stay `unaudited`",
    when="when the audit reads on",
    do="`headrace audit known-loss --tier producer`",
)
@pytest.mark.situation(
    "audit's own data",
    "store and checkpoints are lost together",
    shown="UNKNOWN, except where the audit topic and the logs prove more",
    when="seconds after the restart, and the deadlines",
    do="`audit known-loss`",
)
def test_2_with_the_checkpoints_lost_too_what_nobody_can_tell_again_is_unknown(platform: Platform, one_lost: Topic) -> None:
    """The audit topic then begins after most reports. Only what is told in the rest of it, or by the logs, is said again.

    Fault of this test: it waited for the service to delete them. A lost store's position keeps them for a week (decision 0050).
    """
    (rest,) = platform.log_ends(platform.layout.live_bootstrap, AUDIT_TOPIC).values()
    Topic(platform, "store_and_rest").make().log(10, batch=5).await_mirrored()
    platform.await_complete("store_and_rest")
    topics = sorted(platform.report_topics())
    before = told(platform, topics)
    since = lose_store(platform, and_reports_before=rest)

    def same_or_not_known() -> bool:
        after = told(platform, topics)
        assert after["store_and_rest"] == before["store_and_rest"], "its reports are in the rest of the audit topic"
        for topic in topics:
            assert topic in after, topic
            for start, window in after[topic].items():
                assert window["verdict"] in ("UNKNOWN", before[topic][start]["verdict"]), (
                    topic,
                    start,
                    before[topic][start],
                    window,
                )
                if window["verdict"] == "COMPLETE":
                    assert window == before[topic][start]
        return True

    eventually(same_or_not_known, within_ms=WITHIN_S * 1000, every_ms=500, what="nothing COMPLETE that nobody told")
    TOLD["store and checkpoints: deleted"] = time.monotonic() - since
    of_one = told(platform, ["store_whole"])["store_whole"].values()
    assert {window["verdict"] for window in of_one} == {"UNKNOWN"}, "its reports were lost"
    # Fault: the window that had lost a record was COMPLETE, its other records 'unaudited'.
    counts = {start: len(in_window(one_lost.live(), start)) for start in one_lost.windows}
    assert counts[one_lost.windows[1]] == 9
    one_lost.log(1)  # of a run that is heard: the topic has a producer again
    unread = {start: {"verdict": "UNKNOWN", "unread_reports": count, "unaudited": 0} for start, count in counts.items()}
    Truth(one_lost, unread).wait("store, checkpoints and older reports lost over a window that was INCOMPLETE")


@pytest.mark.situation("audit's own data", "the clock of the audit's host jumps while a second audit runs")
def test_3_a_second_audit_deletes_nothing_that_a_frozen_one_has_not_read(platform: Platform, tmp_path: Path) -> None:
    """The last one: a position that is left in the audit topic keeps it for a week. Fault: reports lost for good."""
    layout = platform.layout
    lost_before = reports_lost(platform)
    settings = SETTINGS.replace("[service]", "[service]\ncheckpoint_every_ms = 2000")
    topic = Topic(platform, "two_audits").make().log(5)
    platform.await_complete(topic.name)
    other = AuditService(tmp_path, layout.live_bootstrap, layout.offline_bootstrap, settings)

    def written() -> int:
        return sum(platform.log_ends(layout.live_bootstrap, AUDIT_CHECKPOINT_TOPIC).values())

    platform.signal("audit", signal.SIGSTOP)
    try:
        before = written()
        other.start()
        for _ in range(3):  # the other one hears something new, and writes it to a checkpoint
            now = written()
            topic.log(5)
            eventually(lambda now=now: written() > now, within_ms=60_000, every_ms=200, what="a checkpoint of the second audit")  # type: ignore[misc]
        assert written() > before
    finally:
        platform.signal("audit", signal.SIGCONT)
        other.process.stop()
    assert {len(in_window(topic.live(), start)) for start in topic.windows} == {20}
    Truth(topic, dict.fromkeys(topic.windows, complete(20))).wait("two audits: the frozen one goes on")
    assert reports_lost(platform) == lost_before
