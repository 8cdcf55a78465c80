"""A broker, a registry and one topic of web requests to be loaded, like those of an access log: few agents, many paths."""

import io
import random
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.producer.producer import Producer
from headrace.schema_registry.client.registry_client import RegistryClient
from headrace.sdk import ACCESS_LOG_SCHEMA
from headrace.wire.schema_id import frame

from ..harness.child import Child, free_port
from ..peers.headrace import Headrace

NAME = "requests"
PARTITIONS = 2
BEGIN_MS = 1_431_856_800_000
EVERY_MS = 20
READY_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where the servers listen."""

    bootstrap: str
    registry_url: str


@contextmanager
def serving(folder: Path) -> Iterator[Addresses]:
    """Run the servers until the end of the block."""
    server = Headrace(folder / "broker")
    port = free_port()
    words = [sys.executable, "-m", "headrace.cli.main", "registry", "run", "--port", str(port)]
    words += ["--bootstrap", f"127.0.0.1:{server.port}", "--status-file", str(folder / "registry.json")]
    registry = Child(words, folder / "registry.log", port=port)
    try:
        server.start()
        registry.start()
        found = Addresses(bootstrap=f"127.0.0.1:{server.port}", registry_url=f"http://127.0.0.1:{port}")
        _await_ready(found.registry_url)
        yield found
    finally:
        registry.stop()
        server.stop()


def _await_ready(url: str) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=5):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def fill(addresses: Addresses, count: int) -> None:
    """Send `count` events. The same every time."""
    schema_id = RegistryClient(addresses.registry_url).register(f"{NAME}-value", dict(ACCESS_LOG_SCHEMA))
    schema = fastavro.parse_schema(dict(ACCESS_LOG_SCHEMA))
    cluster = Cluster(addresses.bootstrap)
    try:
        create_topic(cluster, NAME, PARTITIONS)
        producer = Producer(cluster, window_ms=600_000)
        for number, event in enumerate(_events(count)):
            body = io.BytesIO()
            fastavro.schemaless_writer(body, schema, event)
            at_ms = BEGIN_MS + number * EVERY_MS
            producer.send(NAME, frame(schema_id, body.getvalue()), partition=number % PARTITIONS, timestamp_ms=at_ms)
        producer.close(60_000)
    finally:
        cluster.close()


def _events(count: int) -> Iterator[Mapping[str, Any]]:
    chance = random.Random(17)
    browser = "Mozilla/5.0 (X11; Linux x86_64; n{}) AppleWebKit/537.36 (KHTML, like Gecko) Safari/537.36"
    agents = [browser.format(number) for number in range(300)]
    paths = [f"/articles/{number:05d}/{'a-title-of-some-words-' * (number % 4)}" for number in range(5_000)]
    for number in range(count):
        yield {
            "event_time": BEGIN_MS + number * EVERY_MS,
            "server": "web-1",
            "client_ip": f"10.{chance.randrange(4)}.{chance.randrange(256)}.{chance.randrange(256)}",
            "ident": None,
            "user": None,
            "method": "GET",
            "path": f"{chance.choice(paths)}?page={number % 97}" if number % 3 == 0 else chance.choice(paths),
            "protocol": "HTTP/1.1",
            "status": chance.choice((200, 200, 200, 304, 404)),
            "size_bytes": chance.randrange(200_000),
            "referrer": f"https://example.org{chance.choice(paths)}",
            "user_agent": chance.choice(agents),
        }
