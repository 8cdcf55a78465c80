"""Situations that are no fault of anybody: odd times, skewed clocks, a new partition, records gone before they were copied.

Each row of docs/AUDIT.md, section 'Situations', that names a test of this file is shown here through real processes.
"""

import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer as ForeignProducer
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from headrace.local import control
from headrace.runtime.clock import SystemClock
from tests.support.platform import Platform
from tests.support.processes import Process, eventually

from .attacks import Truth
from .readers import begin_at
from .topics import HOUR_MS, Topic, W, in_window

DAY_MS = 24 * HOUR_MS


class SkewedClock(SystemClock):
    """The clock of a host that is wrong by so much."""

    def __init__(self, by_ms: int) -> None:
        self._by_ms = by_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._by_ms


def counts(platform: Platform, topic: str, tier: str) -> dict[int, int]:
    return {start: window["tiers"][tier] for start, window in platform.windows(topic).items()}


@pytest.mark.situation("event times", "events are hours late")
@pytest.mark.situation(
    "event times", "events are from the future", shown="a window of the future", when="at once", do="set the clock that made them"
)
@pytest.mark.situation(
    "event times",
    "events near a border, to the millisecond",
    shown="each in its own window: no batch crosses a border",
    when="at once",
    do="nothing",
)
@pytest.mark.situation(
    "event times",
    "events beyond 2262 or the year 10000, in the logs",
    shown="their own windows, to the millisecond",
    when="at once",
    do="nothing",
)
def test_late_future_border_and_very_far_times_are_counted_in_their_own_windows(platform: Platform) -> None:
    topic = Topic(platform, "odd_times").make(2)
    now_ms = time.time_ns() // 1_000_000
    border_ms = topic.windows[1]
    year_2262, year_10000 = 9_223_372_800_000, 253_402_300_800_000
    times = [0, 1, border_ms - 1, border_ms, border_ms + 1, now_ms - 5 * HOUR_MS, now_ms + DAY_MS, year_2262, year_10000]
    truth = topic.log_at(times)
    windows = platform.await_complete(topic.name)
    assert windows.keys() == truth.keys()
    for tier in ("producer", "live", "mirror", "offline"):
        assert counts(platform, topic.name, tier) == truth, tier
    assert Counter(one.timestamp_ms - one.timestamp_ms % W for one in topic.offline()) == truth, "another client agrees"


@pytest.mark.situation(
    "event times",
    "events are hours late",
    shown="their window is OPEN again, then COMPLETE",
    when="with the report and the reading of live",
    do="nothing; a published hour gets a new revision",
)
def test_an_event_hours_late_opens_its_window_again_until_its_run_has_sealed(platform: Platform) -> None:
    topic = Topic(platform, "late", windows=1).make().log(5)
    platform.await_complete(topic.name)
    with topic.logger() as logger:
        topic.log_window(logger, topic.windows[0], 3)

        def is_open() -> bool:
            window = platform.windows(topic.name)[topic.windows[0]]
            assert window["tiers"]["live"] == 8, window
            assert window["verdict"] == "OPEN", window
            return logger.instance in window["reason"]

        eventually(is_open, within_ms=60_000, every_ms=200, what="OPEN again")
    assert set(platform.await_complete(topic.name)[topic.windows[0]]["tiers"].values()) == {8}


@pytest.mark.situation("mirror", "the mirror makes no progress")
def test_a_mirror_that_stands_still_is_waited_for_and_then_named(platform: Platform) -> None:
    topic = Topic(platform, "not_copied", windows=1).make().log(5).await_mirrored()
    control.stop(platform.layout, "mirror")
    before_it_was_named: set[str] = set()

    def named() -> bool:
        window = platform.windows(topic.name)[topic.windows[0]]
        if window["tiers"]["live"] == 10 and window["verdict"] != "UNKNOWN":
            before_it_was_named.add(window["verdict"])
        assert (window["verdict"], window["silent"]) == ("UNKNOWN", ["mirror"]), window
        return True

    try:
        topic.log(5)
        eventually(named, within_ms=60_000, every_ms=100, what="UNKNOWN, the mirror named")
    finally:
        control.start(platform.layout, "mirror")
    assert before_it_was_named == {"OPEN"}
    assert set(platform.await_complete(topic.name)[topic.windows[0]]["tiers"].values()) == {10}


@pytest.mark.situation(
    "producers",
    "an application samples (`logger.sampled`)",
    shown="ACCOUNTED, `sampled` n; never COMPLETE",
    when="at the seal",
    do="nothing; `despite` in `publish.toml` publishes such hours",
)
def test_events_that_an_application_left_out_are_named_with_their_number(platform: Platform) -> None:
    topic = Topic(platform, "sampled", windows=2).make()
    with topic.logger() as logger:
        for start in topic.windows:
            topic.log_window(logger, start, 5)
        logger.sampled(95, event_time_ms=topic.windows[0])

    def told() -> bool:
        found = platform.windows(topic.name)
        assert found.keys() >= set(topic.windows)
        left_out, whole = (found[start] for start in topic.windows)
        assert (left_out["verdict"], left_out["accounted"]) == ("ACCOUNTED", {"sampled": 95}), left_out
        assert set(left_out["tiers"].values()) == {5}, left_out
        return bool(whole["verdict"] == "COMPLETE")

    eventually(told, within_ms=60_000, every_ms=200, what="95 told by name")


@pytest.mark.situation(
    "event times",
    "events without a time, or before 1970",
    shown="one window 'without a time'; the SDK puts such events into quarantine",
    when="at once",
    do="give the event a time",
)
def test_records_without_a_time_and_before_1970_are_counted_in_one_window(platform: Platform) -> None:
    """Only foreign producers can send them: the SDK takes an event without a time as of now and refuses one before 1970."""
    topic = Topic(platform, "without_time").make()
    topic.log_at([topic.windows[0]])
    with topic.logger() as logger:
        assert not logger.log({"client_ip": "::1", "status": 200}, event_time_ms=-5), "refused, and in quarantine"
    foreign = ForeignProducer({"bootstrap.servers": platform.layout.live_bootstrap})
    foreign.produce(topic.name, b"long ago", timestamp=-86_400_000)
    assert foreign.flush(20) == 0

    def told() -> bool:
        found = platform.windows(topic.name)
        assert counts(platform, topic.name, "offline").get(-W) == 1, found
        assert found[-W]["unaudited"] == 1, found
        return True

    eventually(told, within_ms=60_000, every_ms=200, what="the record before 1970 counted")
    assert sum(window["quarantined"] for window in platform.windows(topic.name).values()) == 1


@pytest.mark.situation(
    "event times",
    "a host's clock is hours ahead or behind",
    shown="nothing: an event counts in the window of its own time",
    when="at the seal",
    do="nothing; `lateness_ms` follows the host's clock",
)
def test_hosts_with_wrong_clocks_are_complete_once_they_sealed(platform: Platform) -> None:
    topic = Topic(platform, "skewed").make()
    truth = topic.log_at([topic.windows[0]] * 5, clock=SkewedClock(2 * HOUR_MS))
    truth += topic.log_at([topic.windows[0] + 1] * 5, clock=SkewedClock(-2 * HOUR_MS))
    platform.await_complete(topic.name)
    assert counts(platform, topic.name, "offline") == truth


@pytest.mark.situation(
    "topics",
    "a partition is added",
    shown="nothing: it is counted like the others",
    when="within `discover_ms`, later with very many topics",
    do="nothing",
)
def test_a_partition_added_is_counted_like_the_others(platform: Platform) -> None:
    topic = Topic(platform, "grown").make(1).log(5)
    admin = AdminClient({"bootstrap.servers": platform.layout.live_bootstrap})
    admin.create_partitions([NewPartitions(topic.name, 3)])[topic.name].result(30)
    eventually(lambda: len(platform.log_ends(platform.layout.live_bootstrap, topic.name)) == 3, what="three partitions")
    truth = topic.log_at([start + at for start in topic.windows for at in range(30)])

    def complete() -> bool:
        found = platform.windows(topic.name)
        assert {window["verdict"] for window in found.values()} == {"COMPLETE"}, found
        return counts(platform, topic.name, "offline") == {start: 5 + truth[start] for start in topic.windows}

    eventually(complete, within_ms=60_000, every_ms=200, what="35 in each window")
    assert len({one.partition for one in topic.offline()}) > 1


@pytest.mark.situation(
    "live log",
    "retention (or DeleteRecords) comes before the mirror",
    shown="ACCOUNTED, `expired` n",
    when="when the mirror has passed it",
    do="raise the retention; `audit known-loss`",
)
def test_records_deleted_before_the_mirror_copied_them_are_named_with_their_number(platform: Platform) -> None:
    """Issue: it was UNKNOWN, 'mirror silent', 0 missing, though the number is known."""
    topic = Topic(platform, "deleted_early").make()
    control.stop(platform.layout, "mirror")
    try:
        topic.log(10)

        def counted() -> bool:
            return counts(platform, topic.name, "live") == dict.fromkeys(topic.windows, 10)

        eventually(counted, within_ms=60_000, every_ms=200, what="the live log counted")
        behind = in_window(topic.live(), topic.windows[0])[4]
        admin = AdminClient({"bootstrap.servers": platform.layout.live_bootstrap})
        for future in admin.delete_records([TopicPartition(topic.name, 0, behind)]).values():
            future.result(30)
    finally:
        control.start(platform.layout, "mirror")

    def told() -> bool:
        window = platform.windows(topic.name)[topic.windows[0]]
        assert (window["verdict"], window["accounted"], window["missing"]) == ("ACCOUNTED", {"expired": 4}, 0), window
        return True

    eventually(told, within_ms=60_000, every_ms=200, what="four records named")
    assert len(in_window(topic.offline(), topic.windows[0])) == 6


@pytest.mark.situation(
    "groups and sinks",
    "a sink begins inside a window and later skips a record",
    shown="its row COMPLETE, then OPEN, then UNKNOWN; the verdict stays",
    when="with its report; its deadline",
    do="reset its group",
)
def test_a_sink_that_begins_inside_a_window_answers_for_what_is_behind_its_beginning(platform: Platform, tmp_path: Path) -> None:
    """Its row is COMPLETE with what it took, and never COMPLETE once it has passed over a record behind its beginning."""
    topic = Topic(platform, "begun_inside", windows=1).make().log(20).await_mirrored()
    offsets, group = in_window(topic.live(), topic.windows[0]), "begun-inside"

    def written() -> int:
        files = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and path.name.endswith(".ndjson")]
        return sum(len(path.read_text().splitlines()) for path in files)

    def sink() -> Process:
        return platform.in_background(*words)

    layout = platform.layout
    words = ["sink", "files", "--topic", topic.name, "--group", group, "--folder", str(tmp_path / "out"), "--roll-ms", "200"]
    words += ["--bootstrap", layout.live_bootstrap, "--registry", layout.registry_url]
    begin_at(topic, group, offsets[8])
    first = sink()
    try:
        eventually(lambda: written() == 12, within_ms=60_000, every_ms=200, what="twelve records written")
        row = {"sinks": {f"sink:{group}": {"verdict": "COMPLETE", "count": 12}}}
        Truth(topic, {topic.windows[0]: {"verdict": "COMPLETE", **row}}).wait("a sink that begins inside a window")
    finally:
        first.stop()
    topic.log(5).await_mirrored()
    shutil.rmtree(tmp_path / "out" / ".headrace")  # else the sink goes on where its own notes say, whatever the group's commit is
    begin_at(topic, group, in_window(topic.live(), topic.windows[0])[21])
    second = sink()
    try:
        eventually(lambda: written() == 16, within_ms=60_000, every_ms=200, what="four more written")
        for _ in range(20):  # nobody has told of the record that it passed over
            window = platform.windows(topic.name)[topic.windows[0]]
            assert window["sinks"][f"sink:{group}"]["verdict"] in ("OPEN", "UNKNOWN"), window
            time.sleep(0.5)
    finally:
        second.stop()
