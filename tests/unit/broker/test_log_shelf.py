"""Topics in ZooKeeper and logs in the folder, kept in step. Real logs and keeper; registries are dictionaries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from headrace.broker import batched_jobs
from headrace.broker.catalog import extension
from headrace.broker.errors import BeingDeleted, NotMorePartitions
from headrace.broker.log import LogError
from headrace.broker.log_shelf import LogShelf, Seen
from headrace.broker.partitions import PartitionTable
from headrace.broker.topic_keeper import TopicKeeper
from headrace.coordination.brokers import BrokerInfo, BrokerRegistry
from headrace.coordination.topics import TopicInfo, TopicRegistry, Wanted
from tests.support.small_logs import batch
from tests.unit.broker.hand_worker import HandWorker

NOW_MS = 1_800_000_000_000


class MemoryRegistry:
    """What is used of `TopicRegistry`; notes which topics were read by name."""

    def __init__(self) -> None:
        self.infos: dict[str, TopicInfo] = {}
        self.reads: list[str] = []
        self.rounds: list[tuple[str, int]] = []
        """Calls for many topics at once: what they did, to how many."""
        self._created = 0

    def create(self, topic: str, partitions: Mapping[int, Sequence[int]], config: Mapping[str, str]) -> bool:
        if topic in self.infos:
            return False
        self._created += 1
        self._put(topic, partitions, config, 0, UUID(int=self._created))
        return True

    def read(self, topic: str) -> TopicInfo | None:
        return self.infos.get(topic)

    def read_many(self, topics: Sequence[str]) -> dict[str, TopicInfo]:
        self.reads += topics
        return {topic: self.infos[topic] for topic in topics if topic in self.infos}

    read_each = read_many

    def create_many(self, topics: Mapping[str, Wanted]) -> dict[str, TopicInfo | None]:
        self.rounds.append(("create", len(topics)))
        new = {topic: self.create(topic, places, config) for topic, (places, config) in topics.items()}
        return {topic: self.infos[topic] if is_new else None for topic, is_new in new.items()}

    def delete_many(self, topics: Mapping[str, UUID | None]) -> dict[str, bool]:
        self.rounds.append(("delete", len(topics)))
        meant = {
            topic for topic, wanted in topics.items() if topic in self.infos and wanted in (None, self.infos[topic].topic_id)
        }
        return {topic: topic in meant and self.delete(topic) for topic in topics}

    def list(self) -> list[str]:
        return sorted(self.infos)

    def delete(self, topic: str) -> bool:
        return self.infos.pop(topic, None) is not None

    def change_config(self, topic: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]) -> bool:
        info = self.infos.get(topic)
        if info is None:
            return False
        self._put(topic, info.partitions, change(info.config), info.version + 1, info.topic_id)
        return True

    def add_partitions(self, topic: str, partitions: Mapping[int, Sequence[int]]) -> bool:
        info = self.infos.get(topic)
        if info is None:
            return False
        self._put(topic, {**info.partitions, **partitions}, info.config, info.version + 1, info.topic_id)
        return True

    def _put(
        self, topic: str, partitions: Mapping[int, Sequence[int]], config: Mapping[str, str], version: int, topic_id: UUID
    ) -> None:
        places = {index: tuple(ids) for index, ids in partitions.items()}
        self.infos[topic] = TopicInfo(topic=topic, partitions=places, config=dict(config), version=version, topic_id=topic_id)


class MemoryBrokers:
    def __init__(self) -> None:
        self.known = [BrokerInfo(broker_id=1, host="h", port=1, folder_id="f", timestamp_ms=0)]

    def list(self) -> list[BrokerInfo]:
        return self.known


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


def shelf_on(folder: Path, registry: MemoryRegistry) -> LogShelf:
    return LogShelf(
        data=folder,
        broker_id=1,
        defaults={},
        topics=cast(TopicRegistry, registry),
        brokers=cast(BrokerRegistry, MemoryBrokers()),
        now_ms=lambda: NOW_MS,
    )


@pytest.fixture
def shelf(tmp_path: Path, registry: MemoryRegistry) -> Iterator[LogShelf]:
    shelf = shelf_on(tmp_path, registry)
    yield shelf
    shelf.close()


class Kept:
    """A keeper whose worker runs when the test says so."""

    def __init__(self, folder: Path, registry: MemoryRegistry) -> None:
        self.worker = HandWorker()
        self.table = PartitionTable()
        self.keeper = TopicKeeper(
            data=folder,
            broker_id=1,
            defaults={},
            cluster_id="c",
            topics=cast(TopicRegistry, registry),
            brokers=cast(BrokerRegistry, MemoryBrokers()),
            table=self.table,
            worker=cast(Any, self.worker),
            now_ms=lambda: NOW_MS,
            ask_flush=lambda partition, within_ms: None,
            dispose=lambda job: job(),
        )
        self.keeper.load()


@pytest.fixture
def kept(tmp_path: Path, registry: MemoryRegistry) -> Iterator[Kept]:
    kept = Kept(tmp_path, registry)
    yield kept
    kept.worker.run()
    kept.keeper.close()


def made(shelf: LogShelf, topic: str, *indices: int) -> Seen:
    outcomes, seen = shelf.create({topic: (dict.fromkeys(indices, (1,)), {})})
    assert outcomes == {topic: True}
    return seen


# -- the shelf ----------------------------------------


def test_a_look_reads_new_and_stale_topics_only_and_what_has_not_changed_is_the_same_object(
    shelf: LogShelf, registry: MemoryRegistry
) -> None:
    for number in range(20):
        registry.create(f"t{number}", {0: [1]}, {})
    first = shelf.load()
    registry.reads.clear()
    registry.create("new", {0: [1]}, {})
    registry.change_config("t3", lambda _: {"retention.ms": "5"})
    second = shelf.look({"t3"})
    assert sorted(registry.reads) == ["new", "t3"]
    assert second.topics.keys() == first.topics.keys() | {"new"}
    assert second.topics["t4"] is first.topics["t4"]
    assert second.opened["t4", 0][1] is first.opened["t4", 0][1]
    assert second.opened["t3", 0][1].retention_ms == 5
    assert second.opened["t3", 0][0] is first.opened["t3", 0][0]


def test_topics_that_went_are_gone_whether_listed_or_only_stale(shelf: LogShelf, registry: MemoryRegistry) -> None:
    registry.create("a", {0: [1]}, {})
    registry.create("b", {0: [2]}, {})
    assert shelf.load().opened.keys() == {("a", 0)}
    registry.delete("b")
    assert shelf.look(()).topics.keys() == {"a"}
    registry.delete("a")
    assert shelf.look({"a"}).topics == {}


def test_a_log_that_cannot_be_opened_is_left_out_and_all_others_are_served(
    tmp_path: Path, shelf: LogShelf, registry: MemoryRegistry
) -> None:
    shelf.load()
    for name in ("a", "bad", "c"):
        registry.create(name, {0: [1]}, {})
    (tmp_path / "bad-0").write_text("a file where a folder must be")
    assert shelf.look(()).opened.keys() == {("a", 0), ("c", 0)}
    (tmp_path / "bad-0").unlink()
    assert shelf.look(()).opened.keys() == {("a", 0), ("bad", 0), ("c", 0)}


def test_a_topic_made_anew_waits_until_the_logs_of_its_name_are_set_aside(
    tmp_path: Path, shelf: LogShelf, registry: MemoryRegistry
) -> None:
    made(shelf, "a", 0)
    assert shelf.unregister({"a": None}) == {"a": True}
    outcomes, seen = shelf.create({"a": ({0: (1,)}, {}), "b": ({0: (1,)}, {})})
    assert isinstance(outcomes.pop("a"), BeingDeleted)
    assert (outcomes, seen.topics.keys()) == ({"b": True}, {"b"}), "and others are made"
    registry.create("a", {0: [1]}, {})
    assert shelf.look(()).opened.keys() == {("b", 0)}
    assert shelf.configure("a", lambda config: config) == (False, shelf.configure("a", lambda config: config)[1])
    aside = shelf.set_aside({"a": "deleted"})["a"]
    assert not isinstance(aside, Exception)
    assert [folder.name.partition(".deleted.")[0] for folder in aside] == ["a-0"]
    assert shelf.look(()).opened.keys() == {("a", 0), ("b", 0)}


def test_folders_of_no_topic_are_named_and_kept(tmp_path: Path, shelf: LogShelf, registry: MemoryRegistry) -> None:
    registry.create("a", {0: [1]}, {})
    (tmp_path / "gone-0").mkdir()
    (tmp_path / "not a partition").mkdir()
    shelf.load()
    assert shelf.strangers() == [tmp_path / "gone-0"]
    assert (tmp_path / "gone-0").is_dir()


def test_what_a_deletion_left_that_was_cut_short_does_not_come_back_under_a_new_topic(
    tmp_path: Path, shelf: LogShelf, registry: MemoryRegistry
) -> None:
    seen = made(shelf, "a", 0, 1)
    for opened, _ in seen.opened.values():
        opened.append(batch(b"old"), NOW_MS)
    assert shelf.unregister({"a": None})  # answered, and killed before the folders got other names
    again = shelf_on(tmp_path, registry)
    again.load()
    anew = made(again, "a", 0)
    _, extended = again.extend("a", lambda _: {1: (1,)})
    assert [opened.log_end_offset for opened, _ in (*anew.opened.values(), *extended.opened.values())] == [0, 0, 0]
    assert len(list((tmp_path / f"a-0.gone.{NOW_MS}").glob("*.log"))) == 1, "and nothing is erased"
    again.close()


# -- the keeper ----------------------------------------


def test_however_often_a_look_is_asked_for_meanwhile_it_is_one_more(kept: Kept, registry: MemoryRegistry) -> None:
    registry.create("a", {0: [1]}, {})
    registry.create("b", {0: [1]}, {})
    kept.keeper.refresh()
    for _ in range(50):
        kept.keeper.refresh("a")
    assert len(kept.worker.jobs) == 1
    registry.reads.clear()
    kept.worker.run()
    assert registry.reads.count("a") == 2
    assert registry.reads.count("b") == 1


def test_a_look_that_failed_or_found_no_room_is_made_up_for_by_the_next(
    kept: Kept, registry: MemoryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> list[str]:
        raise ConnectionError("ZooKeeper is away")

    kept.keeper.create("a", 1, {}, lambda outcome: None)
    kept.worker.run()
    registry.change_config("a", lambda _: {"retention.ms": "5"})
    monkeypatch.setattr(registry, "list", away)
    kept.keeper.refresh("a")
    kept.worker.run()
    monkeypatch.undo()
    kept.worker.is_full = True
    kept.keeper.refresh()
    kept.worker.is_full = False
    kept.keeper.refresh()
    kept.worker.run()
    partition = kept.table.get("a", 0)
    assert partition is not None
    assert partition.settings.retention_ms == 5


def test_a_catalog_in_which_nothing_changed_stays_the_same_object(kept: Kept) -> None:
    kept.keeper.create("a", 2, {}, lambda outcome: None)
    kept.worker.run()
    kept.keeper.refresh("a")
    kept.worker.run()
    catalog = kept.keeper.catalog
    kept.keeper.refresh("a")
    kept.worker.run()
    assert kept.keeper.catalog is catalog


def test_a_topic_extended_by_somebody_else_first_is_not_extended_twice(kept: Kept, registry: MemoryRegistry) -> None:
    outcomes: list[bool | Exception] = []
    kept.keeper.create("a", 1, {}, outcomes.append)
    kept.worker.run()
    registry.add_partitions("a", {1: [1], 2: [1]})
    kept.keeper.extend("a", 3, None, outcomes.append)
    kept.keeper.extend("a", 4, None, outcomes.append)
    kept.keeper.extend("nowhere", 4, None, outcomes.append)
    kept.worker.run()
    assert isinstance(outcomes[1], NotMorePartitions)
    assert outcomes[2:] == [True, False]
    assert set(kept.table.of_topic("a")) == {0, 1, 2, 3}


def test_a_full_worker_is_told_to_whoever_asks(kept: Kept) -> None:
    kept.worker.is_full = True
    outcomes: list[bool | Exception] = []
    kept.keeper.create("a", 1, {}, outcomes.append)
    kept.keeper.extend("a", 2, None, outcomes.append)
    kept.keeper.configure("a", lambda config: config, outcomes.append)
    kept.keeper.delete("a", outcomes.append)
    assert ["waiting already" in str(outcome) for outcome in outcomes] == [True] * 4


def test_many_topics_are_made_and_deleted_in_few_rounds_and_each_is_told(kept: Kept, registry: MemoryRegistry) -> None:
    outcomes: dict[str, bool | Exception] = {}
    names = [f"t{number}" for number in range(100)]
    registry.create("t7", {0: [1]}, {})
    for name in names:
        kept.keeper.create(name, 1, {}, partial(outcomes.__setitem__, name))
    kept.worker.run()
    assert outcomes == {name: name != "t7" for name in names}
    assert registry.rounds == [("create", 1), ("create", 99)]
    assert kept.keeper.catalog.topics.keys() == set(names)
    assert len(kept.table) == 100
    outcomes.clear()
    for name in [*names, "nowhere"]:
        kept.keeper.delete(name, partial(outcomes.__setitem__, name))
    kept.worker.run()
    assert outcomes == {**dict.fromkeys(names, True), "nowhere": False}
    assert registry.rounds[2:] == [("delete", 1), ("delete", 100)]
    assert (kept.keeper.catalog.topics, len(kept.table)) == ({}, 0)


def test_of_two_deletions_at_once_the_second_finds_nothing_and_a_topic_made_between_them_is_made_and_goes(
    kept: Kept, registry: MemoryRegistry
) -> None:
    outcomes: list[bool | Exception] = []
    kept.keeper.create("a", 1, {}, outcomes.append)
    kept.keeper.delete("a", outcomes.append)
    kept.keeper.delete("a", outcomes.append)
    kept.worker.run()
    assert outcomes == [True, True, False]
    kept.keeper.create("a", 1, {}, outcomes.append)
    kept.worker.run()
    assert (outcomes[3], registry.list(), len(kept.table)) == (True, ["a"], 1)


def test_a_topic_is_deleted_by_its_id_only_while_it_has_that_id(kept: Kept, registry: MemoryRegistry) -> None:
    outcomes: list[bool | Exception] = []
    kept.keeper.create("a", 1, {}, outcomes.append)
    kept.worker.run()
    wrong, right = UUID(int=77), kept.keeper.catalog.topics["a"].topic_id
    kept.keeper.delete("a", outcomes.append, wrong)
    kept.worker.run()
    assert (outcomes[1], registry.list(), len(kept.table)) == (False, ["a"], 1)
    kept.keeper.delete("a", outcomes.append, right)
    kept.worker.run()
    assert (outcomes[2], registry.list(), len(kept.table)) == (True, [], 0)


def test_a_topic_whose_log_cannot_be_opened_is_told_so_and_the_others_of_its_round_are_served(
    tmp_path: Path, kept: Kept, registry: MemoryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogShelf, "_leftovers", lambda *_: [])
    (tmp_path / "bad-0").write_text("a file where a folder must be")
    outcomes: dict[str, bool | Exception] = {}
    for name in ("first", "a", "bad", "c"):
        kept.keeper.create(name, 1, {}, partial(outcomes.__setitem__, name))
    kept.worker.run()
    assert isinstance(outcomes.pop("bad"), LogError)
    assert outcomes == dict.fromkeys(("first", "a", "c"), True)
    assert sorted(kept.table.topics()) == ["a", "c", "first"]


def test_more_topics_than_may_wait_are_set_aside_when_they_are_gone(tmp_path: Path, registry: MemoryRegistry) -> None:
    names = [f"t{number}" for number in range(batched_jobs.MOST_WAITING + 50)]
    for name in names:
        registry.create(name, {0: [1]}, {})
    kept = Kept(tmp_path, registry)
    assert len(kept.table) == len(names)
    registry.infos.clear()
    kept.keeper.refresh()
    kept.worker.run()
    assert not [folder for folder in tmp_path.iterdir() if ".gone." not in folder.name]
    registry.create("t5", {0: [1]}, {})
    kept.keeper.refresh()
    kept.worker.run()
    assert kept.table.topics() == ["t5"]
    kept.keeper.close()


# -- where new partitions go ----------------------------------------


def test_new_partitions_go_on_round_the_brokers_where_the_first_began() -> None:
    assert extension("t", {0: (2,), 1: (3,)}, 4, [1, 2, 3], None) == {2: (1,), 3: (2,)}
    assert extension("t", {0: (9,)}, 2, [1, 2], None) == {1: (2,)}
    assert extension("t", {0: (1,)}, 2, [1], [(1,)]) == {1: (1,)}


@pytest.mark.parametrize(("count", "places"), [(1, None), (0, None), (3, [(1,)])])
def test_partitions_are_only_added_and_each_has_its_place(count: int, places: list[tuple[int, ...]] | None) -> None:
    with pytest.raises(NotMorePartitions):
        extension("t", {0: (1,)}, count, [1], places)
