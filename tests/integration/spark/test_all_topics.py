"""One Spark application loads all topics: real logs through a real broker, and a driver that is killed in the middle."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.local.supervisor.descendants import descendants
from headrace.spark.all_topics import command
from headrace.spark.all_topics.job import AllTopicsJob, AllTopicsOutcome, BatchLimits
from headrace.spark.load.load_job import LoadJob
from headrace.spark.load.settings import ALL_TOPICS
from headrace.spark.warehouse.file_rows import join_rows, read_file
from headrace.spark.warehouse.topic_table import LOADS
from tests.support.broker import BrokerProcess
from tests.support.processes import Process, eventually
from tests.support.registry import RegistryProcess
from tests.support.spark_stage import CLICK, HOUR_MS, LONG_AGO_MS, MINUTE_MS, Stage, click, event

from .test_load_job import LOAD_MS, addresses

NOTE = {"type": "record", "name": "Note", "fields": [{"name": "note", "type": "string"}]}


class Stages:
    """Topics with one warehouse, on the shared broker and registry."""

    def __init__(self, broker: BrokerProcess, registry: RegistryProcess, home: Path) -> None:
        self.home = home
        self._broker, self._registry = broker, registry
        self.all: list[Stage] = []
        self._processes: list[Process] = []

    def make(self, *counts: int) -> list[Stage]:
        """Make a topic of three partitions for each count of clicks."""
        for count in counts:
            stage = self.make_empty()
            schema_id = stage.register(CLICK)
            stage.send([(n % 3, LONG_AGO_MS + n * MINUTE_MS, click(schema_id, n)) for n in range(count)])
        return self.all[-len(counts) :]

    def make_empty(self) -> Stage:
        self.all.append(Stage(self._broker, self._registry, self.home))
        self.all[-1].create(3)
        return self.all[-1]

    def topics(self) -> list[str]:
        return [one.topic for one in self.all]

    def load(self, **limits: int) -> AllTopicsOutcome:
        settings = self.all[0].settings(topic=ALL_TOPICS)
        return AllTopicsJob(settings, limits=BatchLimits(**limits)).run(self.topics())

    def words(self) -> list[str]:
        """Return the command of a load of these topics."""
        settings = self.all[0].settings()
        words = [sys.executable, "-m", "headrace.spark.all_topics.command"]
        words += [word for topic in self.topics() for word in ("--topic", topic)]
        words += ["--bootstrap", settings.bootstrap, "--quarantine", settings.quarantine_bootstrap]
        return [*words, "--registry", settings.registry_url, "--warehouse", str(self.all[0].warehouse.folder)]

    def process(self) -> Process:
        log = self.home / f"all-{uuid.uuid4().hex[:6]}.log"
        self._processes.append(Process(self.words(), log, {"HEADRACE_HOME": str(self.home)}).start())
        return self._processes[-1]

    def snapshots(self) -> dict[str, int | None]:
        tables = {one.topic: one.warehouse.table(one.topic) for one in self.all}
        return {topic: table.snapshot_id(LOADS) for topic, table in tables.items() if table is not None}

    def close(self) -> None:
        for process in self._processes:
            process.kill()
        for stage in self.all:
            stage.close()


@pytest.fixture
def stages(broker: BrokerProcess, registry: RegistryProcess, tmp_path: Path) -> Iterator[Stages]:
    stages = Stages(broker, registry, tmp_path)
    yield stages
    stages.close()


def assert_each_record_is_there_once(stages: Stages) -> None:
    for stage in stages.all:
        assert addresses(stage) == sorted(stage.in_the_log()), stage.topic
        if stage.warehouse.table(stage.topic) is not None:
            assert_the_books_are_those_of_the_files(stage)


def assert_the_books_are_those_of_the_files(stage: Stage) -> None:
    """As of other loads; but a portion of a topic may lie within one batch, and hold no record."""
    rows = 0
    for run in stage.warehouse.existing_table(stage.topic).runs():
        assert bool(run.record.digests) == bool(run.record.row_count) == bool(run.files)
        found = join_rows([read_file(path)[1] for path in run.files])
        for partition, digests in run.record.digests.items():
            mine = found.where(found.partitions == partition)
            assert mine.hashes.totals(mine.windows) == digests, partition
        rows += run.record.row_count
    assert rows == len(addresses(stage))


def test_all_topics_are_loaded_by_one_application_as_each_would_be_alone(stages: Stages, tmp_path: Path) -> None:
    """A portion of each topic is a commit; records without a row, and schemas that only the records name, are as ever."""
    small, large, strange, *_ = stages.make(4, 150, 2, 0, 1)
    stranger = strange.register(NOTE, subject="somewhere-else")
    strange.send([(0, LONG_AGO_MS, event(stranger, NOTE, {"note": "hello"})), (1, LONG_AGO_MS, b"no frame")])
    done = stages.load(topics=3, topic_bytes=1_000)
    assert done.faults == {}
    commits = [one.topic for one in done.loads]
    assert len(commits) > 5, "the large topic took several turns"
    assert set(commits) == {one.topic for one in stages.all if one.in_the_log()}
    assert commits.index(large.topic) > commits.index(small.topic)
    assert {one.topic: dict(one.quarantined) for one in done.loads if one.quarantined} == {strange.topic: {"not_framed": 1}}
    assert strange.stored("path, note") == [("/0", None), ("/1", None), (None, "hello")]
    strange_there = [one for one in addresses(strange)]
    assert len(strange_there) == 3
    assert_each_record_is_there_once_but(stages, strange)
    # The same topic alone, into a warehouse of its own: the same rows and the same books.
    alone = LoadJob(small.settings(warehouse=tmp_path / "alone")).run()
    (one,) = [one for one in done.loads if one.topic == small.topic]
    assert (one.row_count, one.ranges, one.file_count) == (alone.row_count, alone.ranges, alone.file_count)
    books = [
        type(small.warehouse)(folder).existing_table(small.topic).runs()[0].record
        for folder in (small.warehouse.folder, tmp_path / "alone")
    ]
    assert books[0].digests == books[1].digests
    # Nothing is new: without any Java that could be started, and without a commit.
    before = stages.snapshots()
    environment = {
        **os.environ,
        "HEADRACE_HOME": str(tmp_path),
        "JAVA_HOME": "/nowhere",
        "PATH": str(Path(sys.executable).parent),
    }
    answer = subprocess.run(stages.words(), env=environment, capture_output=True, text=True, timeout=60)
    assert (answer.returncode, stages.snapshots()) == (0, before), answer.stderr
    small.send([(0, LONG_AGO_MS, click(small.register(CLICK), 7))])
    answer = subprocess.run(stages.words(), env=environment, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 3, "this test would not notice a JVM"


def assert_each_record_is_there_once_but(stages: Stages, strange: Stage) -> None:
    stages.all.remove(strange)
    assert_each_record_is_there_once(stages)
    stages.all.append(strange)


def test_a_topics_fault_stops_no_other_and_is_told_by_name(
    stages: Stages, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADRACE_HOME", str(stages.home))
    monkeypatch.setattr(command.logs, "configure", lambda process: None)
    sound, no_metadata, no_folder, ahead = stages.make(3, 3, 3, 3)
    no_metadata.load()
    metadata = no_metadata.warehouse.folder / "tables" / no_metadata.topic / "metadata"
    metadata.rename(metadata.with_name("moved away"))
    data = no_folder.warehouse.data_folder(no_folder.topic)
    data.parent.mkdir(parents=True)
    data.write_text("a file in its place")
    assert command.main(stages.words()[3:]) == 3
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("load: topic ")]
    assert sorted(line.split()[2].rstrip(":") for line in told) == sorted([no_metadata.topic, no_folder.topic])
    for stage in (sound, ahead):
        assert addresses(stage) == sorted(stage.in_the_log())
    data.unlink()
    metadata.with_name("moved away").rename(metadata)
    assert stages.load().faults == {}
    assert_each_record_is_there_once(stages)


def test_a_driver_that_is_killed_between_two_topics_commits_leaves_each_whole_or_untouched(stages: Stages) -> None:
    stages.make(6, 7, 8)
    armed = stages.home / "failpoints" / "load.after_commit"
    armed.parent.mkdir()
    armed.touch()
    process = stages.process()
    reached = armed.with_name("load.after_commit.reached")
    eventually(reached.exists, within_ms=LOAD_MS, what=f"the first topic is committed; {process.log}")
    driver = int(reached.read_text())
    machines = [pid for pid in descendants(driver) if "java" in Path(f"/proc/{pid}/cmdline").read_text()]
    assert len(machines) == 1, "one application"
    assert sorted(len(addresses(stage)) for stage in stages.all) == [0, 0, 6]
    for pid in (driver, *machines):
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not process.is_running(), what="the driver is gone")
    process.kill()
    armed.unlink()
    done = stages.load()
    assert (sorted(one.row_count for one in done.loads), done.faults) == ([7, 8], {})
    assert_each_record_is_there_once(stages)
    # A topic's first table comes with a commit: what a dead run had written before it goes with the next load.
    for stage in stages.all:
        stage.send([(0, LONG_AGO_MS, click(stage.register(CLICK), 100))])
    assert [one.row_count for one in stages.load().loads] == [1, 1, 1]
    assert_each_record_is_there_once(stages)
    for stage in stages.all:
        left = set(stage.warehouse.data_folder(stage.topic).glob("*/rows-*/*/*.parquet"))
        named = {path for path in stage.warehouse.existing_table(stage.topic).referenced_paths() if path.suffix == ".parquet"}
        assert left == named, "the dead run's files were not swept"
    assert stages.load().loads == []


def test_hours_that_come_together_stay_apart_in_their_tables(stages: Stages) -> None:
    """Topics that share a task share no file and no column."""
    (one,) = stages.make(2)
    other = stages.make_empty()
    schema = {"type": "record", "name": "Order", "fields": [{"name": "path", "type": "long"}]}
    schema_id = other.register(schema)
    other.send([(0, LONG_AGO_MS + n * HOUR_MS, event(schema_id, schema, {"path": n})) for n in range(3)])
    assert stages.load().faults == {}
    assert one.stored("path") == [("/0",), ("/1",)]
    assert other.stored("path") == [(0,), (1,), (2,)]
    assert len(other.warehouse.existing_table(other.topic).files_by_hour(LOADS)) == 3
