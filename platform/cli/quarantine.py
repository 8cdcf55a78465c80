"""`headrace quarantine list`: the records that could not be used, with reason and origin."""

import argparse
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from ..client.connection.cluster import Cluster
from ..client.quarantined_records import Unreadable, read_quarantine
from ..runtime.layout import QUARANTINE_SUFFIX, Layout
from ..wire.quarantine_record import FileOrigin, LogOrigin, ProcessOrigin, QuarantineRecord
from .topic_names import check_known

HELP = """List the records that could not be used: reason, origin, time and the beginning of each payload.

example: headrace quarantine list --topic access_log --json"""

PAYLOAD_HEAD_BYTES = 120


def configure(parser: argparse.ArgumentParser) -> None:
    bootstrap = Layout.from_environment().live_bootstrap
    actions = parser.add_subparsers(dest="action", required=True, metavar="list")
    listing = actions.add_parser("list", help="print every quarantined record once")
    listing.add_argument("--topic", help="only records meant for this topic (default: all)")
    listing.add_argument("--json", action="store_true", help="print a JSON array, payloads whole")
    listing.add_argument("--bootstrap", default=bootstrap, help="the live cluster (default %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    unreadable: list[Unreadable] = []
    unreadable_count = 0

    def note(one: Unreadable) -> None:
        nonlocal unreadable_count
        unreadable_count += 1
        if len(unreadable) < 10:
            unreadable.append(one)

    cluster = Cluster(arguments.bootstrap, client_id="headrace-quarantine")
    try:
        if arguments.topic is not None:
            _check_known(cluster, arguments.topic)
        found = read_quarantine(cluster, arguments.topic, on_unreadable=note)
        count = _print_json(found) if arguments.json else _print_table(found)
    finally:
        cluster.close()
    if not arguments.json and not count:
        of = "" if arguments.topic is None else f" of {arguments.topic!r}"
        print(f"nothing{of} is quarantined", file=sys.stderr)
    for one in unreadable:
        print(f"not shown: {one.topic}-{one.partition} offset {one.offset}: {one.reason}", file=sys.stderr)
    if unreadable_count > len(unreadable):
        print(f"not shown: {unreadable_count - len(unreadable)} more", file=sys.stderr)
    return 1 if unreadable_count else 0


def _check_known(cluster: Cluster, topic: str) -> None:
    """Return if the topic exists, or if its quarantine topic does. Raises UsageError."""
    there = cluster.topics()
    # All events for a topic may have gone to quarantine. Then the topic does not exist, and yet it is known.
    meant = [name.removesuffix(QUARANTINE_SUFFIX) for name in there]
    check_known(topic, meant, f"on {cluster.bootstrap}, and nothing was quarantined for one")


def _print_json(found: Iterator[QuarantineRecord]) -> int:
    """Print the array element by element, so that a large one needs no memory; return its length."""
    count = 0
    sys.stdout.write("[")
    for record in found:
        sys.stdout.write(",\n" if count else "\n")
        sys.stdout.write(record.to_json().decode())
        count += 1
    sys.stdout.write("\n]\n" if count else "]\n")
    return count


def _print_table(found: Iterator[QuarantineRecord]) -> int:
    count = 0
    for record in found:
        at = datetime.fromtimestamp(record.at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        window = datetime.fromtimestamp(record.window_start_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%MZ")
        print(f"{at}  {record.topic}  {record.code}  {origin_words(record)}")
        print(f"    why      {record.reason}")
        print(f"    window   {window} (from the {record.window_from})")
        print(f"    payload  {payload_head(record.payload)}")
        count += 1
    return count


def origin_words(record: QuarantineRecord) -> str:
    """Return the record's origin as text."""
    match record.origin:
        case FileOrigin(file=file, line=None, offset=offset):
            return f"{file} byte {offset}"
        case FileOrigin(file=file, line=line):
            return f"{file}:{line}"
        case LogOrigin(cluster=cluster, topic=topic, partition=partition, offset=offset, to_offset=None):
            return f"{cluster} {topic}-{partition} offset {offset}"
        case LogOrigin(cluster=cluster, topic=topic, partition=partition, offset=offset, to_offset=to_offset):
            return f"{cluster} {topic}-{partition} offsets {offset} to {to_offset}"
        case ProcessOrigin(instance=instance, sequence=sequence):
            return f"{instance} event {sequence}"


def payload_head(payload: bytes) -> str:
    """Return the beginning of the payload as printable text."""
    text = payload[:PAYLOAD_HEAD_BYTES].decode("utf-8", errors="backslashreplace")
    text = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
    return f"{text} … ({len(payload)} bytes)" if len(payload) > PAYLOAD_HEAD_BYTES else text
