"""`python -m bench.groups`: times a group of the paper's consumers, and prints one JSON object.

    settle_s      from the start of the member processes until every partition is owned and the shares are even
    takeover_s    from the `kill -9` of one process of members until every partition is owned by the others

Owners are read from ZooKeeper by an observer of its own, which looks every 50 ms. Members share a few processes. Beside the time
stands the processor time of the members, which says more where others use the machine.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.coordination.consumers import OwnerRegistry
from headrace.coordination.session import Session

from ..harness.proc_meters import cpu_s
from ..peers.headrace import Headrace
from .member import GROUP

TOPIC = "measured"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.groups", description=__doc__)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--session-ms", type=int, default=6_000)
    parser.add_argument("--most-s", type=float, default=120, help="give up after so long")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Headrace(Path(folder) / "broker")
        server.start()
        try:
            print(json.dumps(_measure(chosen, f"127.0.0.1:{server.port}", server.zookeeper_address)))
        finally:
            server.stop()


def _measure(chosen: argparse.Namespace, bootstrap: str, zookeeper: str) -> dict[str, object]:
    cluster = Cluster(bootstrap)
    create_topic(cluster, TOPIC, chosen.partitions)
    cluster.close()
    session = Session(zookeeper, name="observer", session_timeout_ms=30_000).start()
    owners = OwnerRegistry(session)
    names = [f"m{number:03d}" for number in range(chosen.members)]
    shares = [names[at :: chosen.processes] for at in range(chosen.processes)]
    words = [sys.executable, "-m", "bench.groups.member", bootstrap, zookeeper, TOPIC, str(chosen.session_ms)]
    began = time.monotonic()
    children = [subprocess.Popen([*words, *share], stdin=subprocess.PIPE) for share in shares if share]
    result: dict[str, object] = {name: getattr(chosen, name) for name in ("members", "partitions", "processes", "session_ms")}
    result["load_average"] = round(os.getloadavg()[0], 1)
    try:
        result["settle_s"] = _until(owners, set(names), chosen.partitions, began, chosen.most_s)
        result["settle_processor_s"] = round(cpu_s([child.pid for child in children]), 1)
        victim = children[-1]
        died = time.monotonic()
        victim.kill()
        victim.wait()
        rest = set(names) - set(shares[len(children) - 1])
        result["takeover_s"] = _until(owners, rest, chosen.partitions, died, chosen.most_s)
        result["died"] = len(names) - len(rest)
    finally:
        for child in children:
            child.kill()
            child.wait()
        session.close()
    return result


def _until(owners: OwnerRegistry, members: set[str], partitions: int, since: float, most_s: float) -> float | None:
    while time.monotonic() < since + most_s:
        found = Counter(owners.owners(GROUP, TOPIC).values())
        even = max(found.values(), default=0) - min((found[member] for member in members), default=0) <= 1
        if found.keys() <= members and found.total() == partitions and even:
            return round(time.monotonic() - since, 2)
        time.sleep(0.05)
    return None


if __name__ == "__main__":
    main()
