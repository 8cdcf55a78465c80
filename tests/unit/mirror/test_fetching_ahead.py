"""The fetch under way while the one before it is appended, and the count behind both: when each happens, when an answer is not
used, and what a count that fails leaves behind.
"""

from typing import Any

import pytest

from headrace.audit.publisher import RangeReporter
from headrace.audit.publisher.range_reporter import UnreportedBacklog
from headrace.client.errors import BrokerUnreachable
from headrace.client.fetch.fetched import FetchedPartition, TopicPartition
from headrace.client.fetch.wanted import Wanted
from headrace.mirror.destination import Append, Appended
from headrace.mirror.forwarder import FETCH_WAIT_MS, Forwarder
from headrace.mirror.partition_copy import Ends, PartitionCopy, Phase, TailComparison
from headrace.mirror.placement import Standing
from tests.support.audit_topic import AuditTopic, ReportedPositions
from tests.unit.mirror.test_bounds import NAME, batch_at, begin, forwarder_of

LOG = [batch_at(0, 1)]
for _ in range(4):
    LOG.append(batch_at(LOG[-1][0].next_offset, 1))
END = LOG[-1][0].next_offset


class OneBatchAtATime:
    """The source: a log of five batches, one a fetch. Notes what happens in which order."""

    def __init__(self, happened: list[str]) -> None:
        self.happened = happened
        self.max_wait_ms = -1
        self.waits: list[int] = []

    def begin(self, wanted: Wanted) -> dict[TopicPartition, int]:
        self.happened.append(f"asked {wanted.offsets[NAME]}")
        self.waits.append(self.max_wait_ms)
        return dict(wanted.offsets)

    def finish(self, wanted: dict[TopicPartition, int]) -> list[FetchedPartition]:
        offset = wanted[NAME]
        self.happened.append(f"came {offset}")
        batches = [one for one in LOG if one[0].position >= offset][:1]
        return [
            FetchedPartition(
                topic=NAME.topic,
                partition=NAME.partition,
                requested_offset=offset,
                high_watermark=END,
                log_start_offset=0,
                batches=batches,
            )
        ]


class Destination:
    """Confirms every append, but those that fail."""

    def __init__(self, happened: list[str]) -> None:
        self.happened = happened
        self.fails_next = False
        self._ended: list[Appended] = []

    @property
    def is_busy(self) -> bool:
        return bool(self._ended)

    def begin(self, appends: list[Append]) -> None:
        for one in appends:
            self.happened.append(f"appended {one.batches[0][0].position}")
            error = BrokerUnreachable("there", "Produce", "gone", was_sent=True) if self.fails_next else None
            self._ended.append(Appended(append=one, error=error))

    def finish(self) -> list[Appended]:
        ended, self._ended = self._ended, []
        return ended


def copying() -> tuple[Forwarder, OneBatchAtATime, Destination, list[str]]:
    happened: list[str] = []
    reporter = RangeReporter(tier="mirror", instance="m", sender=AuditTopic(), positions=ReportedPositions())
    source, destination = OneBatchAtATime(happened), Destination(happened)
    forwarder: Any = forwarder_of(reporter, destination=destination)
    forwarder._fetching.fetcher = source
    forwarder._discover = forwarder._placement.look = lambda: None
    forwarder._resume = lambda: False
    begin(forwarder, NAME, PartitionCopy(phase=Phase.COPYING))
    reporter.begin(*NAME, 0)
    return forwarder, source, destination, happened


def offset(number: int) -> int:
    return LOG[number][0].position


def test_the_next_fetch_is_asked_for_before_what_came_is_appended_and_only_where_there_is_more() -> None:
    forwarder, source, _, happened = copying()
    for _ in range(len(LOG)):
        assert forwarder.turn()
    expected = [f"asked {offset(0)}"]
    for number in range(len(LOG)):
        expected += [f"came {offset(number)}"]
        expected += [f"asked {offset(number + 1)}"] if number + 1 < len(LOG) else []
        expected += [f"appended {offset(number)}"]
    assert happened == expected
    assert source.waits == [FETCH_WAIT_MS, 0, 0, 0, 0]
    forwarder.finish()
    assert forwarder.copies()[NAME].copied_to == END


def test_what_was_asked_for_behind_an_append_that_failed_is_not_used() -> None:
    forwarder, _, destination, happened = copying()
    destination.fails_next = True
    assert forwarder.turn()  # the first is on its way, and the second is asked for
    destination.fails_next = False
    forwarder.turn()
    assert forwarder.copies()[NAME].phase is Phase.RESUMING
    assert happened == [
        f"asked {offset(0)}",
        "came 0",
        f"asked {offset(1)}",
        "appended 0",
        f"came {offset(1)}",
        f"asked {offset(2)}",
    ]
    forwarder.turn()
    assert not forwarder.turn()
    assert not any(one.startswith("appended") for one in happened[4:])


def test_what_was_asked_for_before_both_ends_were_read_anew_is_not_used() -> None:
    """The topic may be another one since, with other bytes at the same offset."""
    forwarder, _, _, happened = copying()
    assert forwarder.turn()
    forwarder.finish()
    ends = Ends(source_start=0, source_end=END, destination_start=0, destination_end=offset(1))
    forwarder._resume_one(NAME, Standing(ends=ends, comparison=TailComparison.SAME), None)
    assert forwarder.copies()[NAME].fetch_offset == offset(1)
    del happened[:]
    assert forwarder.turn()
    assert happened[:3] == [f"came {offset(1)}", f"asked {offset(1)}", f"came {offset(1)}"]
    assert happened.count(f"appended {offset(1)}") == 1


def test_what_is_confirmed_is_counted_while_the_next_is_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    forwarder, _, _, happened = copying()
    reporter: Any = forwarder._counting.reporter
    add = reporter.add_batches
    note = lambda *words: (happened.append(f"counted {words[2][0][0].position}"), add(*words))[1]  # noqa: E731
    monkeypatch.setattr(reporter, "add_batches", note)
    for _ in range(2):
        assert forwarder.turn()
    assert happened[-2:] == [f"appended {offset(1)}", "counted 0"]
    forwarder.finish()
    assert happened[-1] == f"counted {offset(1)}"
    assert reporter.position(*NAME) == offset(2)


def test_a_count_that_fails_behind_the_next_append_leaves_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next append is confirmed anyway. It must not be counted in the place of what comes before it."""
    forwarder, _, _, _ = copying()
    reporter: Any = forwarder._counting.reporter
    assert forwarder.turn()
    with monkeypatch.context() as patch:
        patch.setattr(reporter, "add_batches", lambda *_: 0)
        patch.setattr(reporter, "publish", lambda _: (_ for _ in ()).throw(UnreportedBacklog("no room")))
        assert forwarder.turn()
    assert forwarder.copies()[NAME].phase is Phase.RESUMING
    forwarder.finish()  # the append that was sent before the count failed
    assert reporter.position(*NAME) == 0
    ends = Ends(source_start=0, source_end=END, destination_start=0, destination_end=offset(2))
    forwarder._resume_one(NAME, Standing(ends=ends, comparison=TailComparison.SAME), None)
    counted = []
    add = reporter.add_batches
    monkeypatch.setattr(reporter, "add_batches", lambda *words: (counted.append(words[2][0][0].position), add(*words))[1])
    while forwarder.copies()[NAME].copied_to < END:
        forwarder.turn()
    forwarder.finish()
    assert counted == [header.position for header, _ in LOG]
    assert reporter.position(*NAME) == END
