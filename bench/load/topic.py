"""A topic of web requests in ten plain fields: about 93 bytes each, three partitions, one hour of event time."""

import io
import random
from collections.abc import Mapping
from typing import Any

import fastavro

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.producer.producer import Producer
from headrace.schema_registry.client.registry_client import RegistryClient
from headrace.wire.schema_id import frame

PARTITIONS = 3
BEGIN_MS = 1_431_856_800_000
HOUR_MS = 3_600_000
DISTINCT = 200_000
"""Events that differ; a longer topic has them again, each time with another time of the record."""
SCHEMA: Mapping[str, Any] = {
    "type": "record",
    "name": "Request",
    "fields": [
        {"name": "at", "type": "long"},
        {"name": "host", "type": "string"},
        {"name": "client", "type": "string"},
        {"name": "user", "type": ["null", "string"]},
        {"name": "method", "type": "string"},
        {"name": "path", "type": "string"},
        {"name": "status", "type": "int"},
        {"name": "size", "type": "long"},
        {"name": "seconds", "type": "double"},
        {"name": "is_cached", "type": "boolean"},
    ],
}


def fill(bootstrap: str, registry_url: str, name: str, count: int) -> float:
    """Send `count` events, the same every time; return the mean bytes of a value."""
    schema_id = RegistryClient(registry_url).register(f"{name}-value", dict(SCHEMA))
    values = framed(schema_id, min(count, DISTINCT))
    cluster = Cluster(bootstrap)
    try:
        create_topic(cluster, name, PARTITIONS)
        producer = Producer(cluster, window_ms=600_000)
        for number in range(count):
            at_ms = BEGIN_MS + number * HOUR_MS // count
            producer.send(name, values[number % len(values)], partition=number % PARTITIONS, timestamp_ms=at_ms)
        producer.close(120_000)
    finally:
        cluster.close()
    return sum(map(len, values)) / len(values)


def framed(schema_id: int, count: int) -> list[bytes]:
    """Return so many events as they are in the log."""
    chance = random.Random(17)
    schema = fastavro.parse_schema(dict(SCHEMA))
    paths = [f"/articles/{number:05d}/of-some-length" for number in range(5_000)]
    values = []
    for number in range(count):
        body = io.BytesIO()
        event = {
            "at": BEGIN_MS + number,
            "host": f"web-{number % 12}.example.org",
            "client": f"10.{chance.randrange(4)}.{chance.randrange(256)}.{chance.randrange(256)}",
            "user": f"u{chance.randrange(90_000)}" if number % 4 else None,
            "method": "GET",
            "path": chance.choice(paths),
            "status": chance.choice((200, 200, 200, 304, 404)),
            "size": chance.randrange(200_000),
            "seconds": chance.random(),
            "is_cached": number % 3 == 0,
        }
        fastavro.schemaless_writer(body, schema, event)
        values.append(frame(schema_id, body.getvalue()))
    return values
