"""`headrace tail TOPIC`: print the records of a topic, decoded, from a place on; with `--follow` as they come."""

import argparse
import json
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from ..apps.tail import places
from ..apps.tail.expression import ExpressionRefused, compile_expression
from ..apps.tail.places import PlaceRefused
from ..apps.tail.reading import Reading, fields_of, words_of
from ..client.connection.cluster import Cluster
from ..reader.decoding.event_decoder import EventDecoder
from ..runtime.layout import Layout
from ..runtime.lifecycle import StopSignal
from ..schema_registry.client import RegistryClient
from .errors import UsageError
from .foreground import add_schema_cache, schema_cache_of
from .topic_names import check_known

HELP = """Print a topic's records: Avro decoded with its writer's schema, anything else as text.

--where compares fields: status >= 500 and not (path startswith "/health" or user.name in ("a", "b")); also _key, _partition,
_offset, _timestamp (ms). Operators: = != < <= > >= contains startswith endswith in; and, or, not, parentheses.

example: headrace tail clicks --from latest --follow --where 'status >= 500'
example: headrace tail clicks --from 2026-11-23T08:00:00Z --json | jq .event"""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def configure(parser: argparse.ArgumentParser) -> None:
    layout = Layout.from_environment()
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--where", metavar="EXPR", help="print only the records that match")
    parser.add_argument(
        "--from",
        dest="start",
        default="earliest",
        metavar="PLACE",
        help="earliest, latest, a time (ISO 8601; without an offset UTC), or an offset (default: %(default)s)",
    )
    parser.add_argument("--follow", "-f", action="store_true", help="continue at the end, until Ctrl-C or SIGTERM")
    parser.add_argument("--partition", type=int, action="append", metavar="N", help="only these; may be repeated")
    parser.add_argument("--most", "-n", type=int, metavar="N", help="end after so many records that match")
    parser.add_argument("--json", action="store_true", help="a JSON object a line, with place, time and key")
    parser.add_argument("--bootstrap", default=layout.live_bootstrap, metavar="HOST:PORT", help="(default: %(default)s)")
    parser.add_argument("--registry", default=layout.registry_url, metavar="URL", help="(default: %(default)s)")
    add_schema_cache(parser)


def run(arguments: argparse.Namespace) -> int:
    try:
        matches = None if arguments.where is None else compile_expression(arguments.where)
    except ExpressionRefused as error:
        raise UsageError(str(error)) from error
    if arguments.most is not None and arguments.most < 1:
        raise UsageError("--most is at least 1")
    stop = StopSignal(second_ends=True).install()
    cluster = Cluster(arguments.bootstrap, client_id="headrace-tail")
    decoder = EventDecoder(RegistryClient(arguments.registry, cache_folder=schema_cache_of(arguments)))
    left = arguments.most
    try:
        starts = _starts(cluster, arguments)
        reading = Reading(cluster, arguments.topic, starts, follow=arguments.follow, tell=_tell, is_stopped=stop.is_set)
        for partition, record in reading.records():
            words = words_of(arguments.topic, partition, record, decoder)
            if matches is not None and not matches(fields_of(words)):
                continue
            _print(words, as_json=arguments.json, at_once=arguments.follow)
            if left is not None:
                left -= 1
                if not left:
                    break
        sys.stdout.flush()
    except BrokenPipeError:
        _leave_the_pipe()
    finally:
        cluster.close()
    return 0


def _starts(cluster: Cluster, arguments: argparse.Namespace) -> dict[int, int]:
    """Return where each partition is read from."""
    check_known(arguments.topic, cluster.topics(), f"at {arguments.bootstrap}")
    partitions = list(cluster.partitions(arguments.topic))
    chosen = sorted(set(arguments.partition or partitions))
    if absent := [one for one in chosen if one not in partitions]:
        raise UsageError(f"--partition {absent[0]}: {arguments.topic} has the partitions {min(partitions)} to {max(partitions)}")
    try:
        return places.starts(cluster, arguments.topic, chosen, arguments.start)
    except PlaceRefused as error:
        raise UsageError(f"--from {error}") from error


def _print(words: dict[str, Any], *, as_json: bool, at_once: bool) -> None:
    if as_json:
        line = json.dumps(words, ensure_ascii=False)
    else:
        at = (_EPOCH + timedelta(milliseconds=words["timestamp_ms"])).isoformat(timespec="milliseconds")
        key = "" if words["key"] is None else f" {words['key']}"
        shown = json.dumps(words["event"], ensure_ascii=False) if "event" in words else words["value"]
        line = f"{words['partition']}:{words['offset']} {at}{key} {shown}"
    print(line, flush=at_once)


def _tell(what: str) -> None:
    print(f"headrace tail: {what}", file=sys.stderr)


def _leave_the_pipe() -> None:
    """Nobody reads on: end without a word. Python would complain when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
