"""What a producer tells: announced first, absolute counts, sealed at the end, nothing lost when the topic is away."""

import threading

import pytest

from headrace.audit.model.build_facts import window_facts
from headrace.audit.model.errors import AuditError
from headrace.audit.model.messages import MAX_WINDOWS, ProducerReport
from headrace.audit.model.runs import RunKey
from headrace.audit.model.tier_reports import TierReports
from headrace.audit.publisher import ProducerReporter, ReportNotSent
from headrace.runtime.clock import ManualClock
from tests.support.audit_topic import AuditTopic

from ..world import NoJournal

W = 600_000


def reporter(topic: AuditTopic, clock: ManualClock | None = None, most_windows: int = 5_000) -> ProducerReporter:
    return ProducerReporter(instance="host/app/1", sender=topic, clock=clock or ManualClock(5_000), most_windows=most_windows)


def books_of(reports: list[ProducerReport]) -> TierReports:
    books = TierReports(W)
    for report in reports:
        books.take_producer(report, 1, NoJournal(), is_audited=lambda topic: True)
    return books


def acknowledged(reports: list[ProducerReport], topic: str, window: int) -> int:
    facts = window_facts(books_of(reports), topic, window)
    return sum(sum(by_partition.values()) for by_partition in facts.acknowledged.values())


def test_the_first_message_announces_before_anything_is_counted() -> None:
    topic = AuditTopic()
    one = reporter(topic)
    one.announce(["clicks"], [7])
    (said,) = topic.producers
    assert (said.sequence, said.state, said.epoch) == (0, "open", 5_000)
    assert (said.topics, said.producer_ids, said.windows) == (("clicks",), (7,), ())


def test_a_beat_tells_only_what_changed_and_tells_it_whole() -> None:
    topic = AuditTopic()
    one = reporter(topic)
    one.acknowledged("clicks", 0, 0, 5)
    one.acknowledged("clicks", 1, W, 2)
    one.beat()
    one.acknowledged("clicks", 0, 0, 3)
    one.beat()
    one.beat()
    assert [len(said.windows) for said in topic.producers] == [2, 1, 0]
    assert dict(topic.producers[1].windows[0].counts) == {0: 8}


def test_named_losses_are_told_and_other_names_are_refused() -> None:
    topic = AuditTopic()
    one = reporter(topic)
    one.lost("clicks", 0, "quarantined")
    one.lost("clicks", 0, "dropped_buffer_full", 4)
    with pytest.raises(AuditError, match="evaporated"):
        one.lost("clicks", 0, "evaporated")
    one.seal_and_close()
    assert dict(topic.producers[-1].windows[0].losses) == {"quarantined": 1, "dropped_buffer_full": 4}


def test_moved_past_never_goes_back() -> None:
    topic = AuditTopic()
    one = reporter(topic)
    one.beat(moved_past_ms=2 * W)
    one.beat(moved_past_ms=W)
    one.beat()
    assert [said.moved_past_ms for said in topic.producers] == [2 * W] * 3


def test_the_seal_comes_with_the_last_counts_and_ends_the_run() -> None:
    topic = AuditTopic()
    one = reporter(topic)
    one.acknowledged("clicks", 0, 0, 5)
    one.seal_and_close()
    one.seal_and_close()
    assert [said.state for said in topic.producers] == ["closed"]
    with pytest.raises(AuditError, match="sealed and closed"):
        one.beat()


def test_many_windows_come_in_bounded_messages_of_which_only_the_last_seals() -> None:
    topic = AuditTopic()
    one = reporter(topic)
    for at in range(2 * MAX_WINDOWS + 1):
        one.acknowledged("clicks", 0, at * W, 1)
    one.seal_and_close()
    assert [len(said.windows) for said in topic.producers] == [MAX_WINDOWS, MAX_WINDOWS, 1]
    assert [said.state for said in topic.producers] == ["open", "open", "closed"]
    assert [said.sequence for said in topic.producers] == [0, 1, 2]


def test_counts_survive_a_topic_that_is_away_and_the_gap_is_healed() -> None:
    topic = AuditTopic()
    one = reporter(topic)
    one.announce(["clicks"], [7])
    one.acknowledged("clicks", 0, 0, 5)
    topic.refuses = topic.loses = True
    with pytest.raises(ReportNotSent, match="the broker is away"):
        one.beat()
    topic.refuses = topic.loses = False
    one.seal_and_close()
    books = books_of(topic.producers)
    assert acknowledged(topic.producers, "clicks", 0) == 5
    run = books.runs[RunKey("host/app/1", 5_000)]
    assert run.is_closed
    assert not run.gaps


def test_a_message_given_up_later_is_said_again() -> None:
    topic = AuditTopic()
    one = reporter(topic)
    one.acknowledged("clicks", 0, 0, 5)
    topic.loses = True
    one.beat()
    topic.loses = False
    one.delivery_failed()
    one.beat()
    assert acknowledged(topic.producers, "clicks", 0) == 5
    assert not books_of(topic.producers).runs[RunKey("host/app/1", 5_000)].gaps


def test_counting_never_waits_for_a_report_that_is_being_sent() -> None:
    """The producer's own thread counts acknowledgements: were it to wait for a send that waits for it, all would stand still."""
    topic = AuditTopic()
    one = reporter(topic)

    def count_from_another_thread() -> None:
        counting = threading.Thread(target=one.acknowledged, args=("clicks", 0, 0, 1))
        counting.start()
        counting.join(timeout=5)
        assert not counting.is_alive()

    topic.at_send = count_from_another_thread
    one.beat()
    topic.at_send = lambda: None
    one.seal_and_close()
    assert acknowledged(topic.producers, "clicks", 0) == 1


def test_too_many_windows_begin_a_new_epoch_and_the_epochs_add_up() -> None:
    topic = AuditTopic()
    clock = ManualClock(5_000)
    one = reporter(topic, clock, most_windows=3)
    one.announce(["clicks"], [7])
    for round_ in range(4):
        for at in range(4):
            one.acknowledged("clicks", 0, at * W, 1)
        clock.advance(1_000)
        one.beat()
        assert len(one._tallies) <= 4, round_
    one.seal_and_close()
    assert {said.epoch for said in topic.producers} > {5_000}
    assert [acknowledged(topic.producers, "clicks", at * W) for at in range(4)] == [4] * 4
    books = books_of(topic.producers)
    assert all(run.is_closed and not run.gaps for run in books.runs.values())
