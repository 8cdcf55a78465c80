"""Facts behind a mirror that gives other offsets, in the live log's."""

from headrace.audit.model.books import Found
from headrace.audit.model.facts import TopicFacts, WindowFacts
from headrace.audit.model.packed_rows import Row
from headrace.audit.model.tier_log import TierLog
from headrace.audit.model.tiers import OFFLINE, QUARANTINE, WAREHOUSE
from headrace.audit.service.origins.origins import NOWHERE, SOON_MS, Origins
from headrace.wire.mirror_ledger import CopiedBatch, LedgerEntry

ENTRY = LedgerEntry(
    topic="t",
    partition=0,
    destination_topic="t",
    from_offset=0,
    to_offset=500,
    batches=(CopiedBatch(97, 100, 3, 0, 0b1100), CopiedBatch(297, 3, 3, 4, 0), CopiedBatch(400, 9, 2, 8, 1, (2, 5))),
    destination_end=10,
)
"""Three batches of a byte-addressed log; a marker is behind each in the offline log, at 3, 7 and 10."""


def facts(position: int) -> TopicFacts:
    log = TierLog(begins_at=0, moved_ms=0, coverage=[(0, position)] if position else [])
    return TopicFacts(
        topic="t", rules=(), logs={OFFLINE: {0: log}}, runs=(), ended=(), has_producers=True,
        heard_all_ms=None, listening_since_ms=0,
    )  # fmt: skip


def window(*rows: Row, tier: str = OFFLINE, updated_ms: int = 0) -> WindowFacts:
    found = Found(tier, updated_ms)
    found.held.add(rows)
    return WindowFacts(window_start_ms=0, window_end_ms=1, found={tier: {0: found}}, producers={}, owners={}, known={})


def origins(now_ms: int = 1_000) -> Origins:
    made = Origins()
    made.is_needed = True
    made.take([ENTRY], now_ms)
    return made


def rows_of(found: WindowFacts, tier: str = OFFLINE) -> list[Row]:
    return list(found.found[tier][0].held)


def test_records_stand_where_they_stood_live_with_the_crc_they_had_there() -> None:
    known = origins()
    topic, found = known.of_window(known.of_topic(facts(11)), window((0, 3, 0b1010), (4, 2, 5), (8, 2, 6)))
    assert rows_of(found) == [(97, 3, 0b0110), (297, 2, 5), (402, 1, 7), (405, 1, 7)]
    assert topic.logs[OFFLINE][0].covers(0, 500)


def test_stretches_without_a_crc_are_cut_at_batches() -> None:
    known = origins()
    _, found = known.of_window(known.of_topic(facts(11)), window((1, 2, -1), (4, 3, -1), tier=WAREHOUSE))
    assert rows_of(found, WAREHOUSE) == [(98, 2, -1), (297, 3, -1)]


def test_a_log_read_midway_accounts_for_no_more_of_the_live_one() -> None:
    known = origins()
    ends = [known.position(OFFLINE, "t", 0, at) for at in range(12)]
    assert ends == sorted(ends)
    assert ends[:5] == [97, 98, 99, 197, 197]
    assert ends[10:] == [500, 500]


def test_what_the_ledger_may_name_soon_leaves_the_partition_unread() -> None:
    known = origins()
    topic, found = known.of_window(known.of_topic(facts(14)), window((0, 3, -1), (11, 2, -1), updated_ms=1_000))
    assert rows_of(found) == [(97, 3, -1)]
    assert not topic.logs[OFFLINE][0].covers(97, 98)


def test_what_the_ledger_did_not_name_in_time_is_surplus_and_accounted_for() -> None:
    """Fault: a foreign record's offsets were never accounted for behind the offline tier, so that it was never reported."""
    known = origins(1_001 + SOON_MS)
    topic, found = known.of_window(known.of_topic(facts(14)), window((0, 3, -1), (11, 2, -1), updated_ms=1_000))
    assert rows_of(found) == [(97, 3, -1), (11 + NOWHERE, 1, -1), (12 + NOWHERE, 1, -1)]
    assert topic.logs[OFFLINE][0].covers(11 + NOWHERE, 13 + NOWHERE)


def test_nothing_is_decided_before_it_is_known_what_the_clusters_are() -> None:
    unknown = Origins()
    unknown.is_needed = None
    topic, found = unknown.of_window(unknown.of_topic(facts(3)), window((0, 3, -1)))
    assert rows_of(found) == []
    assert not topic.logs[OFFLINE][0].covers(0, 3)


def test_clusters_that_number_alike_are_left_as_they_are() -> None:
    topic, found = facts(3), window((0, 3, -1))
    assert Origins().of_window(Origins().of_topic(topic), found) == (topic, found)


def test_origins_of_quarantined_records_on_the_offline_log_are_offsets_of_the_live_one() -> None:
    """Those on the live log, and those of applications, stay as they are."""
    known = origins()
    rows = [(0, 1, 70, 1, 1, 5), (1, 1, 71, 0, 1, 97), (2, 1, 72, -2, 12, 3), (3, 1, 73, 1, 3, 0)]
    _, found = known.of_window(known.of_topic(facts(11)), window(*rows, tier=QUARANTINE))
    assert rows_of(found, QUARANTINE) == [(0, 1, 70, 1, 1, 298), rows[1], rows[2], (3, 1, 73, 1, 3, 97)]
