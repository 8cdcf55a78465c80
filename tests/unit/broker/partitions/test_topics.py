"""What `Topics` has its worker do, and how it reports the outcome. Real logs; registries are dictionaries."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from headrace.broker.errors import NotMorePartitions
from headrace.broker.event_loop import batched_jobs
from headrace.broker.log import LogError
from headrace.broker.partitions.open_logs import OpenLogs
from headrace.broker.partitions.partition import PartitionTable
from headrace.broker.partitions.topics import Topics
from headrace.coordination.brokers import BrokerRegistry
from headrace.coordination.topics import TopicRegistry
from tests.unit.broker.hand_worker import HandWorker
from tests.unit.broker.partitions.memory_registries import NOW_MS, MemoryBrokers, MemoryRegistry


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


class Kept:
    """Topics whose worker runs when the test says so."""

    def __init__(self, folder: Path, registry: MemoryRegistry) -> None:
        self.worker = HandWorker()
        self.table = PartitionTable()
        self.topics = Topics(
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
        self.topics.load()


@pytest.fixture
def kept(tmp_path: Path, registry: MemoryRegistry) -> Iterator[Kept]:
    kept = Kept(tmp_path, registry)
    yield kept
    kept.worker.run()
    kept.topics.close()


def test_however_often_a_look_is_asked_for_meanwhile_it_is_one_more(kept: Kept, registry: MemoryRegistry) -> None:
    registry.create("a", {0: [1]}, {})
    registry.create("b", {0: [1]}, {})
    kept.topics.refresh()
    for _ in range(50):
        kept.topics.refresh("a")
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

    kept.topics.create("a", 1, {}, lambda outcome: None)
    kept.worker.run()
    registry.change_config("a", lambda _: {"retention.ms": "5"})
    monkeypatch.setattr(registry, "list", away)
    kept.topics.refresh("a")
    kept.worker.run()
    monkeypatch.undo()
    kept.worker.capacity = 0
    kept.topics.refresh()
    kept.worker.capacity = 10_000
    kept.topics.refresh()
    kept.worker.run()
    partition = kept.table.get("a", 0)
    assert partition is not None
    assert partition.settings.retention_ms == 5


def test_a_catalog_in_which_nothing_changed_stays_the_same_object(kept: Kept) -> None:
    kept.topics.create("a", 2, {}, lambda outcome: None)
    kept.worker.run()
    kept.topics.refresh("a")
    kept.worker.run()
    catalog = kept.topics.catalog
    kept.topics.refresh("a")
    kept.worker.run()
    assert kept.topics.catalog is catalog


def test_a_topic_extended_by_somebody_else_first_is_not_extended_twice(kept: Kept, registry: MemoryRegistry) -> None:
    outcomes: list[bool | Exception] = []
    kept.topics.create("a", 1, {}, outcomes.append)
    kept.worker.run()
    registry.add_partitions("a", {1: [1], 2: [1]})
    kept.topics.extend("a", 3, None, outcomes.append)
    kept.topics.extend("a", 4, None, outcomes.append)
    kept.topics.extend("nowhere", 4, None, outcomes.append)
    kept.worker.run()
    assert isinstance(outcomes[1], NotMorePartitions)
    assert outcomes[2:] == [True, False]
    assert set(kept.table.of_topic("a")) == {0, 1, 2, 3}


def test_a_full_worker_is_told_to_whoever_asks(kept: Kept) -> None:
    kept.worker.capacity = 0
    outcomes: list[bool | Exception] = []
    kept.topics.create("a", 1, {}, outcomes.append)
    kept.topics.extend("a", 2, None, outcomes.append)
    kept.topics.configure("a", lambda config: config, outcomes.append)
    kept.topics.delete("a", outcomes.append)
    assert ["waiting already" in str(outcome) for outcome in outcomes] == [True] * 4


def test_many_topics_are_made_and_deleted_in_few_rounds_and_each_is_told(kept: Kept, registry: MemoryRegistry) -> None:
    outcomes: dict[str, bool | Exception] = {}
    names = [f"t{number}" for number in range(100)]
    registry.create("t7", {0: [1]}, {})
    for name in names:
        kept.topics.create(name, 1, {}, partial(outcomes.__setitem__, name))
    kept.worker.run()
    assert outcomes == {name: name != "t7" for name in names}
    assert registry.rounds == [("create", 1), ("create", 99)]
    assert kept.topics.catalog.topics.keys() == set(names)
    assert len(kept.table) == 100
    outcomes.clear()
    for name in [*names, "nowhere"]:
        kept.topics.delete(name, partial(outcomes.__setitem__, name))
    kept.worker.run()
    assert outcomes == {**dict.fromkeys(names, True), "nowhere": False}
    assert registry.rounds[2:] == [("delete", 1), ("delete", 100)]
    assert (kept.topics.catalog.topics, len(kept.table)) == ({}, 0)


def test_of_two_deletions_at_once_the_second_finds_nothing_and_a_topic_made_between_them_is_made_and_goes(
    kept: Kept, registry: MemoryRegistry
) -> None:
    outcomes: list[bool | Exception] = []
    kept.topics.create("a", 1, {}, outcomes.append)
    kept.topics.delete("a", outcomes.append)
    kept.topics.delete("a", outcomes.append)
    kept.worker.run()
    assert outcomes == [True, True, False]
    kept.topics.create("a", 1, {}, outcomes.append)
    kept.worker.run()
    assert (outcomes[3], registry.list(), len(kept.table)) == (True, ["a"], 1)


def test_a_topic_is_deleted_by_its_id_only_while_it_has_that_id(kept: Kept, registry: MemoryRegistry) -> None:
    outcomes: list[bool | Exception] = []
    kept.topics.create("a", 1, {}, outcomes.append)
    kept.worker.run()
    wrong, right = UUID(int=77), kept.topics.catalog.topics["a"].topic_id
    kept.topics.delete("a", outcomes.append, wrong)
    kept.worker.run()
    assert (outcomes[1], registry.list(), len(kept.table)) == (False, ["a"], 1)
    kept.topics.delete("a", outcomes.append, right)
    kept.worker.run()
    assert (outcomes[2], registry.list(), len(kept.table)) == (True, [], 0)


def test_a_topic_whose_log_cannot_be_opened_is_told_so_and_the_others_of_its_round_are_served(
    tmp_path: Path, kept: Kept, registry: MemoryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OpenLogs, "_leftovers", lambda *_: [])
    (tmp_path / "bad-0").write_text("a file where a folder must be")
    outcomes: dict[str, bool | Exception] = {}
    for name in ("first", "a", "bad", "c"):
        kept.topics.create(name, 1, {}, partial(outcomes.__setitem__, name))
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
    kept.topics.refresh()
    kept.worker.run()
    assert not [folder for folder in tmp_path.iterdir() if ".gone." not in folder.name]
    registry.create("t5", {0: [1]}, {})
    kept.topics.refresh()
    kept.worker.run()
    assert kept.table.topics() == ["t5"]
    kept.topics.close()
