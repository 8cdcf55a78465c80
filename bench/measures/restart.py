"""After `kill -9` under load, with 10 GB of log in batches of 50: seconds from the launch to the first accepted message."""

import shutil
import subprocess
import time
from contextlib import contextmanager

from ..drivers.build import built
from ..harness.child import BenchFault
from ..harness.measure import Case, CaseStream, Figures
from ..harness.servers import Servers
from ..peers import kafka_clients
from ..peers.headrace import Headrace
from ..peers.kafka import Kafka
from .first_produce import seconds_until_accepted

_BYTES = 10_000_000_000
_BATCH_BYTES = 10_511
"""50 messages of 200 bytes: 61 bytes of header and 209 a message."""


class Restart:
    """Seconds."""

    name = "restart"
    title = "Restart after kill -9 with 10 GB of log"
    needs: frozenset[str] = frozenset()
    warm_ups = 0
    at_most = 3

    @contextmanager
    def cases(self, servers: Servers) -> CaseStream:
        wanted = servers.scaled(_BYTES)
        if shutil.disk_usage(servers.folder).free < 3 * wanted:
            servers.skip("restart", f"less than {3 * wanted / 1e9:.0f} GB free where the bench keeps its logs")
            yield []
            return
        found: list[Case] = []
        for server in (Headrace(servers.folder / "restart-ours"), Kafka(servers.folder / "restart-kafka")):
            if servers.try_start(f"{server.name}, restart", server):
                kafka_clients.make_topic(server, "long")
                count = wanted // _BATCH_BYTES * 50
                kafka_clients.raw_produce(server, "long", batch=50, count=count, in_flight=50, connections=4)
                found.append(_case(server, wanted))
        yield found
        servers.keep_only(set())


def _case(server: Headrace | Kafka, wanted: int) -> Case:
    def run(_: int) -> Figures:
        words = ["127.0.0.1", str(server.port), "long", "0", "50", "200", "200", "60s", "1", "7"]
        load = subprocess.Popen([str(built("raw_produce")), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        if load.poll() is not None:
            raise BenchFault(f"{server.name} was not under load when it should have been killed")
        server.broker.kill()
        load.wait(timeout=30)
        took = seconds_until_accepted(server, "long")
        found = kafka_clients.on_disk(server, "long")
        if found.bytes < wanted * 0.99:
            raise BenchFault(f"{server.name} kept {found.bytes} of {wanted} bytes over kill -9")
        return {"seconds": took, "log_gb": found.bytes / 1e9}

    return Case(
        subject=server.name, shape=f"{wanted / 1e9:.0f} GB", run=run, how="one partition, segments of 1 GiB, killed under load"
    )
