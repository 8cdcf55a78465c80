"""Many topics by one round of calls, and the ids they have; on a real ZooKeeper."""

from headrace.coordination.errors import ValueTooLarge, VersionConflict
from headrace.coordination.topics import TopicInfo, TopicRegistry
from headrace.coordination.tree import PIPELINE
from tests.support.processes import eventually

from .conftest import OpenSession

MANY = [f"t{number}" for number in range(PIPELINE + 44)]


def test_many_are_registered_and_unregistered_each_with_its_own_outcome(open_session: OpenSession) -> None:
    session = open_session()
    topics = TopicRegistry(session)
    assert topics.create("t7", {0: [1]}, {"kept": "1"})
    huge = {"note": "x" * 1_000_000}
    made = topics.create_many({**{name: ({0: [1], 1: [2]}, {"a": "b"}) for name in MANY}, "huge": ({0: [1]}, huge)})
    assert isinstance(made.pop("huge"), ValueTooLarge)
    assert {name for name, info in made.items() if info is None} == {"t7"}
    assert {name: info for name, info in topics.read_many(MANY).items() if name != "t7"} == {
        name: info for name, info in made.items() if info is not None
    }, "what is returned is what stands there"
    session.tree.create("/brokers/topics/t3/partitions", b"")  # as Kafka's own nodes have them
    gone = topics.delete_many(dict.fromkeys([*MANY, "nowhere"]))
    assert isinstance(gone.pop("t3"), VersionConflict)
    assert {name for name, outcome in gone.items() if outcome is not True} == {"nowhere"}
    assert topics.list() == ["t3"]


def test_an_id_stays_while_the_topic_does_and_is_another_for_the_next_of_its_name(open_session: OpenSession) -> None:
    one, two = TopicRegistry(open_session("one")), TopicRegistry(open_session("two"))
    first = one.create_many({"a": ({0: [1]}, {})})["a"]
    assert isinstance(first, TopicInfo)
    assert two.change_config("a", lambda _: {"retention.ms": "5"})
    assert two.add_partitions("a", {1: [1]})
    (changed,) = one.read_many(["a"]).values()
    assert (changed.version, changed.topic_id) == (2, first.topic_id)
    assert two.delete_many({"a": first.topic_id}) == {"a": True}
    assert two.create("a", {0: [1]}, {})
    (anew,) = one.read_many(["a"]).values()
    assert anew.topic_id != first.topic_id
    assert one.delete_many({"a": first.topic_id, "nowhere": first.topic_id}) == {"a": False, "nowhere": False}
    assert one.list() == ["a"]


def test_a_watch_of_each_of_many_tells_all_and_forgets_those_that_are_gone(open_session: OpenSession) -> None:
    reader, writer = TopicRegistry(open_session("reader")), TopicRegistry(open_session("writer"))
    changed: list[str] = []
    end = reader.watch_each(lambda: None, changed.append)
    writer.create_many({name: ({0: [1]}, {}) for name in MANY})
    eventually(lambda: set(changed) == set(MANY), what="each told")
    changed.clear()
    writer.delete_many(dict.fromkeys(MANY[1:]))
    writer.set_config(MANY[0], {"retention.ms": "1"})
    eventually(lambda: MANY[0] in changed, what="the one that is left is still watched")
    writer.create(MANY[1], {0: [1]}, {})
    changed.clear()
    eventually(lambda: writer.set_config(MANY[1], {"retention.ms": "1"}) and MANY[1] in changed, what="made anew, it is watched")
    end()
