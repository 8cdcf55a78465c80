"""Spark's own Kafka source as a process, run by the Python of the peer's environment: no package of ours is there.

Loads the topic into each folder that it reads from stdin, as Parquet by hour, and answers each line.

`python peer_session.py TOPIC BOOTSTRAP SCHEMA_JSON JARS SCRATCH`.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro

ENVELOPE = 5
"""Bytes of the schema's id in front of the body."""


def main() -> None:
    topic, bootstrap, schema, jars, scratch = sys.argv[1:]
    answers, sys.stdout = sys.stdout, sys.stderr
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(map(str, sorted(Path(jars).glob("*.jar")))))
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.local.dir", scratch)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    for line in sys.stdin:
        read = session.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
        body = f.expr(f"substring(value, {ENVELOPE + 1}, length(value) - {ENVELOPE})")
        rows = read.load().select(
            from_avro(body, schema).alias("event"),
            f.col("partition").alias("_topic_partition"),
            f.col("offset").alias("_offset"),
            f.col("timestamp").alias("_timestamp"),
        )
        rows = rows.select("event.*", "_topic_partition", "_offset", "_timestamp")
        hour = f.date_format("_timestamp", "yyyy-MM-dd-HH").alias("hour")
        rows.select("*", hour).write.partitionBy("hour").parquet(line.strip())
        print("done", file=answers, flush=True)
    session.stop()


main()
