"""`headrace mirror verify` between two of our brokers beside a bare fetch of both: megabytes a second of both logs together.

The bare fetch is a reader in C for each broker, both at once, that asks for as much at a time as the comparison does, one request
after another, and looks at batch headers only. The comparison's time is its own, without the start of its Python.
"""

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from headrace.mirror.verify.read_ahead import FETCH_BYTES

from ..drivers.build import built
from ..drivers.run import Driven, drive
from ..harness.child import BenchFault
from ..harness.measure import Case, CaseStream, Figures
from ..harness.servers import Servers
from ..peers import kafka_clients, mirrors
from ..peers.headrace import Headrace
from ..peers.subjects import OURS
from .mirror import DESTINATION, SHAPES, await_records, pair

VERIFY = "headrace mirror verify"
BARE = "bare fetch of both"
_MESSAGES = 4_000_000


class MirrorVerify:
    """MB/s of both logs."""

    name = "verify"
    title = "Comparing two clusters batch by batch, 200-byte messages of a C client"
    needs = frozenset({OURS, DESTINATION})
    warm_ups = 1
    at_most = 7

    @contextmanager
    def cases(self, servers: Servers) -> CaseStream:
        source, destination = pair(servers)
        folder = servers.folder / "verify"
        count = servers.scaled(_MESSAGES)
        topics = {shape: f"verify-{shape}" for shape in SHAPES}
        mirror = mirrors.mirror(folder, source, destination, "").launch()
        try:
            for shape, topic in topics.items():
                kafka_clients.make_topic(source, topic)
                kafka_clients.produce(source, topic, count, shape, 1)
                await_records(mirror, destination, topic, count)
        finally:
            mirror.kill()
        seconds = 1.0 if servers.quick else 2.0
        try:
            yield [
                case
                for shape, topic in topics.items()
                for case in (_verified(source, destination, topic, shape), _fetched(source, destination, topic, shape, seconds))
            ]
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            for server in (source, destination):
                for topic in topics.values():
                    kafka_clients.delete_topic(server, topic)


def _verified(source: Headrace, destination: Headrace, topic: str, shape: str) -> Case:
    command = [sys.executable, "-m", "headrace.cli.main", "mirror", "verify", "--json", "--topics", topic]
    command += ["--from", source.bootstrap, "--to", destination.bootstrap]

    def run(_: int) -> Figures:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise BenchFault(f"the copy is not the same: {done.stdout[-1000:]} {done.stderr[-1000:]}")
        found: dict[str, Any] = json.loads(done.stdout)
        return {"mb_per_s": 2 * found["bytes"] / 1e6 / (found["took_ms"] / 1000)}

    return Case(subject=VERIFY, shape=SHAPES[shape], run=run, how="4 MiB a fetch, CRC of every batch of both")


def _fetched(source: Headrace, destination: Headrace, topic: str, shape: str, seconds: float) -> Case:
    def one(server: Headrace) -> Driven:
        words = ["127.0.0.1", str(server.port), topic, "0", str(FETCH_BYTES), "1", str(seconds)]
        return drive([str(built("raw_fetch")), *words], lambda: server.pids)

    def run(_: int) -> Figures:
        built("raw_fetch")
        with ThreadPoolExecutor(2) as both:
            driven = list(both.map(one, (source, destination)))
        return {"mb_per_s": sum(float(each.more["mb_per_s"]) for each in driven)}

    return Case(subject=BARE, shape=SHAPES[shape], run=run, how="in C, 4 MiB a fetch, one at a time, both at once, headers only")
