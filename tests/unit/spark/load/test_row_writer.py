"""Many topics in one Spark job: even shares, and a topic that kills the job or only itself."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.spark.errors import LoadUnproven, SparkFailed, TopicFailed
from headrace.spark.load import row_writer
from headrace.spark.load.reading import Reading, Written
from headrace.spark.load.row_writer import TOPIC_BYTES, RowWriter, even_shares
from headrace.spark.load.settings import ALL_TOPICS, LoadSettings
from headrace.spark.load.split_task import SplitsDone, SplitTask, TopicsTask
from headrace.spark.source import cluster_batches
from headrace.spark.source.split_source import SplitSource
from headrace.spark.source.task_reports import TaskReport
from tests.support.stored_rows import EVENT, span

costs = st.dictionaries(st.tuples(st.integers(0, 40), st.integers(0, 3)), st.integers(0, 10 << 20), min_size=1)


@given(costs, st.integers(1, 6))
def test_shares_hold_each_group_once_and_none_is_heavier_than_the_lightest_by_more_than_a_group(
    costs: Mapping[tuple[int, int], int], shares: int
) -> None:
    found = even_shares(costs, shares=shares)
    assert sorted(group for one in found for group in one) == sorted(costs)
    assert len(found) == min(shares, len(costs))
    assert all(found)
    weights = [sum(costs[group] + TOPIC_BYTES for group in one) for one in found]
    assert max(weights) - min(weights) <= max(costs.values()) + TOPIC_BYTES


def settings(folder: Path, topic: str) -> LoadSettings:
    return LoadSettings(
        topic=topic, bootstrap="-", quarantine_bootstrap="-", registry_url="http://127.0.0.1:1", warehouse=folder, home=None
    )


class Spark:
    """A Spark whose jobs die of some topics, and whose tasks report what they were to read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.jobs: list[list[str]] = []
        self.deadly: set[str] = set()
        self.faulty: set[str] = set()
        self.forgetful: set[str] = set()
        self._folder = folder
        monkeypatch.setattr("headrace.spark.load.reading.subject_schemas", lambda registry, topic: {})
        monkeypatch.setattr(RowWriter, "_spark_writes", lambda _, tasks, shares: self._run(tasks, shares))

    def _run(self, tasks: Sequence[SplitTask], shares: Any) -> list[SplitsDone]:
        self.jobs.append([one.source.topic for one in tasks])
        if self.deadly & set(self.jobs[-1]):
            raise SparkFailed(ALL_TOPICS, "Python worker exited unexpectedly")
        return [self._answer(tasks[topic], group) for one in shares for topic, group in one]

    def _answer(self, task: SplitTask, group: int) -> SplitsDone:
        topic = task.source.topic
        if topic in self.faulty:
            return SplitsDone(topic=topic, reports=(), files=(), fault="ValueError: bad schema")
        splits = task.groups[group][: -1 if topic in self.forgetful else None]
        reports = tuple(
            TaskReport(partition=one.partition, from_offset=one.from_offset, to_offset=one.to_offset, row_count=1)
            for one in splits
        )
        return SplitsDone(topic=topic, reports=reports, files=())

    def write(self, count: int) -> dict[str, Any]:
        readings = [
            Reading(settings(self._folder, f"t{n}"), EVENT, [span(0, 0, 10), span(1, 5, 8)], self._folder / f"t{n}", density=1)
            for n in range(count)
        ]
        return RowWriter(settings(self._folder, ALL_TOPICS)).write_all(readings)


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Spark:
    return Spark(monkeypatch, tmp_path)


def test_many_topics_are_one_job(spark: Spark) -> None:
    found = spark.write(64)
    assert len(spark.jobs) == 1
    assert all(isinstance(one, Written) and one.total.row_count == 2 for one in found.values())


def test_a_topic_that_kills_its_worker_is_found_by_halves_and_the_others_are_written(spark: Spark) -> None:
    spark.deadly = {"t11", "t40"}
    found = spark.write(64)
    assert {topic for topic, one in found.items() if not isinstance(one, Written)} == spark.deadly
    assert isinstance(found["t11"], SparkFailed)
    assert "load of 't11': Spark failed: Python worker exited" in str(found["t11"])
    assert len(spark.jobs) < 30


def test_a_spark_that_never_works_is_not_asked_for_ever(spark: Spark) -> None:
    spark.deadly = {f"t{n}" for n in range(1_000)}
    found = spark.write(200)
    assert all(isinstance(one, SparkFailed) for one in found.values())
    assert len(found) == 200
    assert len(spark.jobs) < row_writer.MOST_FAILED_JOBS + 20


def test_a_fault_in_a_task_and_a_split_without_report_are_their_topics_alone(spark: Spark) -> None:
    spark.faulty, spark.forgetful = {"t1"}, {"t2"}
    found = spark.write(4)
    assert isinstance(found["t1"], TopicFailed)
    assert str(found["t1"]) == "load of 't1' failed: ValueError: bad schema"
    assert isinstance(found["t2"], LoadUnproven)
    assert isinstance(found["t0"], Written)
    assert isinstance(found["t3"], Written)


def task(topic: str, folder: Path) -> SplitTask:
    source = SplitSource(
        bootstrap="127.0.0.1:1",
        topic=topic,
        registry="http://127.0.0.1:1",
        quarantine=None,
        client_config=None,
        cluster="offline",
    )
    return SplitTask(source=source, target=pa.schema([]), groups=[[span(0, 0, 10)]], folder=str(folder), hours=None)


def test_a_task_of_several_topics_answers_with_the_fault_and_one_of_a_single_topic_fails_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A broker that is away is waited for a minute.
    monkeypatch.setattr(cluster_batches, "read_range", partial(cluster_batches.read_range, timeout_ms=100))
    several = TopicsTask(topics=[task("a", tmp_path), task("b", tmp_path)], shares=[[(0, 0)], [(1, 0)]])
    (answer,) = several(iter([pa.RecordBatch.from_pydict({"id": [1]})]))
    done = SplitsDone.of_json(answer.column(0)[0].as_py())
    assert (done.topic, done.reports, done.files) == ("b", (), ())
    assert done.fault.startswith("BrokerUnreachable: ")
    alone = TopicsTask(topics=[task("a", tmp_path)], shares=[[(0, 0)]])
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1"):
        list(alone(iter([pa.RecordBatch.from_pydict({"id": [0]})])))
