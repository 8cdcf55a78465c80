"""`headrace partition`: `reassign` moves partitions to other brokers, `recover` lets those continue that no replica may lead."""

import argparse
import json
import sys
import time
from pathlib import Path

from ..client import reassignment, recovery, topic_admin
from ..client.connection.cluster import Cluster
from ..client.reassignment import Brokers, Partition
from ..wire.messages import describe_recovery
from ..wire.messages.describe_recovery import Response
from .chosen_cluster import action, connected, options
from .errors import UsageError

HELP = """Move partitions to other brokers, or give them more or fewer replicas. For any Kafka-wire cluster.
Or recover partitions none of whose in-sync replicas has its data, or whose state ZooKeeper has lost, at brokers of this platform.

exit codes: 0 every partition is where it should be, or the recovery is done or can be done;
            1 a move or a recovery was refused, is not due, or is still under way; with --all, records may be lost

example: headrace partition reassign --topic clicks --to 2,3,4"""

LOOK_EVERY_MS = 500


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="reassign|recover")
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
    one = action(
        actions,
        options(),
        "recover",
        "let a partition continue that no replica may lead",
        "For a partition none of whose in-sync replicas has what it had acknowledged, because disks or power were lost, and for\n"
        "partitions whose state ZooKeeper has lost. Without --execute it only shows what each replica would give up.\n"
        "With --all: every such partition. Those whose acknowledged records may be lost are only shown.",
        example="headrace partition recover clicks 0",
    )
    one.add_argument("topic", metavar="TOPIC", nargs="?")
    one.add_argument("partition", metavar="PARTITION", type=int, nargs="?")
    one.add_argument("--all", action="store_true", help="every partition that no replica may lead")
    which = one.add_mutually_exclusive_group()
    which.add_argument("--execute", action="store_true", help="do it: what is shown is given up permanently")
    which.add_argument("--dry-run", action="store_true", help="only show what would be given up (the default)")


def run(arguments: argparse.Namespace) -> int:
    return _recover(arguments) if arguments.action == "recover" else _reassign(arguments)


def _recover(arguments: argparse.Namespace) -> int:
    topic, index = arguments.topic, arguments.partition
    if arguments.all != (topic is None) or (topic is None) != (index is None):
        raise UsageError("name a TOPIC and a PARTITION, or --all")
    if arguments.all:
        return _recover_all(arguments)
    cluster = connected(arguments, "partition")
    try:
        found = recovery.describe(cluster, topic, index)
        is_due = not found.error_code
        if is_due and arguments.execute:
            recovery.recover(cluster, topic, index)
    finally:
        cluster.close()
    if arguments.json:
        words = {"topic": topic, "partition": index, **describe_recovery.fields(found), "is_done": is_due and arguments.execute}
        print(json.dumps(words))
    else:
        for one in found.replicas:
            holds = f"holds offsets {one.log_start_offset} to {one.end_offset}, last leader epoch {one.leader_epoch}"
            ranges = ", ".join(f"{begin} to {end}" for begin, end in one.lost)
            print(f"broker {one.broker_id}: {holds}" + (f"; would give up {ranges}" if is_due else ""))
        for broker_id, why in found.silent.items():
            print(f"broker {broker_id}: {why}")
        if is_due:
            verb = "leads" if arguments.execute else "would lead"
            print(f"broker {found.chosen} {verb} {topic}-{index}; the next batch begins at offset {found.start_offset}")
            print(_what_is_lost(found))
    if not is_due:
        print(f"headrace partition: no recovery of {topic}-{index}: {found.why}", file=sys.stderr)
    return 0 if is_due else 1


def _what_is_lost(found: Response) -> str:
    if found.doubt is None:
        return "every acknowledged record is there: 0 records are lost"
    return f"acknowledged records may be lost: {found.doubt}"


def _recover_all(arguments: argparse.Namespace) -> int:
    """Show every partition that no replica may lead, and with --execute recover those that lose nothing."""
    cluster = connected(arguments, "partition")
    try:
        found = recovery.describe_all(cluster)
        whole = [one for one, answer in found.items() if not answer.error_code and answer.doubt is None]
        outcomes = recovery.recover_without_loss(cluster, whole) if arguments.execute else dict.fromkeys(whole)
    finally:
        cluster.close()
    rows = []
    for (topic, index), answer in found.items():
        refusal = outcomes.get((topic, index))
        why = str(refusal) if refusal is not None else answer.why if answer.error_code else answer.doubt
        is_done = arguments.execute and (topic, index) in outcomes and refusal is None
        rows.append({"topic": topic, "partition": index, "chosen": answer.chosen, "is_done": is_done, "why_not": why})
    if arguments.json:
        print(json.dumps(rows))
    else:
        for row in rows:
            verb = "leads" if row["is_done"] else "would lead"
            outcome = row["why_not"] or f"broker {row['chosen']} {verb}, 0 records are lost"
            print(f"{row['topic']}-{row['partition']}: {outcome}")
        count = sum(row["why_not"] is None for row in rows)
        what = "are led again" if arguments.execute else "lose no record"
        print(f"{count} of {len(rows)} partitions that no replica may lead {what}")
    left = [row for row in rows if row["why_not"] is not None]
    if left:
        print(
            f"headrace partition: {len(left)} need a decision each: headrace partition recover TOPIC PARTITION", file=sys.stderr
        )
    return 1 if left else 0


def _reassign(arguments: argparse.Namespace) -> int:
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
