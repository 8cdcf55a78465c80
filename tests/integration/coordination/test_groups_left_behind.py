"""What groups leave in a real ZooKeeper: offsets with metadata, listing, describing, deleting; the paper's consumers among
them.
"""

from collections.abc import Mapping

import pytest

from headrace.coordination.committed_offset import CommittedOffset
from headrace.coordination.consumers import ConsumerRegistry, OffsetRegistry, OwnerRegistry
from headrace.coordination.group_claims import GroupClaims, GroupCommit, Position
from headrace.coordination.group_directory import Deletion, GroupDirectory, GroupTrace, PaperMember
from headrace.coordination.session import Session
from headrace.coordination.tree import PIPELINE

from .conftest import OpenSession


def commit(session: Session, **offsets: Mapping[Position, CommittedOffset]) -> None:
    commits = [GroupCommit(group=group, claim=None, offsets=some) for group, some in offsets.items()]
    assert GroupClaims(session).commit(commits) == [None] * len(commits)


def test_the_papers_consumers_read_and_write_offsets_that_kafka_clients_put_notes_beside(open_session: OpenSession) -> None:
    session = open_session()
    offsets = OffsetRegistry(session)
    commit(session, g={("clicks", 0): CommittedOffset(5, 3, "host-7 ☃"), ("clicks", 1): CommittedOffset(6)})
    assert offsets.get("g", "clicks", 0) == 5
    assert offsets.get_all("g") == {("clicks", 0): 5, ("clicks", 1): 6}
    assert offsets.read("g", [("clicks", 0), ("clicks", 2)]) == {("clicks", 0): CommittedOffset(5, 3, "host-7 ☃")}
    offsets.put("g", "clicks", 0, 9)
    assert offsets.read("g", None)["clicks", 0] == CommittedOffset(9), "a bare commit has no notes, not the old ones"


def test_offsets_are_forgotten_one_by_one_and_topic_by_topic(open_session: OpenSession) -> None:
    session = open_session()
    offsets = OffsetRegistry(session)
    positions = {(topic, index): CommittedOffset(1) for topic in ("clicks", "orders") for index in range(3)}
    commit(session, **dict.fromkeys(["g", "team/h"], positions))
    assert offsets.forget("g", [("clicks", 0), ("clicks", 9), ("nowhere", 0)]) == {("clicks", 0)}
    assert len(offsets.get_all("g")) == 5
    offsets.forget_topics(["clicks", "nobodys"])
    for group in ("g", "team/h"):
        assert set(offsets.get_all(group)) == {("orders", index) for index in range(3)}
    offsets.forget("g", offsets.get_all("g").keys())
    assert GroupDirectory(session).groups() == {"team/h": False}
    offsets.put("g", "clicks", 0, 1)
    assert GroupDirectory(session).groups() == {"g": False, "team/h": False}


def test_groups_are_listed_and_described_by_what_they_left_and_who_lives_in_them(open_session: OpenSession) -> None:
    session = open_session()
    directory = GroupDirectory(session)
    assert directory.groups() == {}
    OffsetRegistry(session).put("left", "clicks", 0, 1)
    ConsumerRegistry(session).register("paper", "c1", {"clicks": 1, "orders": 2})
    for partition in (0, 1):
        OwnerRegistry(session).claim("paper", "clicks", partition, "c1")
    assert directory.groups() == {"left": False, "paper": True}
    assert directory.describe(["left", "paper", "nothing"]) == {
        "left": GroupTrace(has_offsets=True),
        "paper": GroupTrace(members={"c1": PaperMember(topics=["clicks", "orders"], partitions={"clicks": [0, 1]})}),
        "nothing": GroupTrace(),
    }


def test_a_group_is_deleted_whole_but_not_under_its_members(open_session: OpenSession) -> None:
    session = open_session()
    directory, offsets, consumers = GroupDirectory(session), OffsetRegistry(session), ConsumerRegistry(session)
    assert directory.delete("g") is Deletion.ABSENT
    offsets.put_many("g", {("clicks", partition): partition for partition in range(PIPELINE + 10)})
    consumers.register("g", "c1", {"clicks": 1})
    OwnerRegistry(session).claim("g", "clicks", 0, "c1")
    assert directory.delete("g") is Deletion.HAS_MEMBERS
    assert len(offsets.get_all("g")) == PIPELINE + 10
    consumers.withdraw("g", "c1")
    OwnerRegistry(session).release("g", "clicks", 0)
    assert directory.delete("g") is Deletion.DONE
    assert session.tree.children("/consumers") == []
    assert directory.delete("g") is Deletion.ABSENT
    consumers.register("g", "c1", {"clicks": 1})
    assert directory.groups() == {"g": True}


@pytest.mark.parametrize("group", ["team/billing", "..", "100%", "line\nbreak", "\ufffd"])
def test_a_group_may_be_named_with_any_text(open_session: OpenSession, group: str) -> None:
    session = open_session()
    OffsetRegistry(session).put(group, "clicks", 0, 7)
    assert OffsetRegistry(session).get(group, "clicks", 0) == 7
    assert GroupDirectory(session).groups() == {group: False}
    assert GroupDirectory(session).delete(group) is Deletion.DONE
