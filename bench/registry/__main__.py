"""`python -m bench.registry`: reads and durable registrations of one registry, beside its bare HTTP server in the same run.

Broker, ZooKeeper, registry and load share the machine. The ratio to the yardstick is the figure; the absolute ones are the
machine's.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import uuid
from functools import partial
from pathlib import Path

from bench.registry.load import Measured, get, measure, post
from tests.support.broker import BrokerProcess
from tests.support.registry import RegistryProcess
from tests.support.zookeeper import ZooKeeperProcess

SCHEMAS = 200


def schema(run: str, number: int) -> str:
    return json.dumps({"type": "record", "name": "Event", "fields": [{"name": f"f{run}_{number}", "type": "int"}]})


def said(what: str, found: Measured) -> None:
    print(
        f"{what:<34} {found.per_second:>8,.0f}/s   p50 {found.p50_ms:6.2f} ms   p99 {found.p99_ms:6.2f} ms"
        f"   CPU {found.server_cpu_ms:6.3f} ms a request   {found.requests} requests, {found.failed} failed",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--registrations", type=int, default=4_000)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--writers", type=int, default=64)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ZooKeeperProcess(Path(folder) / "zookeeper") as zookeeper:
        with BrokerProcess(Path(folder) / "broker", f"{zookeeper.address}/bench") as broker:
            with RegistryProcess(Path(folder) / "registry", broker.address) as registry:
                run(registry, arguments)


def read(path: str, number: int) -> bytes:
    return get(path.format(number % (SCHEMAS - 1) + 1))


def run(registry: RegistryProcess, arguments: argparse.Namespace) -> None:
    for number in range(SCHEMAS):
        registry.ask("POST", f"/subjects/s{number}-value/versions", {"schema": schema("a", number)})
    bare = subprocess.Popen(
        [sys.executable, "-m", "bench.registry.yardstick"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert bare.stdout is not None
    try:
        port = int(bare.stdout.readline())
        few = {"connections": arguments.connections, "requests": arguments.requests}
        yardstick = measure(port, lambda number: get("/schemas/ids/1"), pid=bare.pid, **few)
        said("bare server, constant answer", yardstick)
        for what, path in (
            ("GET /schemas/ids/{id}", "/schemas/ids/{}"),
            ("GET …/versions/latest", "/subjects/s{}-value/versions/latest"),
        ):
            found = measure(registry.port, partial(read, path), pid=registry.process.pid, **few)
            said(what, found)
            print(f"{'':<34} {found.per_second / yardstick.per_second:8.2f} of the bare server")
        name = uuid.uuid4().hex[:6]

        def register(number: int) -> bytes:
            return post(f"/subjects/{name}{number}-value/versions", json.dumps({"schema": schema(name, number)}).encode())

        found = measure(
            registry.port, register, pid=registry.process.pid, connections=arguments.writers, requests=arguments.registrations
        )
        said(f"registrations, {arguments.writers} clients", found)
        print(f"{'':<34} {found.per_second / yardstick.per_second:8.2f} of the bare server")
    finally:
        bare.communicate("")


if __name__ == "__main__":
    main()
