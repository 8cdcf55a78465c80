"""When committed offsets expire, decided on values; and what the group's node says of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.coordination.errors import UnreadableNode
from headrace.coordination.group_note import GroupNote, Readers, decide_expiry

DAY_MS = 86_400_000
NOW_MS = 1_800_000_000_000
WEEK_MS = 7 * DAY_MS
NOBODY = Readers()
NEVER_SEEN, SEEN = GroupNote(), GroupNote(has_members=True)


def test_without_members_ever_an_offset_expires_a_week_after_its_commit() -> None:
    decision = decide_expiry(NEVER_SEEN, NOBODY, now_ms=NOW_MS, retention_ms=WEEK_MS)
    assert (decision.expired_until_ms, decision.note, decision.kept_topics) == (NOW_MS - WEEK_MS, NEVER_SEEN, ())


def test_a_group_that_is_found_empty_is_empty_from_then_on_and_nothing_of_it_has_expired() -> None:
    for note, readers in (
        (SEEN, NOBODY),
        (NEVER_SEEN, Readers(had_members=True)),
        (GroupNote(empty_since_ms=1), Readers(had_members=True)),
    ):
        decision = decide_expiry(note, readers, now_ms=NOW_MS, retention_ms=WEEK_MS)
        assert (decision.note, decision.expired_until_ms) == (GroupNote(empty_since_ms=NOW_MS), None)


@pytest.mark.parametrize(("empty_ms", "has_expired"), [(WEEK_MS - 1, False), (WEEK_MS, True), (5 * WEEK_MS, True)])
def test_offsets_expire_when_their_group_was_empty_for_the_whole_time(empty_ms: int, has_expired: bool) -> None:
    note = GroupNote(empty_since_ms=NOW_MS - empty_ms)
    decision = decide_expiry(note, NOBODY, now_ms=NOW_MS, retention_ms=WEEK_MS)
    assert decision.note == note
    assert decision.expired_until_ms == (NOW_MS - WEEK_MS if has_expired else None)


def test_under_members_only_offsets_of_topics_that_nobody_reads_expire() -> None:
    decision = decide_expiry(
        GroupNote(empty_since_ms=1), Readers(has_members=True, topics={"read"}), now_ms=NOW_MS, retention_ms=WEEK_MS
    )
    assert (decision.note, decision.expired_until_ms, set(decision.kept_topics)) == (SEEN, NOW_MS - WEEK_MS, {"read"})


def test_under_members_whose_topics_cannot_be_told_nothing_expires() -> None:
    assert decide_expiry(NEVER_SEEN, Readers(has_members=True), now_ms=NOW_MS, retention_ms=1).expired_until_ms is None


@given(st.lists(st.tuples(st.integers(0, 5_000), st.booleans()), max_size=20), st.integers(1, 4_000))
def test_no_history_of_looks_expires_an_offset_before_its_group_was_empty_for_the_whole_time(
    looks: list[tuple[int, bool]], retention_ms: int
) -> None:
    note, now_ms, had_members_ms = NEVER_SEEN, 0, None
    for wait_ms, has_members in looks:
        now_ms += wait_ms
        if has_members:
            had_members_ms = now_ms
        decision = decide_expiry(note, Readers(has_members=has_members), now_ms=now_ms, retention_ms=retention_ms)
        note = GroupNote.read("/g", decision.note.to_bytes())
        if decision.expired_until_ms is not None and had_members_ms is not None:
            assert now_ms - had_members_ms >= retention_ms


@pytest.mark.parametrize("note", [NEVER_SEEN, SEEN, GroupNote(empty_since_ms=0), GroupNote(empty_since_ms=NOW_MS)])
def test_a_note_is_read_as_it_was_written(note: GroupNote) -> None:
    assert GroupNote.read("/g", note.to_bytes()) == note


@pytest.mark.parametrize(
    "data", [b"x", b"[]", b"17", b'{"empty_since":"1"}', b'{"empty_since":true}', b'{"has_members":1.5}', b'{"a":1}']
)
def test_what_nobody_wrote_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableNode, match="/consumers/g"):
        GroupNote.read("/consumers/g", data)
