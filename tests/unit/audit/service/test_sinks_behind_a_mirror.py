"""Sinks on the offline cluster: there their offsets are other ones than in the live log, the mirror's ledger leads back."""

from pathlib import Path
from typing import Any

import pytest

from headrace.audit.model.messages import RangeReport, RangeWindow, Stretch
from headrace.audit.service.origins.origins import SOON_MS
from headrace.audit.service.settings import AuditSettings, TopicTiers
from headrace.wire.mirror_ledger import CopiedBatch, LedgerEntry
from tests.support.audit_parts import CRC, T0, Service, W, mirror, producer

SINK = "sink:clicks@offline"
CHANGE = 0b1010
"""CRC of a batch on live XOR its copy's."""
LEDGER = LedgerEntry(
    topic="clicks",
    partition=0,
    destination_topic="clicks",
    from_offset=0,
    to_offset=100,
    batches=(CopiedBatch(0, 5, 5, 0, CHANGE), CopiedBatch(5, 3, 3, 6, CHANGE)),
    destination_end=10,
)
"""On live 0 to 4 and 5 to 7; offline 0 to 4 and, behind the marker of a transaction, 6 to 8, with another one at 9."""


@pytest.fixture
def service(tmp_path: Path) -> Any:
    made = Service(tmp_path / "a.db", AuditSettings(default_topic=TopicTiers(required=("producer", "live", "mirror", "offline"))))
    yield made
    made.database.close()


def copied(service: Service, *, is_alike: bool = False) -> None:
    service.report(producer({T0: 5, T0 + W: 3}), mirror(0, 100, {T0: 5, T0 + W: 3}))
    service.read("live", 0, 100, {T0: 5, T0 + W: 3})
    if is_alike:
        service.ledger.logs.number_alike(is_alike=True)
        service.read("offline", 0, 100, {T0: 5, T0 + W: 3})
    else:
        service.ledger.logs.number_alike(is_alike=False)
        service.ledger.logs.take_origins([LEDGER], service.clock.now_ms())
        service.read("offline", 0, 6, {T0: 5}, crc=CRC ^ CHANGE)
        service.read("offline", 6, 10, {T0 + W: 3}, crc=CRC ^ CHANGE)
    service.hear()


def tell(service: Service, to_offset: int, windows: dict[int, list[int]], *, at: int = 2) -> None:
    found = {start: RangeWindow(held=tuple(Stretch(one, 1) for one in offsets)) for start, offsets in windows.items()}
    report = RangeReport(
        tier=SINK, instance="s", at_ms=1, topic="clicks", partition=0, from_offset=0, to_offset=to_offset, windows=found
    )
    service.report(report, offset=at)
    service.clock.advance(2 * SOON_MS)
    service.ledger.logs.take_origins([], service.clock.now_ms())


def rows(service: Service) -> dict[int, tuple[Any, ...]]:
    names = ("verdict", "count", "missing", "doubled")
    return {one["window_start_ms"]: tuple(one["sinks"][SINK][name] for name in names) for one in service.windows()}


def test_its_offsets_are_compared_as_those_of_the_live_log(service: Service) -> None:
    copied(service)
    tell(service, 10, {T0: [0, 1, 2, 3, 4], T0 + W: [6, 7, 8]})
    assert service.verdicts() == {T0: "COMPLETE", T0 + W: "COMPLETE"}
    assert rows(service) == {T0: ("COMPLETE", 5, 0, 0), T0 + W: ("COMPLETE", 3, 0, 0)}


def test_what_it_lacks_and_what_nobody_copied_is_told_by_the_live_log_s_offsets(service: Service) -> None:
    copied(service)
    tell(service, 10, {T0: [0, 1, 2, 3, 4], T0 + W: [6, 8, 9]})
    assert service.verdicts() == {T0: "COMPLETE", T0 + W: "COMPLETE"}
    assert rows(service) == {T0: ("COMPLETE", 5, 0, 0), T0 + W: ("INCOMPLETE", 3, 1, 1)}
    (window,) = [one for one in service.windows() if one["window_start_ms"] == T0 + W]
    (difference,) = window["sinks"][SINK]["differences"]
    assert next((one["kind"], one["first_offset"]) for one in difference["records"]) == ("missing", 6)


def test_what_it_did_not_get_to_is_waited_for_and_neither_lost_nor_there(service: Service) -> None:
    copied(service)
    tell(service, 6, {T0: [0, 1, 2, 3, 4]})
    assert rows(service) == {T0: ("COMPLETE", 5, 0, 0), T0 + W: ("OPEN", None, 0, 0)}


def test_between_clusters_that_number_alike_its_offsets_are_taken_as_they_are(service: Service) -> None:
    copied(service, is_alike=True)
    tell(service, 100, {T0: [0, 1, 2, 3, 4], T0 + W: [5, 7]})
    assert rows(service) == {T0: ("COMPLETE", 5, 0, 0), T0 + W: ("INCOMPLETE", 2, 1, 0)}


def test_before_it_is_known_what_the_clusters_are_nobody_says_anything_of_it(service: Service) -> None:
    service.ledger.logs.await_origins()
    service.report(producer({T0: 5}), mirror(0, 100, {T0: 5}))
    service.read("live", 0, 100, {T0: 5})
    service.read("offline", 0, 100, {T0: 5})
    service.hear()
    tell(service, 100, {T0: [0, 1, 2, 3, 4]})
    assert rows(service)[T0][0] == "OPEN"
