"""Pause, seek, lag, de-duplication, classes by topic, stalled handlers: on a real broker, and what the audit hears of it."""

import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.client.deduplication import Deduplicator
from headrace.reader import EventReader, EventRecord, ReaderMisused, reading_loop
from headrace.runtime.status import read_status
from tests.support.audit_service import AuditService
from tests.support.live_side import LiveSide
from tests.support.processes import eventually

from .test_run import SETTINGS, Running
from .topics import START_MS, Topic


def offsets(topic: Topic) -> dict[int, int]:
    """Return number → its offset in partition 0."""
    running = Running(EventReader(topic.name, group=f"look-{topic.group}", bootstrap=topic.live.bootstrap,
                                  registry_url=topic.live.registry_url, schema_cache=None, audit=False))  # fmt: skip
    eventually(lambda: {one.partition: one.message.next_offset for one in running.seen} == topic.ends(), what="a look")
    running.stop()
    return {one.event["number"]: one.offset for one in running.seen if one.partition == 0}


def test_a_seek_back_hands_out_again_and_one_forward_passes_over_by_name(live: LiveSide, tmp_path: Path) -> None:
    topic = Topic(live, partitions=1).send(range(20))
    where = offsets(topic)
    service = AuditService(tmp_path / "audit", live.bootstrap, settings=SETTINGS)
    reader, seen = topic.reader(), list[int]()

    def handle(record: EventRecord) -> None:
        seen.append(record.event["number"])
        if seen == [*range(6)]:
            reader.seek(topic.name, 0, where[2])
        if record.event["number"] == 9:
            reader.seek(topic.name, 0, where[15])

    running = Running(reader, handle)
    expected = [0, 1, 2, 3, 4, 5, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 18, 19]

    def row() -> dict[str, Any]:
        return service.windows(topic.name).get(START_MS, {})

    def is_told() -> bool:
        one, name = row(), f"consumer:{topic.group}"
        losses = str(one.get("losses", one)) + str(one.get("sinks", ""))
        return "passed_over" in losses and "INCOMPLETE" not in str(one) and name in str(one)

    try:
        service.start()
        eventually(lambda: seen == expected, what=f"{seen}")
        eventually(lambda: topic.committed() == topic.ends(), what="the end is committed")
        eventually(is_told, what="the audit knows what was passed over", within_ms=60_000)
        running.stop()
    finally:
        service.process.kill()
    found = reader.statistics
    assert found.is_balanced
    assert found.skipped_offsets == where[15] - where[9] - 1


def test_a_seek_back_is_committed_so_a_crash_does_not_lose_it(live: LiveSide) -> None:
    topic = Topic(live, partitions=1).send(range(10))
    where = offsets(topic)
    running = Running(topic.reader())
    eventually(lambda: topic.committed() == topic.ends(), what="all handled and committed")
    running.reader.pause(topic.name)
    running.reader.seek(topic.name, 0, where[4])
    eventually(lambda: topic.committed() == {0: where[4]}, what="the new position is the group's")
    running.stop()
    assert running.numbers == [*range(10)]
    again = Running(topic.reader())
    eventually(lambda: again.numbers == [*range(4, 10)], what="from there on")
    again.stop()


def test_a_paused_partition_waits_while_the_other_goes_on_and_lag_tells(live: LiveSide) -> None:
    topic = Topic(live, partitions=2).send(range(10))
    running = Running(topic.reader())
    eventually(lambda: len(running.seen) == 10, what="all")
    running.reader.pause(topic.name, [0])
    time.sleep(0.3)
    topic.send(range(10, 20))
    eventually(lambda: running.numbers == [*range(10), *range(11, 20, 2)], what="only partition 1 goes on")
    lag = running.reader.lag()
    assert lag[topic.name, 1] == (0, None)
    assert lag[topic.name, 0].offsets > 0
    running.reader.resume(topic.name, [0])
    eventually(lambda: running.numbers == [*range(20)], what="all of both")
    later = running.reader.seek_to_time(topic.name, START_MS + 18)
    eventually(lambda: Counter(running.numbers)[18] == 2 and Counter(running.numbers)[19] == 2, what="from that time on")
    assert sorted(later) == [0, 1]
    assert running.numbers == sorted([*range(20), 18, 19])
    with pytest.raises(ReaderMisused, match="other"):
        running.reader.pause("other")
    running.stop()


def test_records_that_are_known_as_done_are_left_out_and_counted(live: LiveSide, tmp_path: Path) -> None:
    topic = Topic(live, partitions=1).send(range(10))
    where = offsets(topic)
    with Deduplicator(path=tmp_path / "seen") as seen:
        running = Running(topic.reader(deduplicate=seen))
        eventually(lambda: running.numbers == [*range(10)], what="all")
        running.reader.seek(topic.name, 0, where[3])
        eventually(lambda: running.reader.statistics.redelivered == 7, what="met again, and not handed out")
        running.stop()
    assert running.numbers == [*range(10)]
    assert (running.reader.statistics.read, running.reader.statistics.handled) == (17, 10)


@dataclass
class Click:
    number: int


@dataclass
class Order:
    number: int
    note: str = "none"


def test_each_topic_has_its_class_and_threads_share_all(live: LiveSide) -> None:
    clicks, orders = Topic(live, partitions=2).send(range(20)), Topic(live, partitions=2).send(range(20))
    reader = EventReader({clicks.name: Click, orders.name: Order}, group=clicks.group, bootstrap=live.bootstrap,
                         registry_url=live.registry_url, schema_cache=None)  # fmt: skip
    running = Running(reader, threads=2)  # type: ignore[arg-type]
    eventually(lambda: len(running.seen) == 40, what="all of both")
    running.stop()
    assert {type(one.event) for one in running.seen if one.topic == clicks.name} == {Click}
    assert {one.event.note for one in running.seen if one.topic == orders.name} == {"none"}
    assert reader.statistics.is_balanced


@pytest.mark.parametrize("kind", ["kafka", "zookeeper"])
def test_a_stalled_handler_is_reported_and_leaves_and_comes_back(
    live: LiveSide, zookeeper: str, kind: str, tmp_path: Path
) -> None:
    topic = Topic(live, partitions=1).send(range(1))
    settings = {"zookeeper": zookeeper} if kind == "zookeeper" else {}
    goes_on, status = threading.Event(), tmp_path / "status.json"

    def stalls(record: EventRecord) -> None:
        if not goes_on.is_set():
            goes_on.wait(60)

    stuck = Running(topic.reader(max_handle_ms=500, status_file=status, **settings), stalls)

    def state() -> dict[str, Any]:
        return read_status(status) or {}

    eventually(lambda: state().get("state") == "stalled", what="it is reported", within_ms=40_000)
    at = (state()["topic"], state()["offset"])
    other = Running(topic.reader(**settings))
    eventually(lambda: other.numbers == [0], what="another member does its work", within_ms=40_000)
    assert at == (topic.name, other.seen[0].offset)
    other.stop()
    goes_on.set()
    eventually(lambda: state().get("state") == "ready", what="it is back", within_ms=40_000)
    eventually(lambda: bool(stuck.reader.lag()), what="with its partition", within_ms=40_000)
    stuck.stop()
    found = stuck.reader.statistics
    assert found.is_balanced
    assert found.given_back == 1, "what it handled too late counts for the member that did it"


def test_what_the_audit_could_not_be_told_is_unknown_and_never_complete(
    live: LiveSide, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_loop, "LONGEST_UNREPORTED_MS", 1_000)
    monkeypatch.setattr(reading_loop, "SEND_TIMEOUT_MS", 1_000)
    topic = Topic(live, partitions=1)
    service = AuditService(tmp_path / "audit", live.bootstrap, settings=SETTINGS)
    name = f"consumer:{topic.group}"

    def run(window: int, **settings: Any) -> None:
        topic.send(range(10), window=window)
        running = Running(topic.reader(**settings))
        eventually(lambda: running.numbers == [*range(10)] and topic.committed() == topic.ends(), what="a live service goes on",
                   within_ms=60_000)  # fmt: skip
        running.stop()

    def verdicts() -> list[str]:
        """Return the reader's own verdict of each window, be it a row beside the window's or a part of it."""
        windows = sorted(service.windows(topic.name).items())
        return [next((one[kind][name]["verdict"] for kind in ("sinks", "readers") if name in one.get(kind, {})), one["verdict"])
                for _, one in windows]  # fmt: skip

    run(0)
    run(1, audit_bootstrap="127.0.0.1:1")  # its audit cluster is away: nothing listens there
    run(2)
    try:
        service.start()
        eventually(lambda: verdicts() == ["COMPLETE", "UNKNOWN", "COMPLETE"], what="each window judged", within_ms=60_000)
        run(3)
        seen = set[str]()

        def judged_later() -> bool:
            found = verdicts()
            seen.add(found[1])
            return found == ["COMPLETE", "UNKNOWN", "COMPLETE", "COMPLETE"]

        eventually(judged_later, what="a later window judged", within_ms=60_000)
        assert seen <= {"UNKNOWN", "OPEN"}, "later reports of the group give it time again, and never make it complete"
    finally:
        service.process.kill()
