"""`python -m bench.groups`: times a group of the paper's consumers, and prints one JSON object.

    settle_s      from the start of the member processes until every partition is owned and the shares are even
    takeover_s    from the `kill -9` of one process of members until every partition is owned by the others

Owners are read from ZooKeeper by an observer of its own, which looks every 50 ms. Members share a few processes. Beside the time
stand the processor time of the members and the packets that ZooKeeper received, which say more where others use the machine.

All the while records are written. Members note each hand-out in a journal, and afterwards it is read:

    owned_twice   hand-outs of a partition by somebody whom another reader had followed
    out_of_order  hand-outs of one reader's turn whose offsets do not rise
    skipped       records that nobody got

Each must be 0; else, or if the group took longer than it may, the exit code is 1.
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
from headrace.coordination import paths
from headrace.coordination.consumers import OwnerRegistry
from headrace.coordination.node import Listing
from headrace.coordination.session import Session
from tests.support.hand_outs import Journal, out_of_order, owned_twice

from ..harness.proc_meters import cpu_s
from ..peers.headrace import Headrace
from .member import GROUP
from .numbered_records import NumberedRecords
from .packets import packets_received

TOPIC = "measured"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.groups", description=__doc__)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--session-ms", type=int, default=6_000)
    parser.add_argument("--records-per-s", type=int, default=100)
    parser.add_argument("--most-s", type=float, default=120, help="give up after so long")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Headrace(Path(folder) / "broker")
        server.start()
        try:
            result = _measure(chosen, f"127.0.0.1:{server.port}", server.zookeeper_address, Path(folder) / "journal")
        finally:
            server.stop()
    print(json.dumps(result))
    wrong = [result[name] for name in ("owned_twice", "out_of_order", "skipped")]
    return 1 if any(wrong) or None in (result["settle_s"], result["takeover_s"]) else 0


def _measure(chosen: argparse.Namespace, bootstrap: str, zookeeper: str, journal: Path) -> dict[str, object]:
    cluster = Cluster(bootstrap)
    create_topic(cluster, TOPIC, chosen.partitions)
    cluster.close()
    session = Session(zookeeper, name="observer", session_timeout_ms=30_000).start()
    names = [f"m{number:03d}" for number in range(chosen.members)]
    shares = [names[at :: chosen.processes] for at in range(chosen.processes)]
    words = [sys.executable, "-m", "bench.groups.member", bootstrap, zookeeper, TOPIC, str(chosen.session_ms), str(journal)]
    result: dict[str, object] = {name: getattr(chosen, name) for name in ("members", "partitions", "processes", "session_ms")}
    result["load_average"] = round(os.getloadavg()[0], 1)
    packets = packets_received(zookeeper)
    records = NumberedRecords(bootstrap, TOPIC, chosen.partitions, per_s=chosen.records_per_s)
    began = time.monotonic()
    children = [subprocess.Popen([*words, *share], stdin=subprocess.PIPE) for share in shares if share]
    try:
        with records:
            result["settle_s"] = _until(session, set(names), chosen.partitions, began, chosen.most_s)
            result["settle_processor_s"] = round(cpu_s([child.pid for child in children]), 1)
            result["settle_packets"] = packets_received(zookeeper) - packets
            victim = children[-1]
            packets, used = packets_received(zookeeper), cpu_s([child.pid for child in children[:-1]])
            died = time.monotonic()
            victim.kill()
            victim.wait()
            rest = set(names) - set(shares[len(children) - 1])
            result["takeover_s"] = _until(session, rest, chosen.partitions, died, chosen.most_s)
            result["takeover_processor_s"] = round(cpu_s([child.pid for child in children[:-1]]) - used, 1)
            result["takeover_packets"] = packets_received(zookeeper) - packets
            result["died"] = len(names) - len(rest)
        result.update(_read(Journal(journal), records.written, chosen.most_s))
    finally:
        for child in children:
            child.kill()
            child.wait()
        session.close()
    return result


def _until(session: Session, members: set[str], partitions: int, since: float, most_s: float) -> float | None:
    owners, seen = OwnerRegistry(session), Listing(names=frozenset())
    while time.monotonic() < since + most_s:
        # Claims are read when all are there and have changed: a thousand reads each time would take the members' processor.
        listing = session.tree.listing(paths.owners(GROUP, TOPIC))
        if len(listing.names) == partitions and listing != seen:
            seen, found = listing, Counter(owners.owners(GROUP, TOPIC).values())
            even = max(found.values(), default=0) - min((found[member] for member in members), default=0) <= 1
            if found.keys() <= members and found.total() == partitions and even:
                return round(time.monotonic() - since, 2)
        time.sleep(0.05)
    return None


def _read(journal: Journal, written: set[str], most_s: float) -> dict[str, object]:
    """Return what the journal tells once everything written was handed out, or after `most_s`."""
    deadline = time.monotonic() + most_s
    while True:
        lines = journal.read()
        skipped = written - {line.value for line in lines}
        if not skipped or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    return {
        "records": len(written),
        "handed_out": len(lines),
        "skipped": len(skipped),
        "owned_twice": len(owned_twice(lines)),
        "out_of_order": len(out_of_order(lines)),
    }


if __name__ == "__main__":
    sys.exit(main())
