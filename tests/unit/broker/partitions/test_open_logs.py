"""The logs in the folder follow the topics in ZooKeeper. Real logs; registries are dictionaries."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from headrace.broker.errors import BeingDeleted
from headrace.broker.log import topic_note
from headrace.broker.partitions.open_logs import ClusterView, OpenLogs
from headrace.coordination.brokers import BrokerRegistry
from headrace.coordination.producer_ids import TreeLost
from headrace.coordination.topics import TopicRegistry
from tests.support.small_logs import batch
from tests.unit.broker.partitions.memory_registries import NOW_MS, MemoryBrokers, MemoryRegistry


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


def open_logs_on(folder: Path, registry: MemoryRegistry, check_cluster: Callable[[], None] = lambda: None) -> OpenLogs:
    return OpenLogs(
        check_cluster=check_cluster,
        data=folder,
        broker_id=1,
        defaults={},
        topics=cast(TopicRegistry, registry),
        brokers=cast(BrokerRegistry, MemoryBrokers()),
        now_ms=lambda: NOW_MS,
    )


@pytest.fixture
def logs(tmp_path: Path, registry: MemoryRegistry) -> Iterator[OpenLogs]:
    logs = open_logs_on(tmp_path, registry)
    yield logs
    logs.close()


def made(logs: OpenLogs, topic: str, *indices: int) -> ClusterView:
    outcomes, seen = logs.create({topic: (dict.fromkeys(indices, (1,)), {})})
    assert outcomes == {topic: True}
    return seen


def test_a_look_reads_new_and_stale_topics_only_and_what_has_not_changed_is_the_same_object(
    logs: OpenLogs, registry: MemoryRegistry
) -> None:
    for number in range(20):
        registry.create(f"t{number}", {0: [1]}, {})
    first = logs.load()
    registry.reads.clear()
    registry.create("new", {0: [1]}, {})
    registry.change_config("t3", lambda _: {"retention.ms": "5"})
    second = logs.look({"t3"})
    assert sorted(registry.reads) == ["new", "t3"]
    assert second.topics.keys() == first.topics.keys() | {"new"}
    assert second.topics["t4"] is first.topics["t4"]
    assert second.opened.keys() == {("new", 0), ("t3", 0)}
    assert second.opened["t3", 0][1].retention_ms == 5
    assert second.opened["t3", 0][0] is first.opened["t3", 0][0]


def test_topics_that_went_are_gone_whether_listed_or_only_stale(logs: OpenLogs, registry: MemoryRegistry) -> None:
    registry.create("a", {0: [1]}, {})
    registry.create("b", {0: [2]}, {})
    assert logs.load().opened.keys() == {("a", 0)}
    registry.delete("b")
    assert logs.look(()).topics.keys() == {"a"}
    registry.delete("a")
    assert logs.look({"a"}).topics == {}


def test_a_log_that_cannot_be_opened_is_left_out_and_all_others_are_served(
    tmp_path: Path, logs: OpenLogs, registry: MemoryRegistry
) -> None:
    logs.load()
    for name in ("a", "bad", "c"):
        registry.create(name, {0: [1]}, {})
    (tmp_path / "bad-0").write_text("a file where a folder must be")
    assert logs.look(()).opened.keys() == {("a", 0), ("c", 0)}
    (tmp_path / "bad-0").unlink()
    assert logs.look(()).opened.keys() == {("bad", 0)}


def test_a_topic_made_anew_waits_until_the_logs_of_its_name_are_set_aside(
    tmp_path: Path, logs: OpenLogs, registry: MemoryRegistry
) -> None:
    made(logs, "a", 0)
    assert logs.unregister({"a": None}) == {"a": True}
    outcomes, seen = logs.create({"a": ({0: (1,)}, {}), "b": ({0: (1,)}, {})})
    assert isinstance(outcomes.pop("a"), BeingDeleted)
    assert (outcomes, seen.topics.keys()) == ({"b": True}, {"b"}), "and others are made"
    registry.create("a", {0: [1]}, {})
    assert logs.look(()).topics.keys() == {"b"}
    assert logs.configure("a", lambda config: config) == (False, logs.configure("a", lambda config: config)[1])
    aside = logs.set_aside({"a": "deleted"})["a"]
    assert not isinstance(aside, Exception)
    assert [folder.name.partition(".deleted.")[0] for folder in aside] == ["a-0"]
    assert logs.look(()).opened.keys() == {("a", 0)}


def test_folders_of_no_topic_are_named_and_kept(tmp_path: Path, logs: OpenLogs, registry: MemoryRegistry) -> None:
    registry.create("a", {0: [1]}, {})
    (tmp_path / "gone-0").mkdir()
    (tmp_path / "not a partition").mkdir()
    logs.load()
    assert logs.unknown_folders() == [tmp_path / "gone-0"]
    assert (tmp_path / "gone-0").is_dir()


def test_what_a_deletion_left_that_was_cut_short_does_not_come_back_under_a_new_topic(
    tmp_path: Path, logs: OpenLogs, registry: MemoryRegistry
) -> None:
    seen = made(logs, "a", 0, 1)
    for opened, _ in seen.opened.values():
        opened.append(batch(b"old"), NOW_MS)
    assert logs.unregister({"a": None})  # answered, and killed before the folders got other names
    again = open_logs_on(tmp_path, registry)
    again.load()
    anew = made(again, "a", 0)
    _, extended = again.extend("a", lambda _: {1: (1,)})
    assert [opened.log_end_offset for opened, _ in (*anew.opened.values(), *extended.opened.values())] == [0, 0, 0]
    assert len(list((tmp_path / f"a-0.gone.{NOW_MS}").glob("*.log"))) == 1, "and nothing is erased"
    again.close()


def test_a_tree_that_was_lost_gets_no_new_topic(tmp_path: Path, registry: MemoryRegistry) -> None:
    """Fault: a client that made a topic meanwhile put it into the empty tree, and the copy was refused because of it."""
    is_lost = False

    def check() -> None:
        if is_lost:
            raise TreeLost("zookeeper:2181", None)

    logs = open_logs_on(tmp_path, registry, check)
    made(logs, "known", 0)
    registry.delete("known")
    is_lost = True
    with pytest.raises(TreeLost, match="headrace zookeeper import"):
        logs.create({"new": ({0: (1,)}, {}), "known": ({0: (1,)}, {})})
    assert registry.list() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["known-0"]
    logs.close()


# -- another topic of the same name ----------------------------------------


def reopened(folder: Path, registry: MemoryRegistry) -> OpenLogs:
    logs = open_logs_on(folder, registry)
    logs.load()
    return logs


def test_a_topic_deleted_and_created_again_while_its_broker_was_down_begins_empty(
    tmp_path: Path, logs: OpenLogs, registry: MemoryRegistry
) -> None:
    """Fault: the old records were the new topic's."""
    for topic in ("t", "u"):
        made(logs, topic, 0).opened[topic, 0][0].append(batch(b"old"), NOW_MS)
    logs.close()
    registry.delete("t")
    registry.create("t", {0: [1]}, {})
    again = reopened(tmp_path, registry)
    assert again.look({"t", "u"}).opened["t", 0][0].log_end_offset == 0
    assert again.look({"u"}).opened["u", 0][0].log_end_offset > 0
    (aside,) = tmp_path.glob("t-0.replaced.*")
    assert (aside / "00000000000000000000.log").stat().st_size > 0
    again.close()


def test_a_folder_of_an_older_version_is_adopted_once(tmp_path: Path, logs: OpenLogs, registry: MemoryRegistry) -> None:
    made(logs, "t", 0).opened["t", 0][0].append(batch(b"old"), NOW_MS)
    logs.close()
    note = tmp_path / "t-0" / "partition.metadata"
    assert note.read_text().startswith("version: 0\ntopic_id: ")
    for content in (None, "", "version: 0\ntopic_id: ???\n", "version: 7\n"):
        note.unlink()
        if content is not None:
            note.write_text(content)
        again = reopened(tmp_path, registry)
        assert again.look({"t"}).opened["t", 0][0].log_end_offset > 0
        again.close()
        assert topic_note.read(tmp_path / "t-0") == registry.infos["t"].topic_id
    assert list(tmp_path.glob("*.replaced.*")) == []


def test_a_running_broker_takes_leave_of_a_topic_before_it_serves_another_of_its_name(
    logs: OpenLogs, registry: MemoryRegistry
) -> None:
    """Fault: deleted and created again between two looks, the new topic had the old one's open log."""
    made(logs, "t", 0).opened["t", 0][0].append(batch(b"old"), NOW_MS)
    registry.delete("t")
    registry.create("t", {0: [1]}, {})
    assert "t" not in logs.look({"t"}).topics
    logs.set_aside({"t": "gone"})
    seen = logs.look(())
    assert seen.topics["t"].topic_id == registry.infos["t"].topic_id
    assert seen.opened["t", 0][0].log_end_offset == 0


def test_folders_of_replaced_topics_expire_as_their_records_would(tmp_path: Path, registry: MemoryRegistry) -> None:
    logs = open_logs_on(tmp_path, registry)
    week_ms = 7 * 24 * 3_600_000
    for since_ms in (NOW_MS - week_ms - 1, NOW_MS - week_ms + 1):
        (tmp_path / f"t-0.replaced.{since_ms}").mkdir()
    (tmp_path / "u-0.gone.1").mkdir()
    assert [folder.name for folder in logs.expired_folders()] == [f"t-0.replaced.{NOW_MS - week_ms - 1}"]


@pytest.mark.parametrize("count", [20, 40])
def test_a_change_costs_as_much_as_it_changes_however_many_topics_there_are(
    logs: OpenLogs, registry: MemoryRegistry, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(count):
        registry.create(f"t{number}", {0: [1], 1: [1]}, {})
    assert len(logs.load().opened) == 2 * count
    calls: list[str] = []
    monkeypatch.setattr(OpenLogs, "_open_all", lambda self, known, opened: calls.append(known.entry.name))
    registry.reads.clear()
    monkeypatch.setattr(registry, "list", lambda: pytest.fail("no topic came or went"))
    assert logs.look({"t3"}, lists=False).topics.keys() == {f"t{number}" for number in range(count)}
    assert (calls, registry.reads) == (["t3"], ["t3"])
