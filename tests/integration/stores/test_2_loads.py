"""Whole loads with Spark into each warehouse: its tasks write to the store; what dies on the way loses and doubles nothing."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.local.supervisor.descendants import descendants
from headrace.spark.load.reload_job import ReloadJob
from headrace.spark.warehouse.hours import hour_name
from headrace.spark.warehouse.topic_table import MAIN
from tests.support.broker import BrokerProcess
from tests.support.postgresql import PostgresqlServer
from tests.support.processes import Process, eventually
from tests.support.registry import RegistryProcess
from tests.support.spark_stage import CLICK, HOUR_MS, LONG_AGO_MS, Stage, click
from tests.support.stored_table import Stored
from tests.support.versitygw import SECRET
from tests.support.warehouse_worlds import World

from .conftest import LOCAL, PASSWORD, REST, S3

LOAD_MS = 120_000
COUNT = 40


@pytest.fixture
def stage(world: World, broker: BrokerProcess, registry: RegistryProcess) -> Iterator[Stage]:
    made = Stage(broker, registry, world.home, world.settings)
    made.create(2)
    yield made
    made.close()


def send(stage: Stage, first: int = 0, count: int = COUNT) -> None:
    schema_id = stage.register(CLICK)
    stage.send([(n % 2, LONG_AGO_MS + n * HOUR_MS // 20, click(schema_id, n)) for n in range(first, first + count)])


def loaded(world: World, stage: Stage) -> list[tuple[int, int]]:
    """Return partition and offset of every row, after looking that they are those of the log, each once."""
    found = world.rows(stage.topic)
    assert found == sorted((partition, offset) for partition, offset, _ in stage.in_the_log())
    return found


def held(stage: Stage, failpoint: str) -> tuple[Process, Path]:
    """Start a load in a process of its own and return it once it holds at the failpoint, and the file that holds it."""
    armed = stage.home / "failpoints" / failpoint
    armed.parent.mkdir(exist_ok=True)
    armed.touch()
    load = stage.load_process()
    reached = armed.with_name(f"{failpoint}.reached")
    eventually(reached.exists, within_ms=LOAD_MS, what=f"{failpoint} reached; {load.output() if load.log.exists() else ''}")
    reached.unlink()
    return load, armed


def ended(load: Process) -> str:
    load.wait(LOAD_MS)
    return load.output()


@pytest.mark.parametrize("world", [S3], indirect=True)
def test_events_reach_the_object_store_and_no_secret_is_seen(world: World, stage: Stage) -> None:
    send(stage)
    load, armed = held(stage, "load.before_commit")
    files = world.stored(stage.topic)
    assert files, "the tasks write nothing to the store"
    assert not list(world.home.rglob("*.parquet")), "something was written here"
    titles = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in (load.pid, *descendants(load.pid))}
    assert any("java" in title for title in titles.values())
    assert not any(SECRET in title or PASSWORD in title for title in titles.values())
    armed.unlink()
    said = ended(load)
    assert len(loaded(world, stage)) == COUNT
    assert SECRET not in said
    assert PASSWORD not in said


EVERY = pytest.mark.parametrize("world", [LOCAL, S3, REST], indirect=True)


@EVERY
@pytest.mark.whole
def test_a_repeated_load_finds_nothing_and_a_later_one_what_is_new(world: World, stage: Stage) -> None:
    send(stage)
    assert stage.load().row_count == COUNT
    assert stage.load().run is None
    send(stage, COUNT, 10)
    assert stage.load().row_count == 10
    assert len(loaded(world, stage)) == COUNT + 10
    assert world.stored(stage.topic) == world.named(stage.topic)


@EVERY
@pytest.mark.whole
def test_two_loads_at_once_lose_and_double_nothing(world: World, stage: Stage) -> None:
    send(stage)
    for round_number in range(2):
        both = [stage.load_process() for _ in range(2)]
        words = [ended(one) for one in both]
        assert len(loaded(world, stage)) == COUNT + 10 * round_number, words
        send(stage, COUNT + 10 * round_number, 10)
    slow, armed = held(stage, "load.before_commit")
    assert stage.load(home=None).row_count == 10
    armed.unlink()
    assert '"load_superseded"' in ended(slow)
    assert len(loaded(world, stage)) == COUNT + 20
    assert world.stored(stage.topic) == world.named(stage.topic), "the loser's files are still there"


@EVERY
@pytest.mark.whole
@pytest.mark.parametrize("failpoint", ["load.before_commit", "load.after_commit"])
def test_a_driver_that_is_killed_leaves_nothing_and_the_next_loads_everything_once(
    world: World, stage: Stage, failpoint: str
) -> None:
    send(stage, 0, 10)
    stage.load()
    send(stage, 10)
    load, armed = held(stage, failpoint)
    for pid in (load.pid, *descendants(load.pid)):
        os.kill(pid, signal.SIGKILL)
    load.kill()
    armed.unlink()
    is_committed = failpoint == "load.after_commit"
    assert len(world.rows(stage.topic)) == (10 + COUNT if is_committed else 10)
    assert (stage.load().run is None) == is_committed
    send(stage, 10 + COUNT, 1)
    stage.load()
    assert len(loaded(world, stage)) == COUNT + 11
    assert world.stored(stage.topic) == world.named(stage.topic), "the dead run's files were not swept"


@EVERY
@pytest.mark.whole
def test_an_hour_whose_file_was_lost_is_loaded_again_and_published(world: World, stage: Stage) -> None:
    send(stage)
    stage.load()
    stored = Stored(world.settings, stage.topic)
    stored.publish()
    hour = LONG_AGO_MS // HOUR_MS
    assert len(world.rows(stage.topic, MAIN)) == COUNT
    lost = next(path for path in world.named(stage.topic) if path.parent.name.endswith(f"hour={hour}"))
    lost.unlink()
    assert [name for name, _ in stored.publish().withdrawn] == [hour_name(hour)]
    assert ReloadJob(stage.settings(), {hour}).run().row_count == 20
    assert stored.publish().published == (hour_name(hour),)
    assert len(loaded(world, stage)) == COUNT
    assert world.rows(stage.topic, MAIN) == loaded(world, stage)


@pytest.mark.parametrize("world", [S3], indirect=True)
@pytest.mark.whole
@pytest.mark.parametrize("who", ["store", "catalog"])
def test_a_server_that_dies_before_the_commit_fails_the_load_by_name_and_the_next_has_everything(
    world: World, stage: Stage, postgresql: PostgresqlServer, who: str
) -> None:
    send(stage, 0, 10)
    stage.load()
    send(stage, 10)
    load, armed = held(stage, "load.before_commit")
    assert world.s3 is not None
    (world.s3 if who == "store" else postgresql).kill()
    armed.unlink()
    assert load.wait(LOAD_MS) == 1
    assert ("cannot be reached" if who == "store" else "catalog does not answer") in load.output()
    assert "Traceback" not in load.output()
    (world.s3 if who == "store" else postgresql).start()
    assert stage.load().row_count == COUNT
    assert len(loaded(world, stage)) == COUNT + 10
    send(stage, 10 + COUNT, 1)
    stage.load()
    assert world.stored(stage.topic) == world.named(stage.topic)
