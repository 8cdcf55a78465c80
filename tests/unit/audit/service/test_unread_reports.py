"""Store, checkpoints and older reports are lost: records of producers that spoke there are not taken for unaudited ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.audit.model.messages import (
    KnownDifference,
    ProducerReport,
    ProducerWindow,
    RangeReport,
    RangeWindow,
    SentRanges,
    Stretch,
)
from headrace.audit.model.tier_reports import LiveBatch, PartitionRead
from headrace.audit.service.store.log_books import LogRead
from headrace.client.fetch.fetched import TopicPartition
from tests.support.audit_parts import T0, Service, W

NAME = TopicPartition("clicks", 0)
UNREAD = "the reports of 15 records on live were lost before the audit read them: what else was sent is unknown"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path / "books.sqlite")
    yield made
    made.database.close()


def of_the_one_that_is_heard() -> ProducerReport:
    """Return the only report that is left: of a run with five records in the next window."""
    sent = SentRanges(partition=0, producer_id=8, producer_epoch=0, acknowledged=(Stretch(0, 5, 80),))
    return ProducerReport(
        instance="host/other", epoch=1, sequence=0, at_ms=1, state="closed", producer_ids=(8,), topics=("clicks",),
        windows=(ProducerWindow(topic="clicks", window_start_ms=T0 + W, sent=(sent,)),),
    )  # fmt: skip


def mirrored(first: int = 0) -> RangeReport:
    windows = {T0: RangeWindow(held=(Stretch(first, 15, 70),)), T0 + W: RangeWindow(held=(Stretch(first + 15, 5, 80),))}
    return RangeReport(
        tier="mirror", instance="m", at_ms=1, topic="clicks", partition=0, from_offset=0, to_offset=first + 20, windows=windows
    )


def read_live(service: Service, *, marked: bool, first: int = 0) -> None:
    """Fifteen records of id 7, of which no report is left, and five of id 8."""
    windows = {T0: [LiveBatch(first, 15, 70, 7, 0, 0)], T0 + W: [LiveBatch(first + 15, 5, 80, 8, 0, 0)]}
    found = PartitionRead(
        topic="clicks", partition=0, from_offset=0, to_offset=first + 20, windows=windows,
        marked={7: first, 8: first + 15} if marked else {},
    )  # fmt: skip
    generation, _ = service.ledger.logs.positions("live")
    service.clock.advance(1)
    service.ledger.logs.take_reads("live", generation, [LogRead(found=found)], {NAME: service.clock.now_ms()})


def hear_all(service: Service) -> None:
    """Live is read to its end again, and the audit topic twice."""
    generation, _ = service.ledger.logs.positions("live")
    service.clock.advance(1)
    service.ledger.logs.take_reads("live", generation, [], {NAME: service.clock.now_ms()})
    for _ in range(2):
        service.hear()


@pytest.mark.parametrize("is_read_first", [True, False], ids=["live is read first", "live is read later"])
def test_marked_batches_from_before_the_loss_are_unread_reports_and_never_complete(
    service: Service, *, is_read_first: bool
) -> None:
    """Fault: an INCOMPLETE window became COMPLETE with 15 'unaudited' when store, checkpoints and older reports were lost."""
    if is_read_first:
        read_live(service, marked=True)
    service.ledger.lose_reports({0: 100}, {NAME: 20})
    service.report(of_the_one_that_is_heard(), mirrored(), offset=100)
    if not is_read_first:
        read_live(service, marked=True)
    hear_all(service)
    first, second = service.windows()
    assert (first["verdict"], first["unread_reports"], first["unaudited"], first["reason"]) == ("UNKNOWN", 15, 0, UNREAD)
    assert second["verdict"] == "COMPLETE"


@pytest.mark.situation("audit's own data", "store, checkpoints and older reports are lost over an INCOMPLETE window")
def test_foreign_batches_stay_unaudited(service: Service) -> None:
    service.ledger.lose_reports({0: 100}, {NAME: 20})
    service.report(of_the_one_that_is_heard(), mirrored(), offset=100)
    read_live(service, marked=False)
    hear_all(service)
    assert [(one["verdict"], one["unaudited"]) for one in service.windows()] == [("COMPLETE", 15), ("COMPLETE", 0)]


def test_ids_that_begin_behind_the_loss_stay_unaudited(service: Service) -> None:
    """A program that writes with our producer and reports nothing announces nothing, and the audit topic is whole there."""
    service.ledger.lose_reports({0: 100}, {NAME: 30})
    service.report(of_the_one_that_is_heard(), mirrored(30), offset=100)
    read_live(service, marked=True, first=30)
    hear_all(service)
    assert service.verdicts() == {T0: "COMPLETE", T0 + W: "COMPLETE"}


def test_an_id_that_began_within_a_deadline_behind_the_loss_may_have_announced_itself_in_the_lost_part(service: Service) -> None:
    """Fault: it wrote for the first time after the loss was noticed, ended without a beat, and its window was COMPLETE."""
    service.ledger.lose_reports({0: 100}, {NAME: 30})
    service.report(of_the_one_that_is_heard(), mirrored(30), offset=100)
    read_live(service, marked=True, first=30)
    hear_all(service)
    service.ledger.lost_until({NAME: 50}, {NAME: 30})
    assert service.verdicts() == {T0: "UNKNOWN", T0 + W: "COMPLETE"}


def test_with_the_store_whole_an_id_that_wrote_before_all_was_heard_stays_unaudited(service: Service) -> None:
    read_live(service, marked=True)
    service.report(of_the_one_that_is_heard(), mirrored())
    for _ in range(3):
        hear_all(service)
    service.ledger.lose_reports({0: 0}, {NAME: 20})
    hear_all(service)
    assert service.verdicts() == {T0: "COMPLETE", T0 + W: "COMPLETE"}


def test_with_the_store_whole_an_id_that_wrote_since_all_was_heard_may_have_told_of_it_in_the_lost_part(service: Service) -> None:
    service.report(of_the_one_that_is_heard(), mirrored())
    hear_all(service)
    read_live(service, marked=True)
    service.ledger.lose_reports({0: 0}, {NAME: 20})
    hear_all(service)
    assert service.verdicts()[T0] == "UNKNOWN"


def test_it_is_still_known_after_a_restart_and_ended_by_a_person_s_word(service: Service) -> None:
    service.ledger.lose_reports({0: 100}, {NAME: 20})
    service.report(of_the_one_that_is_heard(), mirrored(), offset=100)
    read_live(service, marked=True)
    service.restart()
    read_live(service, marked=True)
    hear_all(service)
    assert service.verdicts()[T0] == "UNKNOWN"
    word = KnownDifference(
        topic="clicks", window_start_ms=T0, tier="producer", kind="lost", missing=15, doubled=0, altered=0, at_ms=1, by="anna",
        reason="the disk burned",
    )  # fmt: skip
    service.report(word, offset=102)
    hear_all(service)
    (first, _) = service.windows()
    assert (first["verdict"], first["retired"]) == ("ACCEPTED", ["producer, lost, said anna: the disk burned"])
