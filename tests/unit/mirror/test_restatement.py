"""What the mirror says again: only what the destination's log holds, in bounded ranges, up to where it has reported."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.audit.model.messages import Stretch
from headrace.audit.model.windows import WINDOW_MS
from headrace.audit.publisher import RangeReporter
from headrace.client.fetch.fetched import TopicPartition
from headrace.coordination.restate_requests import RestateRequest
from headrace.mirror import restatement
from headrace.mirror.restatement import Restatement, held_ranges
from headrace.wire.batch.record_batch import BatchHeader
from tests.support.audit_topic import AuditTopic, ReportedPositions
from tests.unit.mirror.test_bounds import batch_at

NAME = TopicPartition("clicks", 0)
Log = list[tuple[BatchHeader, memoryview]]


def log_of(*windows: int) -> Log:
    """Return batches one after another, one record each, in these windows."""
    batches: Log = []
    for window in windows:
        batches.append(batch_at(batches[-1][0].next_offset if batches else 0, window * WINDOW_MS))
    return batches


def told(batches: Log) -> list[Stretch]:
    return [Stretch(header.base_offset, 1, header.crc) for header, _ in batches]


def test_what_lies_together_is_one_range_with_each_batch_in_its_window() -> None:
    log = log_of(0, 0, 1)
    end = log[-1][0].next_offset
    ((start, to_offset, windows),) = held_ranges(log, 0, end)
    assert (start, to_offset) == (0, end)
    assert {window: list(found.held) for window, found in windows.items()} == {0: told(log[:2]), WINDOW_MS: told(log[2:])}


def test_of_offsets_that_the_log_does_not_hold_nothing_is_said() -> None:
    log = log_of(0, 0, 0, 0)
    end = log[-1][0].next_offset
    with_a_gap = [log[0], log[2], log[3]]
    assert [one[:2] for one in held_ranges(with_a_gap, 0, end)] == [(0, log[0][0].next_offset), (log[2][0].position, end)]
    assert list(held_ranges([], 0, end)) == []


def test_a_range_ends_after_so_many_bytes() -> None:
    log = log_of(*range(7))
    ranges = list(held_ranges(log, 0, log[-1][0].next_offset, chunk_bytes=3 * log[0][0].size_bytes))
    assert [len(windows) for _, _, windows in ranges] == [3, 3, 1]
    assert [one.to_offset for one in ranges[:-1]] == [one.from_offset for one in ranges[1:]]


class Wishes:
    """RestateRequests in memory."""

    def __init__(self) -> None:
        self.made: dict[tuple[str, str, int], tuple[int, int]] = {}
        self.moves: list[int] = []

    def ask(self, tier: str, topic: str, partition: int) -> None:
        _, version = self.made.get((tier, topic, partition), (0, -1))
        self.made[tier, topic, partition] = (0, version + 1)

    def open(self, tier: str) -> list[RestateRequest]:
        return [RestateRequest(*key, *value) for key, value in self.made.items() if key[0] == tier]

    def move(self, request: RestateRequest, from_offset: int) -> RestateRequest | None:
        if request not in self.open(request.tier):
            return None
        self.moves.append(from_offset)
        self.made[request[:3]] = (from_offset, request.version + 1)
        return request._replace(from_offset=from_offset, version=request.version + 1)

    def end(self, request: RestateRequest) -> bool:
        return request in self.open(request.tier) and self.made.pop(request[:3]) is not None


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Restatement, Wishes, AuditTopic, ReportedPositions, Log]]:
    """A restatement over a log of six batches, of which the mirror has reported five; a range holds two."""
    log = log_of(*range(6))
    topic, positions, wishes = AuditTopic(), ReportedPositions(), Wishes()
    positions.noted["mirror", "clicks", 0] = log[4][0].next_offset
    one = Restatement("127.0.0.1:1", RangeReporter(tier="mirror", instance="m", sender=topic, positions=positions), wishes)

    def read_range(cluster: Any, name: str, partition: int, start: int, end: int, **_: Any) -> Iterator[Any]:
        return (batch for batch in log if batch[0].next_offset > start and batch[0].position < end)

    monkeypatch.setattr(restatement, "read_range", read_range)
    monkeypatch.setattr(restatement, "log_range", lambda cluster, name: (0, log[-1][0].next_offset))
    monkeypatch.setattr(one._cluster, "partitions", lambda name: [0])
    monkeypatch.setattr(restatement, "held_ranges", lambda *args: held_ranges(*args, chunk_bytes=2 * log[0][0].size_bytes))
    yield one, wishes, topic, positions, log
    one.stop()


def test_a_wish_is_carried_out_up_to_where_the_mirror_has_reported_and_then_gone(parts: Any) -> None:
    one, wishes, topic, positions, log = parts
    wishes.ask("mirror", "clicks", 0)
    assert one._turn() is None
    reported = log[4][0].next_offset
    assert [(r.from_offset, r.to_offset) for r in topic.ranges] == [
        (0, log[1][0].next_offset),
        (log[1][0].next_offset, log[3][0].next_offset),
        (log[3][0].next_offset, reported),
    ]
    assert [stretch for r in topic.ranges for window in r.windows.values() for stretch in window.held] == told(log[:5])
    assert positions.noted["mirror", "clicks", 0] == reported
    assert not wishes.made


def test_a_mirror_that_ended_meanwhile_goes_on_where_it_was(parts: Any) -> None:
    one, wishes, topic, _, log = parts
    wishes.ask("mirror", "clicks", 0)
    topic.at_send = lambda: one._stopping.set()
    one._turn()
    assert wishes.made == {("mirror", "clicks", 0): (log[1][0].next_offset, 1)}
    one._stopping.clear()
    topic.at_send = lambda: None
    one._turn()
    assert [r.from_offset for r in topic.ranges] == [0, log[1][0].next_offset, log[3][0].next_offset]
    assert not wishes.made


def test_a_wish_made_again_meanwhile_begins_anew(parts: Any) -> None:
    one, wishes, topic, _, log = parts
    wishes.ask("mirror", "clicks", 0)
    topic.at_send = lambda: wishes.ask("mirror", "clicks", 0)
    one._turn()
    assert list(wishes.made.values()) == [(0, 1)]
    topic.at_send = lambda: None
    one._turn()
    assert [r.from_offset for r in topic.ranges] == [0, 0, log[1][0].next_offset, log[3][0].next_offset]


def test_a_wish_about_what_was_never_reported_ends_without_a_word(parts: Any) -> None:
    one, wishes, topic, positions, _ = parts
    positions.noted.clear()
    wishes.ask("mirror", "clicks", 0)
    one._turn()
    assert not wishes.made
    assert not topic.ranges


def test_a_report_that_does_not_arrive_leaves_the_wish(parts: Any) -> None:
    one, wishes, topic, _, _ = parts
    wishes.ask("mirror", "clicks", 0)
    topic.refuses = True
    assert "the broker is away" in str(one._turn())
    assert list(wishes.made.values()) == [(0, 0)]
