"""Loads on a Spark cluster, by spark-submit with our wheel: the same rows and the same books as of `local[2]`; clear errors."""

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.spark.errors import ClusterUnfit, LoadUnproven
from headrace.spark.load.reading import Reading
from headrace.spark.load.session import forget_jvm
from headrace.spark.publish.count_job import count_and_report
from headrace.spark.warehouse.settings import WarehouseSettings
from tests import packages
from tests.support.broker import BrokerProcess
from tests.support.postgresql import PostgresqlServer
from tests.support.processes import Process
from tests.support.registry import RegistryProcess
from tests.support.spark_cluster import SparkCluster, python_of, submit_command
from tests.support.spark_stage import CLICK, HOUR_MS, LONG_AGO_MS, Stage, click
from tests.support.stored_table import Audit
from tests.support.versitygw import S3Server
from tests.support.warehouse_worlds import World, forget, s3_world

pytestmark = [pytest.mark.needs("s3"), pytest.mark.needs("postgresql")]
LOAD_MS = 240_000
COUNT = 60
NO_PATH = {"PYTHONPATH": ""}
"""So that nothing of this tree is found by its path."""


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"))
    try:
        yield server.start()
    finally:
        server.kill()


@pytest.fixture(scope="module")
def executors_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with every package but this one: executors get that from the driver."""
    return python_of(tmp_path_factory.mktemp("python") / "packages", has_packages=True)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, s3: S3Server) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster"), environment={**s3.environment(), **NO_PATH}) as running:
        yield running


@pytest.fixture
def worlds(tmp_path: Path, s3: S3Server, postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[World]]:
    """Two warehouses that share nothing. Loads in this process get a JVM of their own: one that is there already, and its Python
    workers, have another environment.
    """
    forget_jvm()
    made = [s3_world(tmp_path / name, s3, postgresql.new_database()) for name in ("cluster", "local")]
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    yield made
    forget_jvm()
    for one in made:
        forget(one)


@pytest.fixture
def stage(broker: BrokerProcess, registry: RegistryProcess, worlds: list[World], tmp_path: Path) -> Iterator[Stage]:
    made = Stage(broker, registry, tmp_path, worlds[0].settings)
    made.create(3)
    schema_id = made.register(CLICK)
    made.send([(n % 3, LONG_AGO_MS + n * HOUR_MS // 20, click(schema_id, n)) for n in range(COUNT)])
    made.send([(1, LONG_AGO_MS, b"no frame")])
    yield made
    made.close()


def driver_python(folder: Path) -> Path:
    """Return a Python with our wheel installed, and its packages."""
    python = python_of(folder / "driver", has_packages=True)
    wheel = packages.build_wheel(packages.TOP, folder)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(next((folder / "driver" / "lib").glob("python*/site-packages")))
    return python


def books_of(world: World, topic: str) -> list[Any]:
    """Return what the load's records, and the reports that the audit is sent, say."""
    warehouse, audit = world.warehouse(), Audit()

    def no_log(*_: object) -> Iterator[Any]:
        raise AssertionError("nothing is to be decoded again")

    count_and_report(warehouse, topic, audit, instance="t", decode_again=no_log)
    records = [run.record for run in warehouse.existing_table(topic).runs()]
    said = [(one.ranges, one.row_count, one.digests, one.quarantined, one.skipped) for one in records]
    return [said, sorted((key, report.windows) for key, report in audit._told.items())]


def test_spark_submit_of_our_wheel_loads_the_same_rows_and_the_same_books_as_local(
    cluster: SparkCluster, stage: Stage, worlds: list[World], executors_python: Path, tmp_path: Path
) -> None:
    there, here = worlds
    python = driver_python(tmp_path)
    script = next((tmp_path / "driver" / "lib").glob("python*/site-packages/headrace/spark/submit.py"))
    words = ["--all", "--topic", stage.topic, "--bootstrap", stage.broker.address, "--quarantine", stage.broker.address]
    environment = {
        **NO_PATH,
        **there.environment,
        "HEADRACE_HOME": str(tmp_path / "home"),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "PYSPARK_PYTHON": str(executors_python),
    }
    command = submit_command(cluster.url, str(script), *words, "--registry", stage.registry.url)
    submitted = Process(command, tmp_path / "submit.log", environment).start()
    try:
        assert submitted.wait(LOAD_MS) == 0, submitted.output()[-4000:]
    finally:
        submitted.kill()
    assert there.s3 is not None
    stage.load(warehouse=here.settings)
    rows = there.rows(stage.topic)
    assert len(rows) == COUNT
    assert rows == here.rows(stage.topic)
    assert books_of(there, stage.topic) == books_of(here, stage.topic)
    assert sorted(
        rows + [(1, offset) for partition, offset, _ in stage.in_the_log() if (partition, offset) not in rows]
    ) == sorted((partition, offset) for partition, offset, _ in stage.in_the_log()), (
        "the record that is not a row is the only one that is missing"
    )
    assert not list(tmp_path.rglob("*.parquet")), "something was written here"


@pytest.mark.whole
def test_executors_whose_python_lacks_packages_are_told_by_name(
    cluster: SparkCluster, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(python_of(tmp_path / "bare", has_packages=False)))
    with pytest.raises(ClusterUnfit, match=r"install headrace\[spark\].*No module named"):
        stage.load(master=cluster.url)
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "nowhere" / "python"))
    with pytest.raises(ClusterUnfit, match=r"executors' Python cannot run this load.*nowhere/python"):
        stage.load(master=cluster.url)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert stage.load().row_count == COUNT


@pytest.mark.whole
def test_a_cluster_without_workers_is_not_waited_for_for_ever(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: Spark waits without end, and says so only in its log, while Airflow's slot is taken. Fault: the job was cancelled
    once, before Spark had it, and then waited without end.
    """
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.headrace.executors.wait=1 pyspark-shell")
    with SparkCluster(tmp_path / "empty", workers=0) as empty, pytest.raises(ClusterUnfit, match=r"no executor for 1 s"):
        stage.load(master=empty.url)


@pytest.mark.whole
def test_a_warehouse_in_a_folder_of_another_machine_is_told_before_the_commit(
    cluster: SparkCluster, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The executors' machine is this one: so their folder is taken away in the moment in which they answer."""
    written = Reading.written

    def elsewhere(reading: Reading, done: Any) -> Any:
        for path in Path(str(reading.folder)).rglob("*.parquet"):
            path.unlink()
        return written(reading, done)

    monkeypatch.setattr(Reading, "written", elsewhere)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with pytest.raises(LoadUnproven, match=r"not on this machine.*s3://"):
        stage.load(master=cluster.url, warehouse=WarehouseSettings.of_folder(tmp_path / "folder"))


@pytest.mark.whole
def test_a_worker_that_dies_while_its_tasks_run_costs_nothing(
    cluster: SparkCluster, stage: Stage, worlds: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**worlds[0].environment, "PYSPARK_PYTHON": sys.executable}.items():
        monkeypatch.setenv(name, value)
    killed: list[int] = []
    load = stage.load_process("--master", cluster.url)
    try:
        while load.is_running() and not killed:
            killed = cluster.pythons()[:1]
        cluster.kill_worker(0)
        assert load.wait(LOAD_MS) == 0, load.output()[-3000:]
    finally:
        cluster.revive()
    assert killed, "no task ran"
    assert len(worlds[0].rows(stage.topic)) == COUNT
