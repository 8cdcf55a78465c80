"""What a load of all topics does around Spark: a fault is its topic's alone, and what was not committed is never skipped."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.client.errors import BrokerUnreachable, UnknownTopic
from headrace.errors import HeadraceError
from headrace.schema_registry.errors import RegistryUnavailable
from headrace.spark.all_topics import job as job_module
from headrace.spark.all_topics import look as look_module
from headrace.spark.all_topics.job import AllTopicsJob, AllTopicsOutcome, BatchLimits
from headrace.spark.errors import LoadSuperseded, LogMoved, NotTried, TopicFailed, WarehouseError
from headrace.spark.load.reading import Written
from headrace.spark.load.row_writer import RowWriter
from headrace.spark.load.settings import ALL_TOPICS, LoadSettings
from headrace.spark.source.log_ends import LogEnds
from headrace.spark.source.offset_ranges import OffsetRange
from headrace.spark.source.task_reports import Total
from headrace.spark.warehouse.topic_table import TopicTable
from headrace.spark.warehouse.warehouse import Warehouse
from tests.support.stored_rows import EVENT, span, store, write_rows


class PretendReading:
    def __init__(self, settings: LoadSettings, columns: Any, ranges: Sequence[OffsetRange], folder: Path, **_: Any) -> None:
        self.topic, self.ranges, self.folder = settings.topic, ranges, folder


class Cluster:
    """Topics whose logs end where `ends` says, and a Spark that writes a row for each range with something in it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.warehouse = Warehouse(folder)
        self.ends: dict[str, LogEnds | HeadraceError] = {}
        self.batches: list[list[str]] = []
        self.faults: dict[str, Exception] = {}
        self.between: Callable[[str], None] = lambda topic: None
        self.sessions = 0

        def ends_of_topics(cluster: Any, topics: Sequence[str]) -> dict[str, LogEnds | HeadraceError]:
            return {topic: self.ends[topic] for topic in topics}

        for module in (job_module, look_module):
            monkeypatch.setattr(module, "ends_of_topics", ends_of_topics)
        monkeypatch.setattr(look_module, "counts_records", lambda cluster: False)
        monkeypatch.setattr(job_module, "Reading", PretendReading)
        monkeypatch.setattr(RowWriter, "write_all", lambda _, readings: self._write(readings))

    def _write(self, readings: Sequence[PretendReading]) -> dict[str, Any]:
        self.batches.append([one.topic for one in readings])
        found: dict[str, Any] = {}
        for one in readings:
            rows = [(span.partition, span.from_offset, 5) for span in one.ranges if span.span]
            written = Written(columns=EVENT, files=write_rows(one.folder, rows), total=Total(row_count=len(rows)))
            found[one.topic] = self.faults.get(one.topic, written)
            self.between(one.topic)
        return found

    def logs(self, *ends: int) -> list[str]:
        self.ends = {f"t{number}": LogEnds(start={0: 0}, end={0: end}) for number, end in enumerate(ends)}
        return list(self.ends)

    def load(self, **limits: int) -> AllTopicsOutcome:
        settings = LoadSettings(
            topic=ALL_TOPICS,
            bootstrap="127.0.0.1:1",
            quarantine_bootstrap="-",
            registry_url="-",
            warehouse=self.warehouse.folder,
            home=None,
        )
        return AllTopicsJob(settings, limits=BatchLimits(**limits)).run(list(self.ends))

    def loaded(self) -> dict[str, int]:
        tables = {topic: self.warehouse.table(topic) for topic in self.ends}
        return {topic: table.offsets().get(0, 0) for topic, table in tables.items() if table is not None}

    def left_over(self) -> set[Path]:
        files = set(self.warehouse.folder.rglob("*.parquet"))
        tables = [table for topic in self.ends if (table := self.warehouse.table(topic)) is not None]
        return files - {path for table in tables for path in table.referenced_paths()}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(tmp_path / "warehouse", monkeypatch)


def test_topics_are_loaded_together_and_one_with_much_in_several_commits(cluster: Cluster) -> None:
    cluster.logs(10, 1_000, 0, 20)
    done = cluster.load(topic_bytes=400)
    assert cluster.loaded() == {"t0": 10, "t1": 1_000, "t3": 20}
    assert cluster.batches == [["t0", "t3", "t1"], ["t1"], ["t1"]]
    assert (done.topic_count, done.faults, [one.topic for one in done.loads]) == (4, {}, ["t0", "t3", "t1", "t1", "t1"])
    runs = cluster.warehouse.existing_table("t1").runs()
    assert [run.record.ranges for run in runs if run.record.skipped] == [], "a portion that follows another skips nothing"
    cluster.batches.clear()
    assert cluster.load().loads == []
    assert cluster.batches == []


def test_faults_of_every_kind_are_told_by_name_and_the_other_topics_are_loaded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = cluster.logs(*[10] * 7)
    cluster.ends["t0"] = UnknownTopic("t0", "-")
    cluster.faults["t1"] = TopicFailed("t1", "ValueError: bad schema")
    store(cluster.warehouse, "r", [(0, 0, 5)], [span(0, 0, 60)], topic="t2")
    commit = TopicTable.commit_load

    def refused(table: TopicTable, **words: Any) -> bool:
        if table.topic == "t3":
            raise ValueError("Cannot promote string to int")
        return commit(table, **words)

    monkeypatch.setattr(TopicTable, "commit_load", refused)
    cluster.between = lambda topic: cluster.ends.update(t4=LogEnds(start={0: 3}, end={0: 10}))
    done = cluster.load()
    assert {topic: type(fault) for topic, fault in done.faults.items()} == {
        "t0": UnknownTopic,
        "t1": TopicFailed,
        "t2": WarehouseError,
        "t3": ValueError,
        "t4": LogMoved,
    }
    assert sorted(one.topic for one in done.loads) == ["t5", "t6"]
    assert len(topics) == 7
    monkeypatch.undo()


def test_a_topic_whose_portion_failed_is_left_where_it_stands(cluster: Cluster) -> None:
    """Fault that this guards against: the next portion is committed, and the offsets before it are told to have expired."""
    cluster.logs(10, 1_000)
    cluster.faults["t1"] = TopicFailed("t1", "broken")
    done = cluster.load(topic_bytes=400)
    assert list(done.faults) == ["t1"]
    assert cluster.loaded() == {"t0": 10}
    del cluster.faults["t1"]
    cluster.load(topic_bytes=400)
    assert cluster.loaded() == {"t0": 10, "t1": 1_000}
    assert all(not run.record.skipped for run in cluster.warehouse.existing_table("t1").runs())
    assert cluster.left_over() == set()


def test_records_that_expire_while_the_topic_waits_are_told(cluster: Cluster) -> None:
    cluster.logs(10, 1_000)
    cluster.between = lambda topic: cluster.ends.update(t1=LogEnds(start={0: 700}, end={0: 1_000}))
    done = cluster.load(topics=1, topic_bytes=400)
    assert done.faults == {}
    runs = [run.record for run in cluster.warehouse.existing_table("t1").runs()]
    assert sorted((one.from_offset, one.to_offset) for run in runs for one in run.skipped.get(0, ())) == [(0, 700)]
    assert cluster.loaded()["t1"] == 1_000


def test_another_load_of_a_topic_in_between_costs_only_a_new_look(cluster: Cluster) -> None:
    cluster.logs(10, 100)
    came: list[str] = []

    def other(topic: str) -> None:
        if topic == "t1" and not came:
            came.append(topic)
            store(cluster.warehouse, "other", [(0, 0, 5)], [span(0, 0, 60)], topic="t1")

    cluster.between = other
    done = cluster.load()
    assert (done.faults, cluster.loaded()) == ({}, {"t0": 10, "t1": 100})
    assert [one.ranges for one in done.loads if one.topic == "t1"] == [(span(0, 60, 100),)]
    assert cluster.left_over() == set()


def test_a_topic_that_is_always_overtaken_is_given_up(cluster: Cluster) -> None:
    cluster.logs(10, 100)
    number = iter(range(100))

    def other(topic: str) -> None:
        at = next(number)
        store(cluster.warehouse, f"other-{at}", [], [span(0, at, at + 1)], topic="t1")

    cluster.between = lambda topic: other(topic) if topic == "t1" else None
    done = cluster.load()
    assert isinstance(done.faults["t1"], LoadSuperseded)
    assert [one.topic for one in done.loads] == ["t0"]


def test_when_the_registry_is_away_the_topics_behind_it_are_not_tried_one_by_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.logs(*[10] * 9)
    asked: list[str] = []

    def away(settings: LoadSettings, *words: Any, **named: Any) -> None:
        asked.append(settings.topic)
        raise RegistryUnavailable("http://127.0.0.1:1: connection refused")

    monkeypatch.setattr(job_module, "Reading", away)
    done = cluster.load(topics=3)
    assert asked == ["t0", "t1", "t2"]
    assert [isinstance(fault, NotTried) for _, fault in sorted(done.faults.items())] == [False] * 3 + [True] * 6
    assert "connection refused" in str(done.faults["t8"])


def test_topics_that_happen_to_fail_alike_do_not_stop_those_behind_them(cluster: Cluster) -> None:
    """Fault: two topics whose logs had moved while they were read were alone in a batch, and the others were not tried."""
    cluster.logs(10, 20, 30, 40)
    for topic in ("t0", "t1"):
        cluster.faults[topic] = LogMoved(topic, 0, "moved")
    done = cluster.load(topics=2)
    assert sorted(done.faults) == ["t0", "t1"]
    assert cluster.loaded() == {"t2": 30, "t3": 40}


def test_a_cluster_that_goes_away_in_the_middle_leaves_what_is_committed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.logs(10, 20, 30, 40)
    ends = job_module.ends_of_topics

    def gone(connection: Any, topics: Sequence[str]) -> Any:
        if len(cluster.batches) > 1:
            raise BrokerUnreachable("-", "ListOffsets", "gone", was_sent=False)
        return ends(connection, topics)

    monkeypatch.setattr(job_module, "ends_of_topics", gone)
    done = cluster.load(topics=2)
    assert cluster.loaded() == {"t0": 10, "t1": 20}
    assert sorted(done.faults) == ["t2", "t3"]
    assert cluster.left_over() == set()


def test_a_look_opens_only_tables_that_changed_since_the_last_one(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    table_of = Warehouse.table
    monkeypatch.setattr(Warehouse, "table", lambda self, topic: (opened.append(topic), table_of(self, topic))[1])
    for count in (4, 8):
        topics = cluster.logs(*[10] * count)
        cluster.load()
        cluster.load()
        opened.clear()
        assert cluster.load().loads == []
        assert opened == [], "nobody wrote to any"
        cluster.ends[topics[1]] = LogEnds(start={0: 0}, end={0: 100 * count})
        assert [one.topic for one in cluster.load().loads] == [topics[1]]
        assert set(opened) == {topics[1]}
        cluster.load()
        opened.clear()
        cluster.load()
        assert opened == []


def test_what_others_do_to_a_table_is_seen_by_the_next_look(cluster: Cluster) -> None:
    cluster.logs(10, 10, 10)
    cluster.load()
    cluster.load()
    cluster.warehouse._catalog().drop_table(("warehouse", "t1"))
    assert [one.topic for one in cluster.load().loads] == ["t1"]
    assert cluster.loaded() == {"t0": 10, "t1": 10, "t2": 10}
    cluster.warehouse.folder.joinpath("known-offsets.json").write_text("{")
    assert cluster.load().loads == [], "a damaged file is as none"
