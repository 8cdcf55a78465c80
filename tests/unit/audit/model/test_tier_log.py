"""What one tier accounts for in one log: its bounds, what is taken back, and what is asked of it."""

import pytest

from headrace.audit.model import tier_log
from headrace.audit.model.messages import Skipped
from headrace.audit.model.packed_rows import Rows
from headrace.audit.model.tier_log import TierLog, accounts_for
from headrace.audit.model.tiers import LIVE, MIRROR


def log_of(*coverage: tuple[int, int], begins_at: int = 0) -> TierLog:
    return TierLog(begins_at=begins_at, moved_ms=0, coverage=[*coverage])


def test_at_its_bound_a_log_has_room_only_for_what_touches_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tier_log, "MOST", 2)
    log = log_of((10, 20), (40, 50))
    for start, end, has_room in ((20, 25, True), (0, 10, True), (21, 25, False), (0, 9, False), (15, 45, True)):
        assert log.has_room(start, end, ()) is has_room
    log.skipped = [Skipped(10, 11, "expired")]
    assert log.has_room(20, 25, ())
    assert not log.has_room(20, 25, [Skipped(20, 21, "expired")])


def test_what_is_taken_back_is_cut_at_its_offset() -> None:
    log = log_of((0, 10), (20, 30))
    log.skipped = [Skipped(2, 9, "expired"), Skipped(20, 30, "deleted")]
    log.firsts = {(7, 0): (5, 1), (8, 0): (25, 1)}
    log.uncover_from(7)
    assert log.coverage == [(0, 7)]
    assert log.skipped == [Skipped(2, 7, "expired")]
    assert log.firsts == {(7, 0): (5, 1)}


def test_what_is_covered_again_is_skipped_as_was_said_last() -> None:
    log = log_of()
    assert log.cover(0, 30, [Skipped(5, 15, "expired"), Skipped(15, 20, "expired"), Skipped(22, 22, "deleted")])
    assert log.skipped == [Skipped(5, 20, "expired")]
    assert not log.cover(8, 12, [Skipped(9, 10, "deleted")])
    assert log.skipped == [Skipped(5, 8, "expired"), Skipped(9, 10, "deleted"), Skipped(12, 20, "expired")]
    assert log.skipped_as("deleted") == [(9, 10)]


def test_first_batches_are_noted_behind_all_that_could_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(begins_at=10)
    batch = 1, 99
    log.note_firsts([(5, *batch, 7, 0, 3), (30, *batch, 7, 0, 6), (10, *batch, 7, 0, 4), (12, *batch, -1, -1, -1)])
    assert log.firsts == {(7, 0): (10, 4)}
    monkeypatch.setattr(tier_log, "MOST_FIRSTS", 1)
    log.note_firsts([(11, *batch, 8, 0, 0)])
    assert log.firsts == {(7, 0): (10, 4)}
    log.skipped = [Skipped(20, 25, "expired")]
    log.note_firsts([(25, *batch, 8, 0, 2)])
    assert log.firsts == {(8, 0): (25, 2)}


def test_a_tier_accounts_for_rows_that_it_covers_one_by_one_and_for_none_behind_what_is_asked() -> None:
    rows = Rows(rows=[(0, 5, 1), (20, 5, 1)])
    assert accounts_for(MIRROR, log_of((0, 5), (20, 25)), rows)
    assert not accounts_for(MIRROR, log_of((0, 5), (20, 24)), rows)
    assert accounts_for(MIRROR, log_of((0, 5), (20, 24)), rows, up_to=24)
    assert not accounts_for(MIRROR, log_of((1, 5), (20, 25)), rows)
    assert not accounts_for(MIRROR, None, rows)
    assert accounts_for(MIRROR, None, Rows())


def test_only_a_tier_that_is_read_back_need_not_account_for_what_lies_before_its_log() -> None:
    rows = Rows(rows=[(0, 5, 1), (20, 5, 1)])
    later = log_of((20, 25), begins_at=20)
    assert accounts_for(LIVE, later, rows)
    assert not accounts_for(MIRROR, later, rows)
