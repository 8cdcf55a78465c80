"""`headrace partition reassign`: moves partitions to other brokers, and waits until they are there."""

import argparse
import json
import sys
import time
from pathlib import Path

from ..client import reassignment, topic_admin
from ..client.connection.cluster import Cluster
from ..client.reassignment import Brokers, Partition
from .chosen_cluster import action, connected, options
from .errors import UsageError

HELP = """Move partitions to other brokers, or give them more or fewer replicas. For any Kafka-wire cluster.

exit codes: 0 every partition is where it should be, 1 a move was refused or is still under way

example: headrace partition reassign --topic clicks --to 2,3,4"""

LOOK_EVERY_MS = 500


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="reassign")
    one = action(
        actions,
        options(),
        "reassign",
        "move partitions to other brokers",
        "The move continues in the cluster when this command is ended. The same command again waits for it.",
        example="headrace partition reassign --file moves.json",
    )
    what = one.add_mutually_exclusive_group(required=True)
    what.add_argument("--file", type=Path, metavar="FILE", help="moves as JSON, in the format of kafka-reassign-partitions")
    what.add_argument("--topic", help="all partitions of a topic, to the brokers of --to")
    one.add_argument("--to", metavar="ID[,…]", help="the brokers; preferred leaders are spread over them")
    one.add_argument("--dry-run", action="store_true", help="show the moves and ask for none")
    one.add_argument("--wait-ms", type=int, default=600_000, help="wait so long at most, 0: do not wait (default: 600000)")


def run(arguments: argparse.Namespace) -> int:
    if (arguments.topic is None) != (arguments.to is None):
        raise UsageError("--topic and --to belong together")
    cluster = connected(arguments, "partition")
    try:
        wanted = reassignment.read_file(arguments.file) if arguments.file else _spread(cluster, arguments.topic, arguments.to)
        places = _places(cluster, wanted)
        under_way = reassignment.moving(cluster)
        todo = {one: brokers for one, brokers in wanted.items() if places.get(one) != brokers or one in under_way}
        if arguments.dry_run:
            return _show(arguments, {one: (places.get(one, ()), brokers) for one, brokers in todo.items()})
        outcomes = reassignment.reassign(cluster, todo)
        refused = {one: str(error) for one, error in outcomes.items() if error is not None}
        left = _await(cluster, {one: brokers for one, brokers in todo.items() if one not in refused}, arguments)
    finally:
        cluster.close()
    if arguments.json:
        rows = [
            {"topic": topic, "partition": index, "replicas": list(brokers), "error": refused.get((topic, index)),
             "is_moving": (topic, index) in left}
            for (topic, index), brokers in wanted.items()
        ]  # fmt: skip
        print(json.dumps(rows))
    else:
        print(f"{len(wanted) - len(refused) - len(left)} of {len(wanted)} partitions are where they should be")
    for why in refused.values():
        print(f"headrace partition: {why}", file=sys.stderr)
    if left:
        print(f"headrace partition: {len(left)} partitions still move: the same command waits for them", file=sys.stderr)
    return 1 if refused or left else 0


def spread(indices: list[int], brokers: Brokers) -> dict[int, Brokers]:
    """Return the brokers of each partition: all of them, each partition with another first one. Pure."""
    return {index: (*brokers[at % len(brokers) :], *brokers[: at % len(brokers)]) for at, index in enumerate(sorted(indices))}


def _spread(cluster: Cluster, topic: str, words: str) -> dict[Partition, Brokers]:
    try:
        brokers = tuple(int(word) for word in words.split(","))
    except ValueError:
        raise UsageError(f"--to {words!r} is no list of broker ids: write 2,3,4") from None
    (described,) = topic_admin.describe_topics(cluster, [topic])
    return {(topic, index): ids for index, ids in spread([one.partition for one in described.partitions], brokers).items()}


def _places(cluster: Cluster, wanted: dict[Partition, Brokers]) -> dict[Partition, Brokers]:
    described = topic_admin.describe_topics(cluster, sorted({topic for topic, _ in wanted}))
    return {(topic.name, one.partition): tuple(one.replicas) for topic in described for one in topic.partitions}


def _await(cluster: Cluster, todo: dict[Partition, Brokers], arguments: argparse.Namespace) -> set[Partition]:
    """Wait until these partitions have moved, and return those that have not."""
    deadline = time.monotonic() + arguments.wait_ms / 1000
    while todo:
        under_way, places = reassignment.moving(cluster), _places(cluster, todo)
        left = {one for one, brokers in todo.items() if one in under_way or places.get(one) != brokers}
        if sys.stderr.isatty():
            print(f"\r{len(todo) - len(left)} of {len(todo)} moved", end="" if left else "\n", file=sys.stderr, flush=True)
        if not left or time.monotonic() >= deadline:
            return left
        time.sleep(LOOK_EVERY_MS / 1000)
    return set()


def _show(arguments: argparse.Namespace, moves: dict[Partition, tuple[Brokers, Brokers]]) -> int:
    if arguments.json:
        rows = [
            {"topic": topic, "partition": index, "from": list(before), "to": list(after)}
            for (topic, index), (before, after) in moves.items()
        ]
        print(json.dumps(rows))
    else:
        for (topic, index), (before, after) in moves.items():
            print(f"{topic}-{index}: from {list(before)} to {list(after)}")
        print(f"{len(moves)} partitions would move")
    return 0
