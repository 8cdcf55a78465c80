"""Sessions by user with Structured Streaming: `session_window` over the Data Source `headrace`, closed sessions as JSON files."""

import argparse
import tempfile
from pathlib import Path

from pyspark.sql import functions as F

from headrace.spark.load.session import start_session


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "registry", "topic", "out", "checkpoint"):
        parser.add_argument(f"--{name}", required=True)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        session = start_session("sessions", Path(scratch), master=None)
        session.conf.set("spark.sql.shuffle.partitions", "2")
        visits = (
            session.readStream.format("headrace")
            .options(bootstrap=words.bootstrap, registry=words.registry, topic=words.topic)
            # Only what a session needs is decoded. A limit keeps the first run's batches small.
            .options(columns="user,_timestamp", startingOffsets="earliest", maxBytesPerTrigger=str(64 << 20))
            .load()
        )
        sessions = (
            visits.withWatermark("_timestamp", "10 minutes")
            .groupBy("user", F.session_window("_timestamp", "30 minutes").alias("window"))
            .count()
            .select(
                "user",
                F.unix_millis("window.start").alias("start_ms"),
                F.unix_millis("window.end").alias("end_ms"),
                F.col("count").alias("visits"),
            )
        )
        query = sessions.writeStream.format("json").outputMode("append").option("path", words.out)
        query.option("checkpointLocation", words.checkpoint).trigger(availableNow=True).start().awaitTermination()
        session.stop()


if __name__ == "__main__":
    main()
