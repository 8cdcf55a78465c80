"""`python -m bench.all_topics`: measures `headrace load --all`'s load over many small topics, and prints one JSON object.

    first      every topic for the first time: tables are made, too
    nothing    nothing is new: no JVM
    little     a few topics have something new: an hourly load of little
    again      every topic has something new

Each is a process of its own, its start included. Beside the time stand the driver's resident memory when its first batch began
and when its last one was committed, and its peak (its own `VmHWM`), so that growth by topic would show; and the processor time
of driver, JVM and workers, which says more than the clock where others use the machine.
"""

import argparse
import io
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fastavro

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.producer.producer import Producer
from headrace.schema_registry.client.registry_client import RegistryClient
from headrace.spark.warehouse.warehouse import Warehouse
from headrace.wire.schema_id import frame

from ..harness.proc_meters import processor_s
from ..load_digest import topic as servers
from ..load_digest.topic import BEGIN_MS, Addresses

LOOK_S = 0.2
LITTLE_TOPICS = 5
SCHEMA = {
    "type": "record",
    "name": "Click",
    "fields": [{"name": "path", "type": "string"}, {"name": "status", "type": "int"}],
}


def fill(addresses: Addresses, topics: Sequence[str], count: int, *, is_new: bool) -> None:
    """Send `count` events to each topic."""
    registry = RegistryClient(addresses.registry_url)
    cluster = Cluster(addresses.bootstrap)
    try:
        producer = Producer(cluster, window_ms=600_000)
        for name in topics:
            schema_id = registry.register(f"{name}-value", SCHEMA)
            if is_new:
                create_topic(cluster, name, 1)
            for number in range(count):
                producer.send(name, frame(schema_id, _body(number)), partition=0, timestamp_ms=BEGIN_MS + number)
        producer.close(120_000)
    finally:
        cluster.close()


def _body(number: int) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(SCHEMA), {"path": f"/articles/{number}", "status": 200})
    return body.getvalue()


class Run:
    """One load as a process, and what was seen of it."""

    def __init__(self, addresses: Addresses, topics: Path, warehouse: Path, log: Path) -> None:
        words = [sys.executable, "-m", "bench.all_topics.one_load", str(topics), str(warehouse)]
        self._words = [*words, addresses.bootstrap, addresses.registry_url]
        self._log = log

    def measure(self) -> dict[str, Any]:
        began = time.monotonic()
        with self._log.open("ab") as log:
            process = subprocess.Popen(self._words, stdout=subprocess.PIPE, stderr=log, text=True)
            seen: list[tuple[int, float]] = []
            looking = threading.Thread(target=_look, args=(process, seen))
            looking.start()
            answer, _ = process.communicate()
            looking.join()
        if process.returncode:
            raise RuntimeError(f"the load failed:\n{self._log.read_text(errors='replace')[-3000:]}")
        return {
            "wall_s": round(time.monotonic() - began, 1),
            **json.loads(answer),
            "most_rss_mib": max(rss for rss, _ in seen) >> 10,
            "processor_s": round(max(cpu for _, cpu in seen), 1),
        }


def _look(process: "subprocess.Popen[str]", seen: list[tuple[int, float]]) -> None:
    while process.poll() is None:
        try:
            words = Path(f"/proc/{process.pid}/status").read_text().split()
            seen.append((int(words[words.index("VmHWM:") + 1]), processor_s(process.pid)))
        except (OSError, ValueError):
            pass
        time.sleep(LOOK_S)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.all_topics", description=__doc__, epilog="example: python -m bench.all_topics --topics 1000"
    )
    parser.add_argument("--topics", type=int, default=1_000, help="(default %(default)s)")
    parser.add_argument("--events", type=int, default=20, help="in each topic at each load (default %(default)s)")
    arguments = parser.parse_args()
    if arguments.topics < 1 or arguments.events < 1:
        parser.error("--topics and --events are at least 1")
    names = [f"small_{number:05}" for number in range(arguments.topics)]
    with tempfile.TemporaryDirectory(prefix="headrace-all-topics-") as name:
        folder = Path(name)
        with servers.serving(folder) as addresses:
            listed = folder / "topics"
            listed.write_text("\n".join(names))
            run = Run(addresses, listed, folder / "warehouse", folder / "load.log")
            result: dict[str, Any] = {"topics": len(names), "events": arguments.events}
            for step, some in (("first", names), ("nothing", []), ("little", names[:LITTLE_TOPICS]), ("again", names)):
                fill(addresses, some, arguments.events, is_new=step == "first")
                result[step] = run.measure()
                print(f"{step}: {result[step]}", file=sys.stderr, flush=True)
                if (result[step]["loads"], result[step]["rows"]) != (len(some), len(some) * arguments.events):
                    raise RuntimeError(f"{step}: {result[step]} is not what was asked for")
            warehouse = Warehouse(folder / "warehouse")
            result["rows_in_tables"] = sum(sum(warehouse.existing_table(one).row_counts_by_hour().values()) for one in names)
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
