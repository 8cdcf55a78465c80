"""Records that count as quarantined are looked up in the quarantine topic, one by one, by where they came from."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.audit.model.checks.quarantine import OF_AN_APPLICATION, number_of
from headrace.audit.model.messages import CORRUPT, EXPIRED, KnownDifference, RangeReport, RangeWindow, Skipped, Stretch
from headrace.audit.model.tier_reports import LiveBatch, PartitionRead
from headrace.audit.model.tiers import QUARANTINE
from headrace.audit.service.settings import AuditSettings, TopicTiers
from headrace.audit.service.store.log_books import LogRead
from headrace.client.fetch.fetched import TopicPartition
from tests.support.audit_parts import CRC, T0, Service, producer

CLICKS = TopicPartition("clicks", 0)
SETTINGS = AuditSettings(default_topic=TopicTiers(required=("producer", "live", "warehouse")))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path / "books.sqlite", SETTINGS)
    yield made
    made.database.close()


def of_offline(place: int) -> tuple[int, int, int]:
    return 1, 1, place


def put(
    service: Service,
    records: Mapping[int, tuple[int, int, int]],
    *,
    crcs: Mapping[int, int] | None = None,
    from_offset: int = 0,
    end: int = 10,
    skipped: tuple[Skipped, ...] = (),
) -> None:
    """Let the audit read the quarantine topic: offset there → whose, which, place."""
    rows = [LiveBatch(offset, 1, (crcs or {}).get(offset, 7), *owner) for offset, owner in records.items()]
    found = PartitionRead(
        topic="clicks", partition=0, from_offset=from_offset, to_offset=end, windows={T0: rows}, skipped=skipped
    )
    generation, _ = service.ledger.logs.positions(QUARANTINE)
    service.clock.advance(1)
    assert service.ledger.logs.take_reads(QUARANTINE, generation, [LogRead(found=found)], {CLICKS: service.clock.now_ms()})


def loaded(service: Service, aside: tuple[Stretch, ...] = (Stretch(3, 2),)) -> None:
    """Five records were logged; the load has three as rows, and says of two that they are in quarantine."""
    report = RangeReport(
        tier="warehouse", instance="load", at_ms=1, topic="clicks", partition=0, from_offset=0, to_offset=100,
        windows={T0: RangeWindow(held=(Stretch(0, 3),), quarantined=aside)},
    )  # fmt: skip
    service.report(producer({T0: 5}), report)
    service.read("live", 0, 100, {T0: 5})
    service.clock.advance(1)
    service.hear()


def window(service: Service) -> dict[str, Any]:
    (one,) = service.windows()
    return one


def records(one: Mapping[str, Any]) -> list[tuple[str, str, int | None, int]]:
    return [
        (found["tier"], record["kind"], record["first_offset"], record["count"])
        for found in one["differences"]
        for record in found["records"]
    ]


def test_what_the_load_put_aside_is_found_there(service: Service) -> None:
    loaded(service)
    put(service, {0: of_offline(3), 1: of_offline(4)})
    assert (window(service)["verdict"], window(service)["quarantined"]) == ("COMPLETE", 2)


def test_a_record_that_is_not_in_the_quarantine_topic_is_missing_there_by_its_origin(service: Service) -> None:
    """Fault: COMPLETE, quarantined 2."""
    loaded(service)
    put(service, {0: of_offline(3)})
    one = window(service)
    assert (one["verdict"], one["missing"], one["first_bad_tier"]) == ("INCOMPLETE", 1, QUARANTINE)
    assert records(one) == [(QUARANTINE, "missing", 4, 1)]
    word = KnownDifference(
        topic="clicks", window_start_ms=T0, tier=QUARANTINE, kind="lost", missing=1, doubled=0, altered=0, at_ms=1, by="anna",
        reason="it was a test",
    )  # fmt: skip
    service.report(word, offset=2)
    assert window(service)["verdict"] == "ACCEPTED"


def test_nothing_is_decided_before_the_quarantine_topic_was_read_behind_the_claim(service: Service) -> None:
    put(service, {})
    loaded(service)
    assert window(service)["verdict"] == "OPEN"
    for _ in range(1 + SETTINGS.default_deadline_ms // 4_000):
        service.clock.advance(4_000)
        service.hear()
    one = window(service)
    assert (one["verdict"], one["silent"]) == ("UNKNOWN", [QUARANTINE])
    put(service, {10: of_offline(3), 11: of_offline(4)}, from_offset=10, end=20)
    assert window(service)["verdict"] == "COMPLETE"


def test_a_topic_is_waited_for_until_the_audit_has_looked_whether_it_is_there(service: Service) -> None:
    service.ledger.logs.see_quarantines({"clicks": "1"}, service.clock.now_ms())
    service.clock.advance(1)
    loaded(service)
    assert window(service)["verdict"] == "OPEN"
    service.clock.advance(1)
    service.ledger.logs.see_quarantines({"clicks": "1"}, service.clock.now_ms())
    service.hear()
    assert window(service)["verdict"] == "COMPLETE", "the load keeps its quarantine on another cluster"


def test_one_that_exists_is_read_before_anything_is_decided(service: Service) -> None:
    service.ledger.logs.await_quarantines()
    loaded(service)
    assert window(service)["verdict"] == "OPEN", "nobody has looked"
    service.clock.advance(1)
    service.ledger.logs.see_quarantines({"clicks": "1", "clicks.quarantine": "2"}, service.clock.now_ms())
    service.clock.advance(1)
    service.hear()
    assert window(service)["verdict"] == "OPEN", "it is there, and nobody has read it"
    put(service, {0: of_offline(3), 1: of_offline(4)})
    assert window(service)["verdict"] == "COMPLETE"


def test_one_with_another_value_at_its_place_is_altered_and_one_that_is_gone_is_missing(service: Service) -> None:
    loaded(service)
    put(service, {0: of_offline(3), 1: of_offline(4)})
    generation, _ = service.ledger.logs.positions(QUARANTINE)
    found = PartitionRead(
        topic="clicks", partition=0, from_offset=0, to_offset=2, windows={T0: [LiveBatch(0, 1, 8, *of_offline(3))]},
        skipped=(Skipped(1, 2, CORRUPT),),
    )  # fmt: skip
    assert service.ledger.logs.take_scan(QUARANTINE, generation, [LogRead(found=found)])
    one = window(service)
    assert (one["verdict"], one["missing"], one["altered"]) == ("INCOMPLETE", 1, 1)
    assert records(one) == [(QUARANTINE, "missing", 4, 1), (QUARANTINE, "altered", 3, 1)]
    service.restart()
    service.hear()
    assert records(window(service)) == records(one)


def test_what_the_topic_s_own_retention_deleted_is_expired(service: Service) -> None:
    loaded(service)
    put(service, {0: of_offline(3), 5: of_offline(4)})
    assert window(service)["verdict"] == "COMPLETE"
    service.ledger.logs.quarantine_begins({CLICKS: 5})
    one = window(service)
    assert (one["verdict"], one["accounted"], one["missing"]) == ("ACCOUNTED", {"expired": 1}, 0)


def test_what_may_have_expired_before_the_audit_read_it_is_not_known(service: Service) -> None:
    loaded(service)
    put(service, {0: of_offline(3)})
    put(service, {}, from_offset=10, end=20, skipped=(Skipped(10, 20, EXPIRED),))
    one = window(service)
    assert (one["verdict"], one["silent"]) == ("UNKNOWN", [QUARANTINE])
    word = KnownDifference(
        topic="clicks", window_start_ms=T0, tier=QUARANTINE, kind="lost", missing=one["quarantined"], doubled=0, altered=0,
        at_ms=1, by="anna", reason="it was a test",
    )  # fmt: skip
    service.report(word, offset=2)
    assert window(service)["verdict"] == "ACCEPTED"


def test_a_log_that_lost_its_tail_lacks_what_stood_there(service: Service) -> None:
    loaded(service)
    put(service, {0: of_offline(3), 1: of_offline(4)})
    service.ledger.logs.log_shrank(QUARANTINE, CLICKS, 0)
    put(service, {0: of_offline(3)}, end=1)
    assert records(window(service)) == [(QUARANTINE, "missing", 4, 1)]


def test_a_record_that_was_put_there_twice_is_there_while_one_copy_is_sound(service: Service) -> None:
    loaded(service)
    put(service, {0: of_offline(3), 1: of_offline(4), 2: of_offline(4)})
    generation, _ = service.ledger.logs.positions(QUARANTINE)
    found = PartitionRead(topic="clicks", partition=0, from_offset=1, to_offset=2, skipped=(Skipped(1, 2, CORRUPT),))
    service.ledger.logs.take_scan(QUARANTINE, generation, [LogRead(found=found)])
    assert window(service)["verdict"] == "COMPLETE"


@pytest.mark.parametrize(("there", "missing"), [(3, 0), (2, 1), (0, 3)])
def test_what_an_application_refused_is_counted_by_its_own_records(service: Service, there: int, missing: int) -> None:
    told = producer({T0: 5})
    told = replace(told, windows=(replace(told.windows[0], losses={"quarantined": 3}),))
    report = RangeReport(
        tier="warehouse", instance="load", at_ms=1, topic="clicks", partition=0, from_offset=0, to_offset=100,
        windows={T0: RangeWindow(held=(Stretch(0, 5),))},
    )  # fmt: skip
    service.report(told, report)
    service.read("live", 0, 100, {T0: 5}, crc=CRC)
    service.hear()
    mine = {at: (OF_AN_APPLICATION, number_of("host/app/1"), at) for at in range(there)}
    other = {5: (OF_AN_APPLICATION, number_of("host/app/2"), 0)}
    put(service, {**mine, **other})
    one = window(service)
    assert (one["missing"], one["verdict"]) == (missing, "INCOMPLETE" if missing else "COMPLETE")
