"""What a producer tells: announced first, every batch once, sealed at the end, nothing lost when the audit topic is away."""

import random
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audit.model.errors import AuditError
from headrace.audit.model.messages import MAX_STRETCHES, MAX_WINDOWS, Renumbered, SentRanges, Stretch
from headrace.audit.publisher import ProducerReporter, ReportNotSent
from headrace.client.producer.delivery import DeliveryEnd
from headrace.runtime.clock import ManualClock
from tests.support.audit_topic import AuditTopic
from tests.support.told_by_producers import delivery, told

W = 600_000
LAST = (1 << 31) - 1


def reporter(topic: AuditTopic, clock: ManualClock | None = None, **bounds: int) -> ProducerReporter:
    return ProducerReporter(instance="host/app/1", sender=topic, clock=clock or ManualClock(5_000), **bounds)  # type: ignore[arg-type]


def test_the_first_message_announces_before_anything_is_told() -> None:
    topic = AuditTopic()
    one = ProducerReporter(instance="host/app/1", sender=topic, clock=ManualClock(5_000), only_between_ms=(3, 9))
    one.announce(["clicks"], [7])
    (report,) = topic.producers
    assert (report.sequence, report.state, report.epoch) == (0, "open", 5_000)
    assert (report.topics, report.producer_ids, report.windows) == (("clicks",), (7,), ())
    assert report.only_between_ms == (3, 9)


def test_a_beat_tells_each_batch_once_and_with_its_end() -> None:
    topic = AuditTopic()
    one = reporter(topic)
    one.ended(0, delivery((7, 0, 11), count=5))
    one.ended(0, delivery((7, 5, 12), count=2, end=DeliveryEnd.UNCERTAIN))
    one.ended(W, delivery((7, 0, 13), count=2, partition=1))
    one.beat()
    one.ended(0, delivery((8, 0, 14), count=3))
    one.beat()
    one.beat()
    first, second, third = topic.producers
    name = {"partition": 0, "producer_id": 7, "producer_epoch": 0}
    assert [(window.window_start_ms, window.sent) for window in first.windows] == [
        (0, (SentRanges(**name, acknowledged=(Stretch(0, 5, 11),)), SentRanges(**name, uncertain=(Stretch(5, 2, 12),)))),
        (W, (SentRanges(partition=1, producer_id=7, producer_epoch=0, acknowledged=(Stretch(0, 2, 13),)),)),
    ]
    assert [window.window_start_ms for window in second.windows] == [0]
    assert third.windows == ()


def test_a_batch_that_was_sent_under_other_numbers_is_told_under_both() -> None:
    topic = AuditTopic()
    one = reporter(topic)
    one.ended(0, delivery((7, 5, 11), (8, 0, 12), (9, 0, 13), count=2))
    one.seal_and_close()
    sent = {one.producer_id: one for one in topic.producers[-1].windows[0].sent}
    assert sent[7].renumbered == (Renumbered(Stretch(5, 2, 11), 8, 0, 0),)
    assert sent[8].renumbered == (Renumbered(Stretch(0, 2, 12), 9, 0, 0),)
    assert sent[9].acknowledged == (Stretch(0, 2, 13),)


def test_stretches_end_where_sequence_numbers_begin_again() -> None:
    topic = AuditTopic()
    one = reporter(topic)
    one.ended(0, delivery((7, LAST - 1, 11), (8, LAST - 2, 12), count=5))
    one.seal_and_close()
    sent = {one.producer_id: one for one in topic.producers[-1].windows[0].sent}
    assert sent[8].acknowledged == (Stretch(LAST - 2, 3, 12), Stretch(0, 2, 12))
    assert sent[7].renumbered == (
        Renumbered(Stretch(LAST - 1, 2, 11), 8, 0, LAST - 2),
        Renumbered(Stretch(0, 1, 11), 8, 0, LAST),
        Renumbered(Stretch(1, 2, 11), 8, 0, 0),
    )


def test_losses_are_told_by_name_as_totals_and_other_names_are_refused() -> None:
    topic = AuditTopic()
    one = reporter(topic)
    one.lost("clicks", 0, "quarantined")
    one.ended(0, delivery(count=3, end=DeliveryEnd.REFUSED))
    one.ended(0, delivery(count=4, end=DeliveryEnd.NEVER_SENT, partition=-1))
    one.beat()
    one.lost("clicks", 0, "quarantined", 2)
    with pytest.raises(AuditError, match="evaporated"):
        one.lost("clicks", 0, "evaporated")
    one.seal_and_close()
    assert dict(topic.producers[0].windows[0].losses) == {"quarantined": 1, "refused": 3, "send_failed": 4}
    assert dict(topic.producers[1].windows[0].losses) == {"quarantined": 3, "refused": 3, "send_failed": 4}


def test_moved_past_never_goes_back() -> None:
    topic = AuditTopic()
    one = reporter(topic)
    one.beat(moved_past_ms=2 * W)
    one.beat(moved_past_ms=W)
    one.beat()
    assert [report.moved_past_ms for report in topic.producers] == [2 * W] * 3


def test_the_seal_comes_with_the_last_batches_and_ends_the_run() -> None:
    topic = AuditTopic()
    one = reporter(topic)
    one.ended(0, delivery((7, 0, 11)))
    one.seal_and_close()
    one.seal_and_close()
    assert [report.state for report in topic.producers] == ["closed"]
    with pytest.raises(AuditError, match="sealed and closed"):
        one.beat()


def test_much_to_tell_comes_in_bounded_messages_of_which_only_the_last_seals() -> None:
    """`AuditTopic` refuses a message of half a megabyte."""
    topic = AuditTopic()
    one = reporter(topic)
    for at in range(MAX_WINDOWS + 1):
        one.ended(at * W, delivery((7, at, at)))
        one.lost("clicks", at * W, "quarantined")
    for at in range(2 * MAX_STRETCHES):
        one.ended(-W, delivery((7, 1_000_000 + 2 * at, (1 << 32) - 1 - at)))
        one.ended(0, delivery((7, 1_000_000 + 2 * at + 1, at), partition=at % 3_000))
    one.seal_and_close(timeout_ms=1)
    assert len(topic.producers) > 4
    assert [report.state for report in topic.producers] == ["open"] * (len(topic.producers) - 1) + ["closed"]
    assert [report.sequence for report in topic.producers] == list(range(len(topic.producers)))
    assert all(len(report.windows) <= MAX_WINDOWS for report in topic.producers)
    found = told(topic.producers)
    assert sum(len(window.acknowledged) for window in found.values()) == MAX_WINDOWS + 1 + 4 * MAX_STRETCHES
    assert all(window.losses == {"quarantined": 1} for (_, start), window in found.items() if start >= 0)


@pytest.mark.parametrize("loses", [True, False])
def test_a_report_that_failed_is_said_again_under_its_own_number(loses: bool) -> None:
    topic = AuditTopic()
    one = reporter(topic)
    one.announce(["clicks"], [7])
    one.ended(0, delivery((7, 0, 11), count=5))
    topic.refuses, topic.loses = True, loses
    for sequence in (5, 6):
        with pytest.raises(ReportNotSent, match="the broker is away"):
            one.beat()
        one.ended(0, delivery((7, sequence, 11)))
    topic.refuses = topic.loses = False
    one.seal_and_close()
    assert len(told(topic.producers)["clicks", 0].acknowledged) == 7
    assert {report.sequence for report in topic.producers} == {0, 1, 2}, "no number is left out"
    assert (topic.producers[-1].sequence, topic.producers[-1].state) == (2, "closed")


def test_a_message_that_its_producer_gave_up_is_said_again() -> None:
    """The flush may have reported that to somebody else."""
    topic = AuditTopic()
    one = reporter(topic)
    one.ended(0, delivery((7, 0, 11), count=5))
    topic.loses, topic.at_send = True, one.delivery_failed
    with pytest.raises(ReportNotSent):
        one.beat()
    topic.loses, topic.at_send = False, lambda: None
    one.beat()
    assert len(told(topic.producers)["clicks", 0].acknowledged) == 5
    assert [report.sequence for report in topic.producers] == [0, 1]


def test_noting_never_waits_for_a_report_that_is_being_sent() -> None:
    """The producer's own thread notes acknowledgements: were it to wait for a send that waits for it, all would stand still."""
    topic = AuditTopic()
    one = reporter(topic)

    def note_from_another_thread() -> None:
        noting = threading.Thread(target=one.ended, args=(0, delivery((7, 0, 11))))
        noting.start()
        noting.join(timeout=5)
        assert not noting.is_alive()

    topic.at_send = note_from_another_thread
    one.beat()
    topic.at_send = lambda: None
    one.seal_and_close()
    assert len(told(topic.producers)["clicks", 0].acknowledged) == 1


def test_when_the_audit_topic_is_away_for_long_neighbours_become_one_and_nothing_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = AuditTopic()
    one = reporter(topic, most_stretches=50)
    for at in range(1_000):
        one.ended(0, delivery((7, 2 * at, at), count=2))
    assert one._unreported.stretch_count <= 52
    one.seal_and_close()
    (sent,) = topic.producers[-1].windows[0].sent
    assert (sent.acknowledged[0].first, sent.acknowledged[0].crc) == (0, None)
    assert sent.acknowledged[-1] == Stretch(1_998, 2, 999), "batches of late are told with their CRC"
    assert len({record[3] for record in told(topic.producers)["clicks", 0].acknowledged}) == 2_000
    assert "batches_reported_without_crc" in caplog.text


def test_batches_that_are_no_neighbours_cost_no_search_each() -> None:
    topic = AuditTopic()
    one = reporter(topic, most_stretches=10)
    for at in range(5_000):
        one.ended(0, delivery((7, 2 * at, at)))
    assert one._unreported._coalesce_at <= 4 * 5_000
    one.seal_and_close()
    assert len(told(topic.producers)["clicks", 0].acknowledged) == 5_000


def test_losses_in_too_many_windows_begin_a_new_epoch_and_the_epochs_add_up() -> None:
    topic = AuditTopic()
    clock = ManualClock(5_000)
    one = reporter(topic, clock, most_loss_windows=3)
    one.announce(["clicks"], [7], moved_past_ms=-W)
    for round_ in range(4):
        for at in range(4):
            one.lost("clicks", at * W, "quarantined")
            one.ended(at * W, delivery((7, 4 * round_ + at, 0)))
        clock.advance(1_000)
        topic.refuses = topic.loses = round_ % 2 == 1
        try:
            one.beat()
        except ReportNotSent:
            pass
    topic.refuses = topic.loses = False
    one.seal_and_close()
    found = told(topic.producers)
    assert [found["clicks", at * W].losses for at in range(4)] == [{"quarantined": 4}] * 4
    assert [len(found["clicks", at * W].acknowledged) for at in range(4)] == [4] * 4
    epochs = {report.epoch for report in topic.producers}
    assert len(epochs) > 2
    for epoch in epochs:
        said = [report for report in topic.producers if report.epoch == epoch]
        assert {report.sequence for report in said} == set(range(len({report.sequence for report in said})))
        assert (said[0].windows, said[0].topics, said[0].producer_ids) == ((), ("clicks",), (7,))
        assert all(report.moved_past_ms == -W for report in said)
        assert max(said, key=lambda report: report.sequence).state == "closed"


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_every_end_is_told_once_through_any_failures(seed: int) -> None:
    drawn = random.Random(seed)
    topic = AuditTopic()
    one = reporter(topic, most_stretches=drawn.choice([3, 1_000]), most_loss_windows=drawn.choice([1, 100]))
    sequences: dict[tuple[int, int], int] = {}
    acknowledged: dict[int, set[tuple[int, int, int]]] = {}
    uncertain: dict[int, set[tuple[int, int, int]]] = {}
    losses: dict[int, int] = {}
    for _ in range(60):
        window, partition, producer_id = drawn.randrange(3) * W, drawn.randrange(2), drawn.choice([7, 8])
        count = drawn.randint(1, 4)
        first = sequences.get((partition, producer_id), LAST - 20)
        match drawn.randrange(5):
            case 0:
                one.lost("clicks", window, "quarantined", count)
                losses[window] = losses.get(window, 0) + count
            case 1:
                topic.loses = drawn.random() < 0.3
                topic.refuses = topic.loses or drawn.random() < 0.3
                try:
                    one.beat()
                except ReportNotSent:
                    pass
            case choice:
                end = DeliveryEnd.UNCERTAIN if choice == 2 else DeliveryEnd.ACKNOWLEDGED
                one.ended(window, delivery((producer_id, first, 1), count=count, end=end, partition=partition))
                into = uncertain if end is DeliveryEnd.UNCERTAIN else acknowledged
                records = {(partition, producer_id, (first + index) % (LAST + 1)) for index in range(count)}
                into.setdefault(window, set()).update(records)
                sequences[partition, producer_id] = (first + count) % (LAST + 1)
    topic.refuses = topic.loses = False
    one.seal_and_close()
    found = told(topic.producers)
    for window in range(0, 3 * W, W):
        if ("clicks", window) not in found:
            assert window not in acknowledged | uncertain | losses
            continue
        said = found["clicks", window]
        assert {(partition, id_, sequence) for partition, id_, _, sequence, _ in said.acknowledged} == acknowledged.get(
            window, set()
        )
        assert {(partition, id_, sequence) for partition, id_, _, sequence, _ in said.uncertain} == uncertain.get(window, set())
        assert sum(said.losses.values()) == losses.get(window, 0)
