"""A real load: librdkafka's batches through a real broker and a real Spark into Iceberg, counted by independent readers."""

import os
import signal
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.audit.model.messages import Skipped
from headrace.client.errors import UnknownTopic
from headrace.local.supervisor.descendants import descendants
from headrace.spark.load import session
from headrace.spark.warehouse.file_rows import join_rows, read_file
from headrace.wire.quarantine_record import LogOrigin
from tests.support.processes import eventually
from tests.support.spark_stage import CLICK, HOUR_MS, LONG_AGO_MS, MINUTE_MS, Stage, click, event

LOAD_MS = 240_000
"""For a machine that is busy with other work; alone a load takes ten seconds."""


def addresses(stage: Stage) -> list[tuple[int, int, int]]:
    return stage.stored("_topic_partition, _offset, epoch_ms(_timestamp)")


def assert_the_digests_are_those_of_the_files(stage: Stage) -> None:
    """What the tasks decoded is what Spark wrote: compare each load's digests with those of its files."""
    for run in stage.warehouse.existing_table(stage.topic).runs():
        rows = join_rows([read_file(path)[1] for path in run.files])
        for partition, digests in run.record.digests.items():
            mine = rows.where(rows.partitions == partition)
            assert mine.hashes.totals(mine.windows) == digests, partition
        assert run.record.digests


def test_every_record_is_loaded_once_over_partitions_hours_and_several_loads(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema_id = stage.register(CLICK)
    stage.create(3)
    stage.send([(n % 3, LONG_AGO_MS + n * MINUTE_MS, click(schema_id, n)) for n in range(300)], **{"compression.type": "zstd"})
    first = stage.load(splits=7)
    assert (first.row_count, first.file_count) == (300, 5)
    # Late events of the first hour, and of a new one.
    stage.send([(2, LONG_AGO_MS + 5, click(schema_id, 1000)), (0, LONG_AGO_MS + 30 * HOUR_MS, click(schema_id, 1001))])
    second = stage.load()
    assert second.row_count == 2
    with monkeypatch.context() as patch:
        patch.setattr(session, "start_session", lambda *_, **__: pytest.fail("a load with nothing new asked for Spark"))
        assert stage.load().run is None
    assert addresses(stage) == sorted(stage.in_the_log())
    assert stage.stored("count(distinct path)") == [(302,)]
    table = stage.warehouse.existing_table(stage.topic)
    assert table.row_counts_by_hour()[LONG_AGO_MS // HOUR_MS] == 61
    assert [run.record.row_count for run in table.runs()] == [300, 2]
    assert_the_digests_are_those_of_the_files(stage)


def test_a_first_load_of_a_log_from_which_all_has_been_deleted_tells_it(stage: Stage) -> None:
    """Fault: such a load found nothing new and told nothing, so the audit waited for the warehouse until it gave up (UNKNOWN)."""
    schema_id = stage.register(CLICK)
    stage.create(2)
    stage.send([(0, LONG_AGO_MS + n, click(schema_id, n)) for n in range(10)])
    end = max(offset for _, offset, _ in stage.in_the_log())
    admin = AdminClient({"bootstrap.servers": stage.broker.address})
    for deleted in admin.delete_records([TopicPartition(stage.topic, 0, OFFSET_END)]).values():
        begin = deleted.result(20).low_watermark
    assert begin > end
    assert stage.load().row_count == 0
    (run,) = stage.warehouse.existing_table(stage.topic).runs()
    assert run.record.skipped == {0: (Skipped(0, begin, "expired"),)}
    assert stage.load().run is None, "told once"
    stage.send([(0, LONG_AGO_MS + 50, click(schema_id, 50))])
    assert stage.load().row_count == 1


@pytest.mark.situation(
    "schemas and quarantine",
    "a schema is unknown at the load",
    shown="quarantined, with an address",
    when="with the load",
    do="register the schema; replay from quarantine",
)
def test_writers_of_different_schemas_share_a_table_and_what_is_no_row_goes_aside(stage: Stage) -> None:
    older = stage.register(CLICK)
    newer_schema = {**CLICK, "fields": [*CLICK["fields"], {"name": "agent", "type": ["null", "string"], "default": None}]}
    newer = stage.register(newer_schema)
    # Known to the registry, but not under the topic's subject: found while reading.
    stranger_schema = {"type": "record", "name": "Note", "fields": [{"name": "note", "type": "string"}]}
    stranger = stage.register(stranger_schema, subject="somewhere-else")
    contradiction = {"type": "record", "name": "Click", "fields": [{"name": "status", "type": "string"}]}
    contrary = stage.register(contradiction, subject="elsewhere")
    stage.create(1)
    stage.send(
        [
            (0, LONG_AGO_MS, click(older, 1)),
            (0, LONG_AGO_MS, event(newer, newer_schema, {"path": "/2", "status": 200, "agent": "x"})),
            (0, LONG_AGO_MS, event(stranger, stranger_schema, {"note": "hello"})),
            (0, LONG_AGO_MS, event(contrary, contradiction, {"status": "bad"})),
            (0, LONG_AGO_MS, b"not framed"),
            (0, LONG_AGO_MS, click(999_999, 3)),
            (0, LONG_AGO_MS, click(older, 4)[:-1]),
            (0, LONG_AGO_MS, click(older, 5)),
        ]
    )
    done = stage.load()
    assert done.row_count == 4
    assert dict(done.quarantined) == {"schema_mismatch": 1, "schema_refused": 1, "not_framed": 1, "unknown_schema_id": 1}
    assert stage.stored("path, status, agent, note") == [
        ("/1", 201, None, None),
        ("/2", 200, "x", None),
        ("/5", 200, None, None),
        (None, None, None, "hello"),
    ]
    aside = stage.quarantined()
    assert sorted(one.code for one in aside.values()) == ["not_framed", "schema_mismatch", "schema_refused", "unknown_schema_id"]
    assert all(isinstance(one.origin, LogOrigin) and one.origin.cluster == "offline" for one in aside.values())
    (run,) = stage.warehouse.existing_table(stage.topic).runs()
    assert sum(one.count for one in run.record.quarantined[0][LONG_AGO_MS]) == 4
    assert run.record.refused == {LONG_AGO_MS: 1}
    assert_the_digests_are_those_of_the_files(stage)


def test_fields_named_like_the_column_that_rows_are_partitioned_by_keep_their_values(stage: Stage) -> None:
    schema = {"type": "record", "name": "Shift", "fields": [{"name": name, "type": "long"} for name in ("hour", "_hour")]}
    schema_id = stage.register(schema)
    stage.create(1)
    hours = (LONG_AGO_MS, LONG_AGO_MS + HOUR_MS)
    stage.send([(0, at_ms, event(schema_id, schema, {"hour": 7, "_hour": 8})) for at_ms in hours])
    assert stage.load().row_count == 2
    assert stage.stored("hour, _hour") == [(7, 8), (7, 8)]
    assert stage.warehouse.existing_table(stage.topic).row_counts_by_hour() == {at_ms // HOUR_MS: 1 for at_ms in hours}


@pytest.mark.parametrize("failpoint", ["load.before_commit", "load.after_commit"])
def test_a_load_that_is_killed_leaves_nothing_and_the_next_loads_everything_once(stage: Stage, failpoint: str) -> None:
    schema_id = stage.register(CLICK)
    stage.create(2)
    stage.send([(n % 2, LONG_AGO_MS + n * 1_000, click(schema_id, n)) for n in range(40)])
    armed = stage.home / "failpoints" / failpoint
    armed.parent.mkdir()
    armed.touch()
    load = stage.load_process()
    reached = armed.with_name(f"{failpoint}.reached")
    eventually(reached.exists, within_ms=LOAD_MS, what=f"{failpoint} reached; {load.log}")
    driver = int(reached.read_text())
    machines = [pid for pid in descendants(driver) if "java" in Path(f"/proc/{pid}/cmdline").read_text()]
    assert machines, "no JVM under the driver"
    assert len(addresses(stage)) == (0 if failpoint == "load.before_commit" else 40)
    files = list(stage.warehouse.data_folder(stage.topic).glob("*/rows-*/*/*.parquet"))
    assert files, "no Parquet was written yet"
    for pid in (driver, *machines):
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not load.is_running(), what="the driver is gone")
    load.kill()
    armed.unlink()
    done = stage.load()
    assert (done.run is None) == (failpoint == "load.after_commit")
    assert addresses(stage) == sorted(stage.in_the_log())
    assert len(addresses(stage)) == 40
    assert stage.load().run is None
    left = set(stage.warehouse.data_folder(stage.topic).glob("*/rows-*/*/*.parquet"))
    named = {path for path in stage.warehouse.existing_table(stage.topic).referenced_paths() if path.suffix == ".parquet"}
    assert left == named, "the dead run's files were not swept"


def test_of_two_loads_at_once_one_commits_and_the_other_finds_nothing_new(stage: Stage) -> None:
    schema_id = stage.register(CLICK)
    stage.create(2)
    stage.send([(n % 2, LONG_AGO_MS + n * 1_000, click(schema_id, n)) for n in range(40)])
    armed = stage.home / "failpoints" / "load.before_commit"
    armed.parent.mkdir()
    armed.touch()
    held = stage.load_process()
    eventually(armed.with_name("load.before_commit.reached").exists, within_ms=LOAD_MS, what="the first load holds")
    assert stage.load(home=None).row_count == 40
    armed.unlink()
    eventually(lambda: not held.is_running(), within_ms=LOAD_MS, what="the held load ends")
    assert '"load_superseded"' in held.output()
    assert addresses(stage) == sorted(stage.in_the_log())


def test_a_batch_that_rots_in_the_log_goes_aside_and_the_others_are_loaded(stage: Stage) -> None:
    schema_id = stage.register(CLICK)
    stage.create(1)
    for n in range(3):
        stage.send([(0, LONG_AGO_MS + n, click(schema_id, n))])
    # Batches of one record: each ends directly after it, where the next one begins.
    ends = [offset + 1 for _, offset, _ in stage.in_the_log()]
    (segment,) = [path for path in (stage.broker.data).rglob(f"*{stage.topic}*0/*.log") if path.stat().st_size]
    with segment.open("r+b") as file:
        file.seek(ends[0] + 65)
        byte = file.read(1)
        file.seek(ends[0] + 65)
        file.write(bytes([byte[0] ^ 0xFF]))
    done = stage.load()
    assert done.row_count == 2
    assert dict(done.quarantined) == {"corrupt_batch": 1}
    (aside,) = stage.quarantined().values()
    assert aside.origin == LogOrigin(cluster="offline", topic=stage.topic, partition=0, offset=ends[0], to_offset=ends[1])
    assert [path for (path,) in stage.stored("path")] == ["/0", "/2"]


def test_a_topic_without_records_loads_nothing_and_one_that_is_not_there_is_an_error(stage: Stage) -> None:
    with pytest.raises(UnknownTopic):
        stage.load()
    stage.create(2)
    assert stage.load().run is None
    assert stage.warehouse.table(stage.topic) is None
