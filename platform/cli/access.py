"""`headrace access tail`: what a cluster's brokers denied, who failed to log in, and who changed something."""

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

from ..client.connection.cluster import Cluster
from ..client.fetch.fetched import TopicPartition
from ..client.fetch.log_offsets import EARLIEST, log_offsets
from ..client.fetch.read_range import read_range
from ..runtime.layout import ACCESS_TOPIC
from ..wire.batch.record_batch import iter_records
from .chosen_cluster import action, connected, options

HELP = """Show what the brokers of a cluster denied, who failed to log in, and who changed something.

exit codes: 0 done, 1 the cluster could not do it, 2 asked wrongly

example: headrace access tail --follow"""

EVERY_S = 0.5
NO_END = 1 << 62


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="tail")
    tail = action(
        actions,
        options(),
        "tail",
        "print the events",
        f"They are records of the topic {ACCESS_TOPIC}, which brokers with access rules make.",
        example="headrace access tail --follow --json",
    )
    tail.add_argument("--follow", action="store_true", help="continue with new events until Ctrl-C")


def run(arguments: argparse.Namespace) -> int:
    cluster = connected(arguments, "access")
    try:
        for event in events(cluster, follow=arguments.follow):
            print(json.dumps(event) if arguments.json else line(event), flush=arguments.follow)
    except KeyboardInterrupt:
        pass
    finally:
        cluster.close()
    return 0


def events(cluster: Cluster, *, follow: bool) -> Iterator[dict[str, Any]]:
    """Yield the events by partition in order; with `follow` for ever. Raises ClientError."""
    offsets: dict[int, int] = {}
    while True:
        for index in cluster.partitions(ACCESS_TOPIC):
            if index not in offsets:
                name = TopicPartition(ACCESS_TOPIC, index)
                offsets[index] = log_offsets(cluster, {name: EARLIEST})[name]
            for header, batch in read_range(cluster, ACCESS_TOPIC, index, offsets[index], NO_END):
                for record in iter_records(batch):
                    if record.offset >= offsets[index] and record.value is not None:
                        yield json.loads(record.value)
                offsets[index] = header.next_offset
        if not follow:
            return
        cluster.refresh()
        time.sleep(EVERY_S)


def line(event: dict[str, Any]) -> str:
    """Return an event as one line."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(event["time_ms"] / 1000))
    who = f"{event['principal']} from {event['host']}"
    match event["kind"]:
        case "left_out":
            return f"{at} left_out     {event['count']} more events of this second: too many different ones"
        case "denied":
            what = f"may not {event['operation']} {event['resource']} {event['name']} ({event['api']}): {event['reason']}"
        case "login_failed":
            what = f"failed to log in with {event['mechanism']}: {event['reason']}"
        case _:
            what = f"{event['api']} {event['name']}"
    times = f" ×{event['count']}" if event["count"] > 1 else ""
    return f"{at} {event['kind']:<12} {who}: {what}{times}"
