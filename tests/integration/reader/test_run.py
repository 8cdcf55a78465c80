"""`EventReader.run` against a real broker, ZooKeeper, registry and audit service: each record handled, reported and committed."""

import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headrace.reader import EventReader, EventRecord, HandlerFailed, Quarantine
from tests.support.audit_service import AuditService
from tests.support.live_side import LiveSide
from tests.support.processes import Process, eventually

from .topics import START_MS, Topic

SETTINGS = """
[service]
discover_ms = 200
judge_every_ms = 200
[deadlines_ms]
default = 4000
[topics.default]
tiers = ["live"]
"""


class Running:
    """`run` in a thread; what the handler got."""

    def __init__(self, reader: EventReader[object], handle: Any = None, **options: Any) -> None:
        self.reader, self.seen, self.error = reader, list[EventRecord](), None
        self._thread = threading.Thread(target=self._run, args=(handle or self.seen.append, options), daemon=True)
        self._thread.start()

    def _run(self, handle: Any, options: dict[str, Any]) -> None:
        try:
            self.reader.run(handle, **options)
        except BaseException as error:
            self.error = error

    @property
    def numbers(self) -> list[int]:
        return sorted(one.event["number"] for one in self.seen)

    def stop(self) -> None:
        self.reader.stop()
        self.join()
        if self.error is not None:
            raise self.error

    def join(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()


def test_each_record_is_handled_once_and_committed_and_a_second_run_goes_on_behind(live: LiveSide) -> None:
    topic = Topic(live).send(range(100))
    first = Running(topic.reader())
    eventually(lambda: first.numbers == [*range(100)], what="all handled")
    first.stop()
    assert topic.committed() == topic.ends()
    one = first.seen[0]
    assert (one.topic, one.key, one.timestamp_ms) == (
        topic.name,
        f"k{one.event['number']}".encode(),
        START_MS + one.event["number"],
    )
    found = first.reader.statistics
    assert (found.read, found.handled, found.in_work, found.quarantined) == (100, 100, 0, 0)
    topic.send(range(100, 130))
    second = Running(topic.reader())
    eventually(lambda: second.numbers == [*range(100, 130)], what="only the new ones")
    second.stop()


@pytest.mark.parametrize("kind", ["kafka", "zookeeper"])
def test_members_and_threads_share_the_partitions(live: LiveSide, zookeeper: str, kind: str) -> None:
    topic = Topic(live, partitions=4).send(range(200))
    settings = {"zookeeper": zookeeper} if kind == "zookeeper" else {}
    one = Running(topic.reader(**settings), threads=2)
    two = Running(topic.reader(**settings), threads=2)
    late = 200

    def both_work() -> bool:
        nonlocal late
        topic.send(range(late, late + 20))
        late += 20
        return bool(one.seen) and bool(two.seen)

    eventually(both_work, what="both have partitions", every_ms=300, within_ms=40_000)
    eventually(lambda: {*one.numbers, *two.numbers} == {*range(late)}, what="all handled", within_ms=40_000)
    one.stop()
    topic.send(range(late, late + 40))
    eventually(lambda: {*one.numbers, *two.numbers} == {*range(late + 40)}, what="the other goes on alone", within_ms=40_000)
    two.stop()
    if kind == "kafka":
        assert topic.committed() == topic.ends()
    again = Counter([*one.numbers, *two.numbers])
    assert all(count == 1 for count in again.values()), "handovers in order hand out nothing twice"


def test_what_is_no_event_goes_to_quarantine_and_the_rest_is_handled(live: LiveSide) -> None:
    topic = Topic(live, partitions=1).send(range(3)).poison(b"no avro").poison(b"\0\x7f\xff\xff\xff!").send(range(3, 6))
    running = Running(topic.reader())
    eventually(lambda: running.numbers == [*range(6)], what="the events")
    running.stop()
    assert [code for _, _, code in topic.quarantined()] == ["not_framed", "unknown_schema_id"]
    assert topic.committed() == topic.ends()
    assert running.reader.statistics.quarantined == 2


def test_a_record_that_always_fails_goes_to_quarantine_after_three_attempts(live: LiveSide) -> None:
    topic, attempts, done = Topic(live, partitions=1).send(range(10)), Counter[int](), list[int]()

    def handle(record: EventRecord) -> None:
        attempts[record.event["number"]] += 1
        if record.event["number"] == 4 or (record.event["number"] == 6 and attempts[6] < 3):
            raise RuntimeError("not this one")
        done.append(record.event["number"])

    running = Running(topic.reader(), handle, on_error=Quarantine(after=3))
    eventually(lambda: done == [0, 1, 2, 3, 5, 6, 7, 8, 9], what="all others")
    running.stop()
    assert (attempts[4], attempts[6]) == (3, 3)
    ((_, _, code),) = topic.quarantined()
    assert code == "handler_failed"
    assert topic.committed() == topic.ends()


def test_an_error_stops_the_reader_in_front_of_its_record(live: LiveSide) -> None:
    topic, done = Topic(live, partitions=1).send(range(10)), list[int]()

    def handle(record: EventRecord) -> None:
        if record.event["number"] == 4:
            raise RuntimeError("not this one")
        done.append(record.event["number"])

    running = Running(topic.reader(), handle)
    running.join()
    assert isinstance(running.error, HandlerFailed)
    assert f"{topic.name}-0: RuntimeError: not this one" in str(running.error)
    assert done == [0, 1, 2, 3]
    assert topic.committed() == {0: running.error.offset}
    again = Running(topic.reader())
    eventually(lambda: again.numbers == [4, 5, 6, 7, 8, 9], what="from that record on")
    again.stop()


def test_the_audit_knows_what_was_handled_and_what_was_not(live: LiveSide, tmp_path: Path) -> None:
    topic = Topic(live).send(range(50)).poison(b"no avro").send(range(50, 70), window=1)
    service = AuditService(tmp_path / "audit", live.bootstrap, settings=SETTINGS)
    running = Running(topic.reader())

    def counted() -> bool:
        windows = service.windows(topic.name)
        row = [_row(windows.get(START_MS + number * 600_000, {}), f"consumer:{topic.group}") for number in (0, 1)]
        assert {one["verdict"] for one in windows.values()} == {"COMPLETE"}, windows
        return row == [50, 20]

    try:
        service.start()
        eventually(counted, what="the reader's own count in both windows", within_ms=60_000)
        running.stop()
    finally:
        service.process.kill()


def _row(window: dict[str, Any], tier: str) -> int | None:
    """Return the tier's count, be it one of the chain or beside the verdict."""
    count = window.get("tiers", {}).get(tier)
    return count if count is not None else window.get("sinks", {}).get(tier, {}).get("count")


PROGRAM = """
import logging
import sys
from pathlib import Path
from headrace.reader import EventReader
topic, group, bootstrap, registry, out = sys.argv[1:]
logging.basicConfig(level=logging.INFO)
reader = EventReader(topic, group=group, bootstrap=bootstrap, registry_url=registry, schema_cache=None, flush_every_ms=100,
                     session_timeout_ms=1_500, audit=False)
with open(out, "a", buffering=1) as lines:
    reader.run(lambda record: lines.write(f"{record.event['number']}\\n"))
"""


def test_killed_at_random_it_loses_nothing_and_sigterm_ends_it_in_order(live: LiveSide, tmp_path: Path) -> None:
    topic, out = Topic(live).send(range(500)), tmp_path / "out"
    words = [sys.executable, "-c", PROGRAM, topic.name, topic.group, live.bootstrap, live.registry_url, str(out)]

    def numbers() -> list[int]:
        return [int(line) for line in out.read_text().split()] if out.exists() else []

    process = Process(words, tmp_path / "log")
    for turn in range(4):
        process.start()
        due = 500 + turn * 100
        eventually(lambda due=due: len({*numbers()}) >= due, what=f"turn {turn}; {process.output()[-2000:]}", within_ms=40_000)
        topic.send(range(500 + turn * 100, 600 + turn * 100))
        process.kill()
    process.start()
    eventually(lambda: {*numbers()} == {*range(900)}, what=f"all; {process.output()[-2000:]}", within_ms=40_000)
    assert process.stop() == 0, process.output()[-3000:]
    assert topic.committed() == topic.ends()
    assert process.output().count("reader_stopped") == 1, "its closing line"
