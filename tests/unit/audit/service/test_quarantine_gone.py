"""A quarantine topic is deleted: the records in it have no address any more, and their windows are not COMPLETE."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.audit.model.messages import KnownDifference, ProducerReport
from tests.support.audit_parts import T0, Service, W, mirror, producer

THERE = {"clicks": "1", "clicks.quarantine": "2"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path / "books.sqlite")
    yield made
    made.database.close()


def with_quarantined(service: Service) -> None:
    """Three events of the first window were put in quarantine by the application."""
    service.ledger.logs.see_quarantines(THERE)
    told: ProducerReport = producer({T0: 5, T0 + W: 3})
    first, second = told.windows
    windows = (replace(first, losses={"quarantined": 3}), second)
    service.report(replace(told, windows=windows), mirror(0, 100, {T0: 5, T0 + W: 3}))
    service.read("live", 0, 100, {T0: 5, T0 + W: 3})
    service.hear()


@pytest.mark.parametrize(
    "now", [{"clicks": "1"}, {**THERE, "clicks.quarantine": "3"}], ids=["deleted", "deleted and created again"]
)
def test_windows_whose_quarantine_is_gone_are_unknown(service: Service, now: dict[str, str]) -> None:
    """Fault: COMPLETE, quarantined 3."""
    with_quarantined(service)
    assert service.verdicts() == {T0: "COMPLETE", T0 + W: "COMPLETE"}
    service.ledger.logs.see_quarantines(THERE)
    assert service.verdicts()[T0] == "COMPLETE"
    service.ledger.logs.see_quarantines(now)
    first, second = service.windows()
    assert (first["verdict"], first["silent"], second["verdict"]) == ("UNKNOWN", ["quarantine"], "COMPLETE")
    assert first["reason"] == "3 quarantined records cannot be read any more: their quarantine topic was deleted"
    service.restart()
    service.ledger.logs.see_quarantines(now)
    assert [one["verdict"] for one in service.windows()] == ["UNKNOWN", "COMPLETE"]


def test_a_person_may_accept_it(service: Service) -> None:
    with_quarantined(service)
    service.ledger.logs.see_quarantines({"clicks": "1"})
    word = KnownDifference(
        topic="clicks", window_start_ms=T0, tier="quarantine", kind="lost", missing=3, doubled=0, altered=0, at_ms=1, by="anna",
        reason="tests of Friday",
    )  # fmt: skip
    service.report(word, offset=2)
    assert service.verdicts()[T0] == "ACCEPTED"


def test_a_topic_without_a_quarantine_or_deleted_with_it_is_no_loss(service: Service) -> None:
    """The load may be told to keep its quarantine on another cluster."""
    with_quarantined(service)
    service.ledger.logs.see_quarantines({})
    assert service.verdicts()[T0] == "COMPLETE"
    other = Service(str(service.store) + "2")
    with_quarantined_elsewhere = {"clicks": "1"}
    other.ledger.logs.see_quarantines(with_quarantined_elsewhere)
    other.ledger.logs.see_quarantines(with_quarantined_elsewhere)
    assert other.ledger.topic_facts("clicks").quarantine_gone_ms is None
    other.database.close()
