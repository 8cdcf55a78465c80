"""Expiry of committed offsets in a real ZooKeeper. The nodes are new; the test's clock is ahead of them."""

import time

import pytest
from kazoo.exceptions import NoNodeError

from headrace.coordination import offset_expiry, paths
from headrace.coordination.committed_offset import CommittedOffset
from headrace.coordination.consumers import ConsumerRegistry, OffsetRegistry, OwnerRegistry
from headrace.coordination.errors import UnreadableNode
from headrace.coordination.group_claims import GroupClaims, GroupCommit
from headrace.coordination.group_directory import Deletion, GroupDirectory
from headrace.coordination.group_note import Readers
from headrace.coordination.offset_expiry import OffsetExpiry, Swept
from headrace.coordination.session import Session
from tests.support.processes import eventually

from .conftest import OpenSession

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
NOBODY = Readers()


@pytest.fixture
def session(open_session: OpenSession) -> Session:
    return open_session()


def commit(session: Session, group: str, *positions: tuple[str, int]) -> None:
    offsets = dict.fromkeys(positions or [("clicks", 0)], CommittedOffset(5, 3, "note"))
    assert GroupClaims(session).commit([GroupCommit(group=group, claim=None, offsets=offsets)]) == [None]


def sweep(session: Session, days: float, readers: Readers = NOBODY, group: str = "g", *, after: str = "") -> Swept:
    """Check one group once, this many days from now."""
    now_ms = time.time_ns() // 1_000_000 + int(days * DAY_MS) + 1_000
    return OffsetExpiry(session).expire({group: readers}, now_ms=now_ms, retention_ms=WEEK_MS, after=after)


def left(session: Session, group: str = "g") -> set[tuple[str, int]]:
    return set(OffsetRegistry(session).get_all(group))


def test_offsets_of_a_group_without_members_expire_a_week_after_their_commit_and_nothing_is_left_of_it(session: Session) -> None:
    commit(session, "g", ("clicks", 0), ("clicks", 1), ("orders", 0))
    assert sweep(session, 6.9).offsets == 0
    assert len(left(session)) == 3
    swept = sweep(session, 7)
    assert (swept.offsets, swept.groups, swept.faults, list(swept.rest)) == (3, ["g"], {}, [])
    assert session.tree.children(paths.CONSUMERS) == []
    assert OffsetExpiry(session).groups() == []


def test_a_commit_begins_the_week_anew_even_one_of_the_same_offset(session: Session) -> None:
    commit(session, "g")
    before = session.tree.read(paths.offset("g", "clicks", 0))
    assert before is not None
    eventually(lambda: time.time_ns() // 1_000_000 > before.modified_ms, every_ms=1, what="another millisecond")
    commit(session, "g")
    after = session.tree.read(paths.offset("g", "clicks", 0))
    assert after is not None
    assert after.data == before.data
    assert after.modified_ms > before.modified_ms


def test_a_group_that_lost_its_members_keeps_its_offsets_for_a_week_from_when_it_is_found_empty(session: Session) -> None:
    commit(session, "g")
    reading = Readers(has_members=True, topics={"clicks"})
    for days in (1, 8, 30):
        assert sweep(session, days, reading).offsets == 0
    assert sweep(session, 31).offsets == 0, "found empty now"
    assert sweep(session, 37.9).offsets == 0
    assert sweep(session, 38).offsets == 1


def test_members_that_come_back_begin_the_time_anew(session: Session) -> None:
    commit(session, "g")
    sweep(session, 1, Readers(has_members=True))
    sweep(session, 2)
    sweep(session, 8, Readers(has_members=True))
    sweep(session, 10)
    assert sweep(session, 16.9).offsets == 0
    assert sweep(session, 17.1).offsets == 1


def test_members_that_came_and_went_between_two_looks_count_too(session: Session) -> None:
    commit(session, "g")
    assert sweep(session, 20, Readers(had_members=True)).offsets == 0
    assert sweep(session, 26).offsets == 0
    assert sweep(session, 27).offsets == 1


def test_under_members_the_offsets_of_topics_that_none_of_them_reads_any_more_expire(session: Session) -> None:
    commit(session, "g", ("clicks", 0), ("orders", 0), ("orders", 1))
    assert sweep(session, 8, Readers(has_members=True, topics={"clicks"})).offsets == 2
    assert left(session) == {("clicks", 0)}


def test_while_consumers_of_the_papers_kind_are_registered_nothing_of_their_group_expires(session: Session) -> None:
    commit(session, "g", ("clicks", 0), ("other", 0))
    consumers = ConsumerRegistry(session)
    consumers.register("g", "c1", {"clicks": 1})
    OwnerRegistry(session).claim("g", "clicks", 0, "c1")
    for days in (8, 100):
        assert sweep(session, days).offsets == 0
    OwnerRegistry(session).release("g", "clicks", 0)
    consumers.withdraw("g", "c1")
    assert sweep(session, 101).offsets == 0
    assert sweep(session, 107.9).offsets == 0
    assert sweep(session, 108).offsets == 2
    assert session.tree.children(paths.CONSUMERS) == []


def test_a_commit_between_the_look_and_the_removal_stays(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(session, "g", ("clicks", 0), ("clicks", 1))
    delete = type(session.tree).delete_unchanged

    def late(tree: object, versions: dict[str, int]) -> set[str]:
        if versions:
            monkeypatch.undo()
            commit(session, "g", ("clicks", 1))
        return delete(session.tree, versions)

    monkeypatch.setattr(type(session.tree), "delete_unchanged", late)
    assert sweep(session, 8).offsets == 1
    assert left(session) == {("clicks", 1)}


def test_a_commit_whose_group_is_removed_under_it_makes_it_anew(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: the parents that the commit had made were removed before its node was, and the commit failed with NoNodeError."""
    client = session.tree._client
    create, refused = client.create_async, []

    def create_async(path: str, *words: object, **named: object) -> object:
        if refused:
            return create(path, *words, **named)
        refused.append(path)
        answer = client.handler.async_result()
        answer.set_exception(NoNodeError())
        return answer

    monkeypatch.setattr(client, "create_async", create_async)
    OffsetRegistry(session).put("g", "clicks", 0, 7)
    assert len(refused) == 1
    assert left(session) == {("clicks", 0)}


def test_one_call_looks_at_a_bounded_number_of_offsets_and_says_where_to_go_on(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_expiry, "NODES_A_CALL", 10)
    monkeypatch.setattr(offset_expiry, "FOLDERS_AT_ONCE", 2)
    topics = [f"t{number}" for number in range(5)]
    for group in ("a", "b", "c"):
        commit(session, group, *((topic, index) for topic in topics for index in range(6)))
    commit(session, "b", ("fresh", 0))
    now_ms = time.time_ns() // 1_000_000 + WEEK_MS + 1_000
    rest, after, calls, gone = ["a", "b", "c"], "", 0, 0
    while rest:
        swept = OffsetExpiry(session).expire(dict.fromkeys(rest, NOBODY), now_ms=now_ms, retention_ms=WEEK_MS, after=after)
        assert swept.offsets <= 10
        rest, after, calls, gone = list(swept.rest), swept.after, calls + 1, gone + swept.offsets
        assert calls < 50, "it goes on"
    assert gone == 91
    assert calls >= 9
    assert GroupDirectory(session).groups() == {}


def test_where_to_go_on_is_nothing_to_another_group(session: Session) -> None:
    commit(session, "g")
    assert sweep(session, 8, after=paths.offset("h", "zebras", 9)).offsets == 1


def test_an_unreadable_note_costs_its_own_group_and_no_other(session: Session) -> None:
    commit(session, "bad")
    commit(session, "good")
    session.tree.put(paths.group("bad"), b"by hand")
    now_ms = time.time_ns() // 1_000_000 + 2 * WEEK_MS
    swept = OffsetExpiry(session).expire({"bad": NOBODY, "good": NOBODY}, now_ms=now_ms, retention_ms=WEEK_MS)
    assert swept.groups == ["good"]
    assert isinstance(swept.faults["bad"], UnreadableNode)
    assert left(session, "bad") == {("clicks", 0)}


def test_what_a_removal_left_halfway_is_cleared_away_by_the_next(session: Session) -> None:
    session.tree.ensure(f"{paths.group_offsets('g')}/clicks")
    session.tree.ensure(paths.owners("g", "clicks"))
    sweep(session, 0)
    assert session.tree.children(paths.CONSUMERS) == []


def test_a_note_does_not_disturb_listing_describing_reading_or_deleting(session: Session) -> None:
    commit(session, "g")
    sweep(session, 0, Readers(has_members=True))
    directory = GroupDirectory(session)
    assert directory.groups() == {"g": False}
    assert directory.describe(["g"])["g"].has_offsets
    assert left(session) == {("clicks", 0)}
    assert directory.delete("g") is Deletion.DONE
    assert directory.groups() == {}
