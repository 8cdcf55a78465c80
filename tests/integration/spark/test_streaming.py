"""Structured Streaming over the Data Source: a real Spark, one JVM for the module, and a driver that is killed."""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.local.supervisor.descendants import descendants
from headrace.spark.load.session import start_session
from tests.support.librdkafka import read_all
from tests.support.processes import Process, eventually
from tests.support.spark_cluster import end
from tests.support.spark_stage import CLICK, LONG_AGO_MS, MINUTE_MS, Stage, click, event

BUSY_MS = 240_000
WIDER = {**CLICK, "fields": [*CLICK["fields"], {"name": "referrer", "type": "string"}]}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    started = start_session("streaming", tmp_path_factory.mktemp("scratch"), master="local[2]")
    started.conf.set("spark.sql.shuffle.partitions", "2")
    yield started
    started.stop()


def options(stage: Stage, **more: object) -> dict[str, str]:
    words = {"bootstrap": stage.broker.address, "topic": stage.topic, "registry": stage.registry.url}
    return {**words, **{name: str(value) for name, value in more.items()}}


def sink(stage: Stage, frame: DataFrame, name: str = "query") -> Any:
    """A writer to Parquet files, which Spark's own log of files makes idempotent."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(stage.home / name / "checkpoint"))
    return writer.option("path", str(stage.home / name / "rows"))


def addresses(session: SparkSession, stage: Stage, name: str = "query") -> list[tuple[int, int]]:
    try:
        found = session.read.parquet(str(stage.home / name / "rows")).select("_topic_partition", "_offset").collect()
    except AnalysisException:
        return []  # no file is committed yet
    return sorted((row[0], row[1]) for row in found)


def in_the_log(stage: Stage) -> list[tuple[int, int]]:
    return sorted((partition, offset) for partition, offset, _ in stage.in_the_log())


def send(stage: Stage, schema_id: int, numbers: range) -> None:
    stage.send([(n % 3, LONG_AGO_MS + n * MINUTE_MS, click(schema_id, n)) for n in numbers])


def test_available_now_in_limited_batches_and_again_from_the_checkpoint(session: SparkSession, stage: Stage) -> None:
    schema_id = stage.register(CLICK)
    stage.create(3)
    send(stage, schema_id, range(300))
    for _ in range(2):
        words = options(stage, startingOffsets="earliest", maxOffsetsPerTrigger=3_000)
        query = sink(stage, session.readStream.format("headrace").options(**words).load()).trigger(availableNow=True).start()
        query.awaitTermination()
        assert addresses(session, stage) == in_the_log(stage)
        send(stage, schema_id, range(300, 400))
    progress = [json.loads(one.json) for one in query.recentProgress]
    (told,) = progress[-1]["sources"]
    assert sum(told["endOffset"][stage.topic].values()) == sum(told["latestOffset"][stage.topic].values())
    offsets = sorted((stage.home / "query" / "checkpoint" / "offsets").iterdir(), key=lambda path: path.name)
    batches = [path for path in offsets if path.name.isdigit()]
    assert len(batches) >= 3, "300 records of 22 bytes and more, in batches of 3,000"
    written = json.loads(max(batches, key=lambda path: int(path.name)).read_text().splitlines()[-1])
    assert written[stage.topic].keys() == {"0", "1", "2"}


def test_a_running_stream_sees_what_comes_and_ends_at_a_field_that_it_has_no_column_for(
    session: SparkSession, stage: Stage
) -> None:
    schema_id = stage.register(CLICK)
    stage.create(3)
    strict = session.readStream.format("headrace").options(**options(stage)).load()
    lax = session.readStream.format("headrace").options(**options(stage, newFields="ignore")).load()
    frames = {"strict": strict, "lax": lax}
    queries = [sink(stage, frames[name], name).trigger(processingTime="200 milliseconds").start() for name in frames]
    eventually(lambda: all(query.lastProgress for query in queries), within_ms=BUSY_MS, what="the first batches")
    send(stage, schema_id, range(30))
    for name in frames:
        eventually(lambda name=name: addresses(session, stage, name) == in_the_log(stage), within_ms=BUSY_MS, what="30 rows")
    wider = stage.register(WIDER)
    stage.send([(0, LONG_AGO_MS, event(wider, WIDER, {"path": "/new", "status": 1, "referrer": "elsewhere"}))])
    with pytest.raises(StreamingQueryException, match=rf"schema id {wider} have field\(s\) referrer"):
        queries[0].awaitTermination(BUSY_MS // 1000)
    eventually(lambda: addresses(session, stage, "lax") == in_the_log(stage), within_ms=BUSY_MS, what="the row without its field")
    queries[1].stop()
    again = session.readStream.format("headrace").options(**options(stage)).load()
    sink(stage, again, "strict").trigger(availableNow=True).start().awaitTermination()
    assert addresses(session, stage, "strict") == in_the_log(stage)
    found = session.read.option("mergeSchema", "true").parquet(str(stage.home / "strict" / "rows"))
    assert [row.referrer for row in found.where("path = '/new'").collect()] == ["elsewhere"]


def test_raw_rows_pushed_filters_and_a_field_after_the_start_in_a_batch(session: SparkSession, stage: Stage) -> None:
    schema_id = stage.register(CLICK)
    stage.create(3)
    send(stage, schema_id, range(90))
    raw = session.read.format("headrace").options(**options(stage, columns="raw", filterPushdown="true")).load()
    kinds = {name: kind for name, kind in raw.dtypes}
    assert kinds == {
        "key": "binary",
        "value": "binary",
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "timestamp": "timestamp",
        "timestampType": "int",
        "headers": "array<struct<key:string,value:binary>>",
        "schema_id": "int",
    }, "the names and types of Spark's Kafka source"
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    wanted = (F.col("partition") == 1) & (F.col("timestamp") >= F.timestamp_millis(F.lit(LONG_AGO_MS + 30 * MINUTE_MS)))
    found = raw.where(wanted).collect()
    theirs = [one for one in read_all(stage.broker.address, stage.topic) if one.partition() == 1]
    theirs = [one for one in theirs if one.timestamp()[1] >= LONG_AGO_MS + 30 * MINUTE_MS]
    assert sorted((row.offset, bytes(row.value)) for row in found) == [(one.offset(), one.value()) for one in theirs]
    both = session.read.format("headrace").options(**options(stage, columns="both")).load()
    assert both.where("event.path = '/5'").select("event.status", "partition").collect() == [(200, 2)]
    listed = session.read.format("headrace").options(**options(stage, columns="_offset,key,path")).load()
    assert sorted(row.path for row in listed.collect()) == sorted(f"/{n}" for n in range(90))
    frame = session.read.format("headrace").options(**options(stage)).load()
    wider = stage.register(WIDER)
    stage.send([(0, LONG_AGO_MS, event(wider, WIDER, {"path": "/new", "status": 1, "referrer": "elsewhere"}))])
    with pytest.raises(Exception, match=rf"schema id {wider} have field\(s\) referrer"):
        frame.count()


_DRIVER = """
import os, sys, time
from pathlib import Path
from headrace.spark.load.session import start_session
bootstrap, topic, registry, home, until = sys.argv[1:]
session = start_session("killed", Path(home) / "scratch", master="local[2]")
words = {"bootstrap": bootstrap, "topic": topic, "registry": registry, "startingOffsets": "earliest"}
words["maxOffsetsPerTrigger"] = "4000"
stream = session.readStream.format("headrace").options(**words).load()

def put(frame, number):  # idempotent: a batch that comes again takes the place of itself
    frame.write.mode("overwrite").parquet(f"{home}/rows/{number}")

writer = stream.writeStream.foreachBatch(put).option("checkpointLocation", f"{home}/checkpoint")
writer = writer.trigger(availableNow=True) if until == "end" else writer.trigger(processingTime="0 seconds")
writer.start().awaitTermination()
"""


def driver(stage: Stage, until: str) -> Process:
    words = [sys.executable, "-c", _DRIVER, stage.broker.address, stage.topic, stage.registry.url, str(stage.home), until]
    return Process(words, stage.home / "driver.log").start()


def batches(stage: Stage) -> list[str]:
    return [path.name for path in (stage.home / "rows").glob("*/_SUCCESS")]


@pytest.mark.whole
@pytest.mark.parametrize("seed", range(int(os.environ.get("HEADRACE_STREAM_KILLS", "1"))))
def test_killed_drivers_and_brokers_lose_and_double_nothing(stage: Stage, seed: int) -> None:
    """The driver with its JVM is killed after some batches, the broker meanwhile; the next driver continues by the checkpoint."""
    schema_id = stage.register(CLICK)
    stage.create(3)
    send(stage, schema_id, range(600))
    first = driver(stage, "ever")
    try:
        eventually(lambda: len(list((stage.home / "rows").glob("*"))) > seed % 4, within_ms=BUSY_MS, what="some batches")
        stage.broker.kill()
    finally:
        for pid in descendants(first.pid):
            end(pid)
        first.kill()
        stage.broker.start()
    send(stage, schema_id, range(600, 700))
    second = driver(stage, "end")
    stage.broker.kill()
    stage.broker.start()
    try:
        assert second.wait(BUSY_MS) == 0, second.output()[-4_000:]
    finally:
        second.kill()
    found = [
        (row["_topic_partition"], row["_offset"])
        for path in (stage.home / "rows").glob("*/*.parquet")
        for row in pq.read_table(path, columns=["_topic_partition", "_offset"]).to_pylist()
    ]
    assert sorted(found) == in_the_log(stage)
    assert len(found) == 700
