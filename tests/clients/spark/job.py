"""Runs Spark's reads, in its own environment: run with that Python, `job.py BOOTSTRAP JARS OUT ASKED`.

`ASKED` is JSON: a list of reads. Each has `topics`, and `options` of Spark's Kafka source. `stream` makes it a stream with
`availableNow`; `avro` (a schema) decodes the values. `OUT` receives JSON: each read's rows, and their number of parts.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro


def main(bootstrap: str, jars: str, out: str, asked: str) -> None:
    session = (
        SparkSession.builder.appName("positions")
        .master("local[2]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    try:
        Path(out).write_text(json.dumps([read(session, bootstrap, one) for one in json.loads(asked)]))
    finally:
        session.stop()


def read(session: SparkSession, bootstrap: str, asked: dict[str, Any]) -> dict[str, Any]:
    try:
        return streamed(session, bootstrap, asked) if asked.get("stream") else batch(session, bootstrap, asked)
    except Exception as error:  # one read's error is reported beside the others' rows
        return {"failed": str(error)[:2000]}


def batch(session: SparkSession, bootstrap: str, asked: dict[str, Any]) -> dict[str, Any]:
    frame = session.read.format("kafka").options(**options(bootstrap, asked)).load()
    return {"rows": rows(frame, asked), "parts": frame.rdd.getNumPartitions()}


def streamed(session: SparkSession, bootstrap: str, asked: dict[str, Any]) -> dict[str, Any]:
    found: list[list[Any]] = []
    sizes: list[int] = []

    def take(frame: DataFrame, _: int) -> None:
        more = rows(frame, asked)
        found.extend(more)
        sizes.append(len(more))

    with tempfile.TemporaryDirectory() as checkpoint:
        for _ in range(asked.get("times", 1)):
            stream = session.readStream.format("kafka").options(**options(bootstrap, asked)).load()
            query = (
                stream.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
            )
            query.awaitTermination()
    return {"rows": found, "parts": len(sizes)}


def options(bootstrap: str, asked: dict[str, Any]) -> dict[str, str]:
    told = {"kafka.bootstrap.servers": bootstrap, "subscribe": ",".join(asked["topics"]), "startingOffsets": "earliest"}
    return {**told, "kafkaConsumer.pollTimeoutMs": "20000", "fetchOffset.numRetries": "1", **asked.get("options", {})}


def rows(frame: DataFrame, asked: dict[str, Any]) -> list[list[Any]]:
    schema = asked.get("avro")
    value = F.to_json(from_avro(F.col("value"), schema)) if schema else F.col("value").cast("string")
    return [[row.topic, row.offset, row.value] for row in frame.select("topic", "offset", value.alias("value")).collect()]


if __name__ == "__main__":
    main(*sys.argv[1:])
