"""Counts by window that share nothing with the project: both clusters by librdkafka, the warehouse's files by duckdb."""

import time
from collections import Counter
from collections.abc import Mapping
from urllib.parse import quote

import duckdb
from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyiceberg.catalog.sql import SqlCatalog

from tests.support.access_logs import WINDOW_MS
from tests.support.platform import Platform

WITHIN_S = 120


def in_cluster(bootstrap: str, topic: str, security: Mapping[str, str] | None = None) -> Counter[int]:
    """Return the committed records by window. `security`: librdkafka's own settings."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "oracle",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            **(security or {}),
        }
    )
    unread = set(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in unread])
    counts: Counter[int] = Counter()
    deadline = time.monotonic() + WITHIN_S
    while unread:
        message = consumer.poll(30)
        assert message is not None, f"{bootstrap} does not answer"
        error = message.error()
        if error is None:
            counts[message.timestamp()[1] // WINDOW_MS * WINDOW_MS] += 1
        elif error.code() == KafkaError._PARTITION_EOF:
            unread.discard(message.partition())
        else:  # a broker that has just started, say: librdkafka tries again
            assert time.monotonic() < deadline, f"{bootstrap}: partitions {unread} cannot be read: {error}"
    consumer.close()
    return counts


def in_warehouse(platform: Platform, topic: str) -> Counter[int]:
    """Return the rows that readers see, by window."""
    catalog = SqlCatalog("warehouse", uri=f"sqlite:///{quote(str(platform.layout.warehouse / 'catalog.db'))}")
    scan = catalog.load_table(("warehouse", topic)).scan()
    files = [task.file.file_path.removeprefix("file://") for task in scan.plan_files()]
    at = "epoch_ms(_timestamp)"
    sql = f"SELECT {at} - {at} % {WINDOW_MS}, count(*) FROM read_parquet(?) GROUP BY 1"
    return Counter(dict(duckdb.connect().execute(sql, [files]).fetchall()))
