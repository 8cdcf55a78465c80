"""Hours loaded again through a real broker and a real Spark, published by the real gate. The audit believes the count."""

import os
import signal
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from headrace.local.supervisor.descendants import descendants
from headrace.spark.errors import ReloadRefused
from headrace.spark.load.reload_job import ReloadJob, ReloadOutcome
from headrace.spark.publish.altered_rows import decode_from_log
from headrace.spark.publish.count_job import count_and_report
from headrace.spark.publish.publish_job import Gate, PublishOutcome
from headrace.spark.publish.verify import verify
from headrace.spark.warehouse.hours import hour_name
from headrace.spark.warehouse.store import local_path
from headrace.spark.warehouse.topic_table import LOADS, MAIN
from headrace.wire.schema_id import frame
from tests.support.avro_values import COUNTS, MAPS, PLAIN, POINT, record_of, written
from tests.support.processes import eventually
from tests.support.spark_stage import CLICK, HOUR_MS, LONG_AGO_MS, MINUTE_MS, Stage, click
from tests.support.stored_table import Audit

from .test_load_job import LOAD_MS, assert_the_digests_are_those_of_the_files

HOUR = LONG_AGO_MS // HOUR_MS


class Operator:
    """Loads, counts, publishes and reloads the topic of a stage."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.audit = Audit()

    def send(self, count: int = 180, first: int = 0) -> None:
        schema_id = self.stage.register(CLICK)
        events = range(first, first + count)
        self.stage.send([(n % 2, LONG_AGO_MS + n % 180 * MINUTE_MS, click(schema_id, n)) for n in events])

    def publish(self) -> PublishOutcome:
        stage = self.stage
        again = decode_from_log(stage.broker.address, stage.registry.url, stage.topic)
        count_and_report(stage.warehouse, stage.topic, self.audit, instance="t", decode_again=again)
        return Gate(stage.warehouse, stage.topic, self.audit.ask).publish(wait_ms=0)

    def load_again(self, *hours: int) -> ReloadOutcome:
        return ReloadJob(self.stage.settings(), hours or {HOUR}).run()

    def of_hour(self, branch: str = LOADS) -> list[str]:
        return [file.file_path for file in self.stage.warehouse.existing_table(self.stage.topic).files_by_hour(branch)[HOUR]]

    def readers_see(self) -> list[tuple[int, int]]:
        rows = self.stage.warehouse.existing_table(self.stage.topic).iceberg.scan().to_arrow()
        return sorted(zip(rows["_topic_partition"].to_pylist(), rows["_offset"].to_pylist(), strict=True))

    def in_the_log(self) -> list[tuple[int, int]]:
        return sorted((partition, offset) for partition, offset, _ in self.stage.in_the_log())


@pytest.fixture
def operator(stage: Stage) -> Operator:
    stage.create(2)
    return Operator(stage)


@pytest.mark.situation(
    "warehouse",
    "hours are loaded again (`load TOPIC --reload HOUR`)",
    shown="nothing until the commit; readers keep the published rows until the hour is proven again",
    when="with the count",
    do="nothing",
)
def test_a_lost_file_of_a_published_hour_is_loaded_again_and_published_as_the_next_revision(operator: Operator) -> None:
    stage = operator.stage
    operator.send()
    stage.load()
    operator.send(20, first=180)
    stage.load()
    assert len(operator.publish().published) == 3
    others = {file.file_path for file in stage.warehouse.existing_table(stage.topic).files(LOADS)} - set(operator.of_hour())
    local_path(operator.of_hour()[0]).unlink()
    done = operator.load_again()
    assert (done.load_count, done.row_count, done.replaced_count) == (2, 80, 80)
    assert stage.load().run is None, "what is loaded does not change"
    assert others < {file.file_path for file in stage.warehouse.existing_table(stage.topic).files(LOADS)}
    assert_the_digests_are_those_of_the_files(stage)
    published = operator.publish()
    assert (published.published, published.withdrawn) == ((hour_name(HOUR),), ())
    assert operator.readers_see() == operator.in_the_log()
    assert set(operator.of_hour(MAIN)) == set(operator.of_hour(LOADS))
    checks = list(verify(stage.warehouse, stage.topic))
    assert [(one.hour, one.revision, one.faults) for one in checks] == [
        (hour_name(HOUR), 2, ()),
        (hour_name(HOUR + 1), 1, ()),
        (hour_name(HOUR + 2), 1, ()),
    ]
    operator.send(20, first=360)
    stage.load()
    assert operator.publish().published == (hour_name(HOUR),)
    assert operator.readers_see() == operator.in_the_log()


def test_values_of_every_kind_are_read_as_written_and_again_after_a_reload_under_a_newer_schema(operator: Operator) -> None:
    """The bodies are Apache's `avro`'s, and the files are read by DuckDB: neither is of the loader."""
    stage, kinds = operator.stage, [one for one in PLAIN.values() if one[0] != POINT]
    fields = [(f"f{at}", kind) for at, (kind, _, _) in enumerate(kinds)]
    old = record_of(*fields, ("took", "int"))
    old["fields"][0] |= {"aliases": ["earlier"]}
    event = {f"f{at}": value for at, (_, value, _) in enumerate(kinds)} | {"took": 3}
    new = record_of(*fields, ("took", "long"), ("who", ["null", "string"]))

    def send(schema: Any, words: dict[str, Any]) -> None:
        stage.send([(0, LONG_AGO_MS, frame(stage.register(schema), written(schema, words)))])

    def values() -> str:
        """Return the columns of the event, by the offset of its row."""
        return repr(stage.stored(", ".join(["_offset", *(f"f{at}" for at in range(len(kinds)))])))

    send(old, event)
    stage.load()
    before = values()
    # A map is a list of pairs to Arrow, and a dict to DuckDB.
    expected = [value if kind in (COUNTS, MAPS) else in_arrow for kind, value, in_arrow in kinds]
    assert before == repr([(stage.in_the_log()[0][1], *expected)])
    send(new, event | {"took": 1 << 40, "who": "anna"})
    stage.load()
    operator.load_again()
    assert stage.stored("took, who") == [(3, None), (1 << 40, "anna")]
    assert values().startswith(before[:-1])


def test_a_reload_that_is_killed_changes_nothing_and_can_be_repeated(operator: Operator) -> None:
    stage = operator.stage
    operator.send()
    stage.load()
    operator.publish()
    before = (operator.of_hour(), operator.of_hour(MAIN))
    armed = stage.home / "failpoints" / "reload.before_commit"
    armed.parent.mkdir()
    armed.touch()
    process = stage.load_process("--reload", hour_name(HOUR))
    reached = armed.with_name("reload.before_commit.reached")
    eventually(reached.exists, within_ms=LOAD_MS, what=f"the reload stands before its commit; {process.log}")
    driver = int(reached.read_text())
    for pid in (*descendants(driver), driver):
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not process.is_running(), what="the driver is gone")
    process.kill()
    armed.unlink()
    assert (operator.of_hour(), operator.of_hour(MAIN)) == before
    assert operator.publish().published == ()
    assert operator.load_again().row_count == 60
    assert operator.publish().published == (hour_name(HOUR),)
    assert operator.readers_see() == operator.in_the_log()


def test_hours_that_the_log_no_longer_holds_are_refused_and_stay(operator: Operator) -> None:
    stage = operator.stage
    operator.send()
    stage.load()
    operator.publish()
    admin = AdminClient({"bootstrap.servers": stage.broker.address})
    first_gone = [offset for partition, offset in operator.in_the_log() if partition == 0][5]
    wanted = [confluent_kafka.TopicPartition(stage.topic, 0, first_gone)]
    for future in admin.delete_records(wanted).values():
        future.result(20)
    with pytest.raises(ReloadRefused, match=r"no longer holds what the load .* partition 0 was read from 0 on"):
        operator.load_again()
    assert len(operator.readers_see()) == 180
    assert operator.load_again(HOUR + 2).row_count == 60, "all rows of this hour are still there"
    assert operator.publish().published == (hour_name(HOUR + 2),)
    assert len(operator.readers_see()) == 180
