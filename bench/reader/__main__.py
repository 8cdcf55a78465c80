"""`python -m bench.reader`: what reading an event costs a Python application, and prints one JSON object.

The same topic, broker and registry for all, in turn, each in a process of its own: `EventReader.run` in Python alone, with
`headrace_native`, and confluent-kafka's Consumer with its AvroDeserializer, both into the same class. Processor time of the whole
process between its first and its last record decides, so fetching and committing count, too. A ratio above 1 says that ours needs
less.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.producer.producer import Producer
from headrace.schema_registry.client import RegistryClient
from headrace.sdk.encoding.event_encoder import EventEncoder
from headrace.wire.schema_id import frame

from ..drivers.python.events import SCHEMA, SERVER, events
from ..peers.headrace import Headrace
from ..peers.registry import Registry

TOPIC = "page_views"
PYTHON, NATIVE, CONFLUENT = "EventReader, Python", "EventReader, native", "confluent-kafka, AvroDeserializer"
CLIENTS = {PYTHON: ("headrace", "0"), NATIVE: ("headrace", "1"), CONFLUENT: ("confluent", "0")}
_START_MS = 1_790_000_400_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.reader", description=__doc__)
    parser.add_argument("--count", type=int, default=200_000, help="events (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--audit", action="store_true", help="ours reports to the audit, too")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Headrace(Path(folder) / "broker")
        server.start()
        registry = Registry(Path(folder) / "registry", server.bootstrap)
        registry.start()
        try:
            _fill(server.bootstrap, registry.url, chosen.count)
            found: dict[str, list[float]] = {name: [] for name in CLIENTS}
            for turn in range(chosen.rounds):
                for name, (client, native) in CLIENTS.items():
                    words = {"client": client, "bootstrap": server.bootstrap, "registry_url": registry.url, "topic": TOPIC,
                             "count": chosen.count, "group": f"{client}-{native}-{turn}", "audit": chosen.audit}  # fmt: skip
                    found[name].append(_run(words, native)["cpu_s"] / chosen.count * 1e6)
        finally:
            registry.stop()
            server.stop()
    micros = {name: round(statistics.median(all_of), 2) for name, all_of in found.items()}
    print(json.dumps({
        "events": chosen.count,
        "cpu_us_an_event": micros,
        "times_confluent": {name: round(micros[CONFLUENT] / micros[name], 2) for name in (PYTHON, NATIVE)},
    }))  # fmt: skip
    return 0


def _fill(bootstrap: str, registry_url: str, count: int) -> None:
    cluster = Cluster(bootstrap, client_id="bench.reader")
    create_topic(cluster, TOPIC, 1)
    schema_id = RegistryClient(registry_url, cache_folder=None).register(f"{TOPIC}-value", json.dumps(SCHEMA))
    encoder, kinds = EventEncoder(json.dumps(SCHEMA), SERVER), events()
    producer = Producer(cluster)
    for number in range(count):
        at_ms = _START_MS + number // 100
        producer.send(TOPIC, frame(schema_id, encoder.encode(kinds[number % len(kinds)], at_ms)), timestamp_ms=at_ms)
    producer.flush(120_000)
    producer.close(10_000)
    cluster.close()


def _run(words: dict[str, Any], native: str) -> dict[str, Any]:
    environment = {**os.environ, "HEADRACE_NATIVE": native}
    command = [sys.executable, "-m", "bench.reader.client", json.dumps(words)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"{words['client']} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    raise SystemExit(main())
