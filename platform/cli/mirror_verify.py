"""`headrace mirror verify`: compare two clusters batch by batch and print the ranges that differ."""

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from ..client.security import chosen
from .mirror_names import add_clients, add_naming, add_topics, naming_of

if TYPE_CHECKING:
    from ..mirror.verify.findings import Finding
    from ..mirror.verify.verification import Report

    Actions = argparse._SubParsersAction[argparse.ArgumentParser]

MOST_SHOWN = 100


def configure(actions: "Actions") -> None:
    """Add the subcommand."""
    verify = actions.add_parser(
        "verify",
        help="compare two clusters batch by batch",
        description="Compare a copy with its source batch by batch, by CRC, and print the ranges that differ.\n"
        "Between Headrace clusters the same offsets must hold the same bytes. With Apache Kafka at an end the mirror's ledger\n"
        "(--name) says where each batch is. A mirror may run at the same time.\n"
        "Exit: 0 the same, 1 different or not comparable, 2 wrong usage.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: headrace mirror verify --from live:9092 --to offline:9192 --topics 'clicks,orders_.*'",
    )
    verify.add_argument("--from", dest="source", required=True, metavar="HOST:PORT", help="the source")
    verify.add_argument("--to", dest="destination", required=True, metavar="HOST:PORT", help="the copy")
    verify.add_argument("--name", default="mirror", help="the mirror's name, with Apache Kafka at an end (default: %(default)s)")
    add_topics(verify)
    add_naming(verify)
    add_clients(verify)
    verify.add_argument(
        "--settle-ms",
        type=int,
        default=10_000,
        metavar="MS",
        help="wait this long for a running mirror to copy what the source held at the start (default: %(default)s)",
    )
    verify.add_argument("--json", action="store_true", help="print a JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Compare, print, and return 0 if nothing differs."""
    from ..client.connection.cluster import Cluster
    from ..mirror.verify.verification import Settings, Verification

    for bootstrap, file in ((arguments.source, arguments.from_config), (arguments.destination, arguments.to_config)):
        if file is not None:
            chosen.give(bootstrap, file)
    naming = naming_of(arguments)
    source = Cluster(arguments.source, client_id="headrace-verify")
    destination = Cluster(arguments.destination, client_id="headrace-verify")
    bar = _Progress()
    settings = Settings(
        is_wanted=naming.is_wanted,
        destination_name=naming.destination_name,
        mirror=arguments.name,
        settle_ms=arguments.settle_ms,
    )
    try:
        report = Verification(source, destination, settings, bar).run()
    finally:
        bar.clear()
        source.close()
        destination.close()
    if arguments.json:
        print(json.dumps(as_json(report), indent=2))
    else:
        _print(report)
    return 0 if report.findings.are_same else 1


def as_json(report: "Report") -> dict[str, Any]:
    """Return the report as JSON values."""
    findings = report.findings
    return {
        "same": findings.are_same,
        "mode": report.mode.value,
        "partitions": report.partitions,
        "batches": findings.batches,
        "bytes": findings.bytes,
        "took_ms": report.took_ms,
        "ranges": {kind.value: count for kind, count in findings.ranges.items()},
        "differences": [_words(one) for one in findings.kept if one.kind.is_difference],
        "not_compared": [_words(one) for one in findings.kept if not one.kind.is_difference],
        "ranges_left_out": sum(findings.ranges.values()) - len(findings.kept),
        "topics_only_in_destination": report.only_in_destination,
    }


def _words(one: "Finding") -> dict[str, Any]:
    words: dict[str, Any] = {"kind": one.kind.value, "topic": one.topic, "partition": one.partition, "batches": one.batches}
    for side in ("source", "destination"):
        offsets = getattr(one, side)
        words[side] = None if offsets is None else {"from_offset": offsets[0], "to_offset": offsets[1]}
    return words


def _print(report: "Report") -> None:
    findings = report.findings
    for one in findings.kept[:MOST_SHOWN]:
        print(_line(one))
    left_out = sum(findings.ranges.values()) - min(MOST_SHOWN, len(findings.kept))
    if left_out:
        print(f"… and {left_out} more ranges (--json prints the first {findings.most})")
    if report.only_in_destination:
        print(f"not compared: topics that only the destination has: {', '.join(report.only_in_destination)}")
    differences = {kind.value: count for kind, count in findings.ranges.items() if kind.is_difference}
    verdict = "the same" if not differences else ", ".join(f"{count} × {kind}" for kind, count in differences.items())
    print(
        f"{verdict}: {findings.batches:,} batches, {findings.bytes / 1e6:,.1f} MB in {report.partitions} partitions, "
        f"{report.took_ms / 1000:.1f} s ({report.mode.value})"
    )


def _line(one: "Finding") -> str:
    where = f"{one.topic}-{one.partition}"
    if one.source == one.destination and one.source is not None:
        offsets = f"offsets {one.source[0]} to {one.source[1]}"
    else:
        sides = (("source", one.source), ("destination", one.destination))
        offsets = ", ".join(f"{side} offsets {some[0]} to {some[1]}" for side, some in sides if some is not None)
    batches = f", {one.batches} batch{'es' if one.batches != 1 else ''}" if one.batches else ""
    return f"{one.kind.value}: {where}, {offsets}{batches}"


class _Progress:
    """Shows how much is compared: a bar on a terminal, a line every few seconds elsewhere, nothing if it is quick."""

    FIRST_AFTER_S = 2.0

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._every_s = 0.2 if self._is_terminal else 5.0
        self._next = time.monotonic() + self.FIRST_AFTER_S
        self._is_shown = False

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every_s
        share = min(1.0, done / max(1, total))
        if self._is_terminal:
            self._is_shown = True
            bar = "#" * int(30 * share) + "-" * (30 - int(30 * share))
            print(f"\r[{bar}] {share:4.0%}", end="", file=sys.stderr, flush=True)
        else:
            print(f"{share:.0%} compared", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Clear the bar's line for other output."""
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._is_shown = False
