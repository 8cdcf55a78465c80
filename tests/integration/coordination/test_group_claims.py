"""Of two brokers that both believe that they coordinate a group only one commits. Trace 15 of the cluster's plan, in a real
ZooKeeper."""

import random

import pytest

from headrace.coordination import group_claims, paths
from headrace.coordination.committed_offset import CommittedOffset as At
from headrace.coordination.consumers import OffsetRegistry
from headrace.coordination.errors import ConnectionUnsure, NotClaimed
from headrace.coordination.group_claims import GroupClaims, GroupCommit
from headrace.coordination.group_directory import Deletion, GroupDirectory
from headrace.coordination.session import Session

from .conftest import OpenSession


@pytest.fixture
def session(open_session: OpenSession) -> Session:
    return open_session()


def commit(claims: GroupClaims, claim: str | None, offset: int, group: str = "g", partitions: int = 1) -> type[Exception] | None:
    offsets = {("clicks", number): At(offset) for number in range(partitions)}
    (error,) = claims.commit([GroupCommit(group=group, claim=claim, offsets=offsets)])
    return None if error is None else type(error)


def committed(session: Session, group: str = "g") -> int | None:
    return OffsetRegistry(session).get(group, "clicks", 0)


@pytest.mark.parametrize("seed", range(20))
def test_a_coordinator_that_was_replaced_commits_nothing_however_late(open_session: OpenSession, seed: int) -> None:
    """The oracle knows only who claimed last."""
    chance = random.Random(seed)
    brokers = {name: GroupClaims(open_session(name)) for name in ("first", "second")}
    session = open_session("reader")
    held: dict[str, str] = {}
    newest = ""
    expected: int | None = None
    for number in range(40):
        name = chance.choice(("first", "second"))
        match chance.choice(("claim", "commit", "commit", "commit", "delete")):
            case "claim":
                held[name], newest = brokers[name].claim("g"), name
            case "commit" if name in held:
                outcome = commit(brokers[name], held[name], number)
                assert outcome is (None if name == newest else NotClaimed), f"{number}: {name} commits after {newest} has claimed"
                expected = number if name == newest else expected
            case "delete" if number % 10 == 0:
                GroupDirectory(session).delete("g")
                newest, expected = "", None
        assert committed(session) == expected


def test_a_claim_is_kept_by_its_process_and_is_another_one_after_another_process_had_it(open_session: OpenSession) -> None:
    first, second = GroupClaims(open_session("first")), GroupClaims(open_session("second"))
    before = first.claim("g")
    assert first.claim("g") == before
    other = second.claim("g")
    again = first.claim("g")
    assert len({before, other, again}) == 3
    assert commit(first, before, 1) is NotClaimed, "a group of before the other's claim stays fenced"
    assert commit(first, again, 2) is None


def test_a_client_without_a_group_commits_under_a_claim_that_is_made_for_it(open_session: OpenSession) -> None:
    first, second = GroupClaims(open_session("first")), GroupClaims(open_session("second"))
    session = open_session("reader")
    assert commit(first, None, 1) is None
    assert commit(second, None, 2) is None
    assert commit(first, None, 3) is None
    assert committed(session) == 3
    assert len(session.tree.children(paths.group_coordinator("g"))) == 1


def test_offsets_of_many_groups_and_more_than_one_transaction_holds(session: Session) -> None:
    claims = GroupClaims(session)
    many = {("clicks", number): At(7) for number in range(group_claims.CHUNK + 10)}
    offsets = {f"g{number}": many if number == 3 else {("clicks", 0): At(number)} for number in range(300)}
    commits = [GroupCommit(group=group, claim=None, offsets=some) for group, some in offsets.items()]
    assert claims.commit(commits) == [None] * 300
    assert claims.commit(commits) == [None] * 300
    assert len(OffsetRegistry(session).get_all("g3")) == group_claims.CHUNK + 10
    assert [committed(session, f"g{number}") for number in (0, 299)] == [0, 299]


def test_claims_that_are_remembered_are_bounded_and_a_forgotten_one_is_made_again(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_claims, "MOST_HELD", 3)
    claims = GroupClaims(session)
    names = [claims.claim(f"g{number}") for number in range(5)]
    assert len(claims._held) == 3
    assert claims.claim("g4") == names[4]
    assert claims.claim("g0") != names[0]


def test_one_groups_fault_is_not_anothers(open_session: OpenSession) -> None:
    first, second = GroupClaims(open_session("first")), GroupClaims(open_session("second"))
    lost = first.claim("lost")
    second.claim("lost")
    wanted = [("a", None), ("lost", lost), ("b", None)]
    commits = [GroupCommit(group=group, claim=claim, offsets={("clicks", 0): At(1)}) for group, claim in wanted]
    assert [type(error) for error in first.commit(commits)] == [type(None), NotClaimed, type(None)]


def test_when_zookeeper_is_away_it_is_not_asked_again_for_each_group(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    claims, asked = GroupClaims(session), list[str]()

    def away(group: str) -> str:
        asked.append(group)
        raise ConnectionUnsure("list", "/consumers", "too slow")

    monkeypatch.setattr(claims, "claim", away)
    commits = [GroupCommit(group=f"g{number}", claim=None, offsets={("clicks", 0): At(1)}) for number in range(10)]
    assert [type(error) for error in claims.commit(commits)] == [ConnectionUnsure] * 10
    assert asked == ["g0"]


def test_a_group_that_was_only_claimed_is_not_listed_and_leaves_nothing(session: Session) -> None:
    GroupClaims(session).claim("g")
    directory = GroupDirectory(session)
    assert directory.groups() == {}
    assert directory.delete("g") is Deletion.ABSENT
    assert session.tree.children(paths.CONSUMERS) == []
