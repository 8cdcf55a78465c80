"""The options of `headrace group reset`, under the names of Kafka's `kafka-consumer-groups --reset-offsets`."""

import argparse
import csv
import io
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from ..client.connection.cluster import Cluster
from ..client.fetch.fetched import TopicPartition
from ..client.fetch.log_offsets import EARLIEST, LATEST
from ..client.groups.reset_targets import Reset
from .errors import UsageError
from .topic_names import check_known

LARGEST_FILE_BYTES = 16 << 20


def add_options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--topic", action="append", default=[], metavar="T[:0,1]", help="a topic, or some partitions; repeatable")
    what.add_argument("--all-topics", action="store_true", help="every partition that the group has committed (default)")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--to-earliest", action="store_true", help="the log's first record")
    how.add_argument("--to-latest", action="store_true", help="the log's end")
    how.add_argument("--to-datetime", metavar="TIME", help="the first record at or after it: 2026-11-23T08:00:00[+01:00]")
    how.add_argument("--shift-by", type=int, metavar="N", help="N records forward, or back (negative)")
    how.add_argument("--to-offset", type=int, metavar="N", help="the first record at or after this offset")
    how.add_argument("--from-file", type=Path, metavar="CSV", help="topic,partition,offset in each line, as --export prints")
    act = parser.add_mutually_exclusive_group()
    act.add_argument("--execute", action="store_true", help="move the offsets")
    act.add_argument("--dry-run", action="store_true", help="only show them (default)")
    parser.add_argument("--export", action="store_true", help="print topic,partition,offset as CSV")


def chosen(arguments: argparse.Namespace) -> Reset:
    """Return the way that was chosen. Raises UsageError."""
    if arguments.to_earliest or arguments.to_latest:
        return Reset(to_time=EARLIEST if arguments.to_earliest else LATEST)
    if arguments.to_datetime is not None:
        return Reset(to_time=time_ms(arguments.to_datetime))
    if arguments.shift_by is not None:
        return Reset(shift_by=arguments.shift_by)
    if arguments.to_offset is not None:
        if arguments.to_offset < 0:
            raise UsageError(f"--to-offset {arguments.to_offset}: offsets count from 0")
        return Reset(to_offset=arguments.to_offset)
    return Reset(each=read_offsets(arguments.from_file))


def time_ms(text: str) -> int:
    """Return an ISO 8601 time as ms since the epoch; without a zone it is this machine's. Raises UsageError."""
    try:
        return max(0, int(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"--to-datetime {text!r}: {error}: give a time such as 2026-11-23T08:00:00") from None


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """Return the offsets of a file that `export` wrote. Raises UsageError with the line that cannot be read."""
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise UsageError(f"{path}: more than {LARGEST_FILE_BYTES} bytes")
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    found: dict[TopicPartition, int] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row:
            continue
        match [cell.strip() for cell in row]:
            case [topic, partition, offset] if topic and partition.isdecimal() and offset.isdecimal():
                name = TopicPartition(topic, int(partition))
            case _:
                raise UsageError(f"{path}, line {number}: {','.join(row)!r}: topic,partition,offset is expected")
        if name in found:
            raise UsageError(f"{path}, line {number}: {topic}-{partition} is there twice")
        found[name] = int(offset)
    if not found:
        raise UsageError(f"{path} names no partition: topic,partition,offset in each line is expected")
    return found


def export(offsets: Mapping[TopicPartition, int]) -> str:
    """Return the offsets as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([*name, at] for name, at in sorted(offsets.items()))
    return text.getvalue()


def scope(
    cluster: Cluster, arguments: argparse.Namespace, committed: Mapping[TopicPartition, int], reset: Reset
) -> set[TopicPartition]:
    """Return the partitions to move. Raises UsageError for those that are not there."""
    named = {TopicPartition(*name) for word in arguments.topic for name in _partitions(cluster, word)}
    existing = set(cluster.topics())
    if reset.each is not None:
        for name in reset.each:
            check_known(name.topic, existing, f"on {cluster.bootstrap}")
            if name.partition not in cluster.partitions(name.topic):
                raise UsageError(f"topic {name.topic!r} has no partition {name.partition}")
        return set(reset.each) & named if named else set(reset.each)
    if named:
        return named
    return {name for name in committed if name.topic in existing and name.partition in cluster.partitions(name.topic)}


def _partitions(cluster: Cluster, word: str) -> list[tuple[str, int]]:
    topic, colon, numbers = word.partition(":")
    check_known(topic, cluster.topics(), f"on {cluster.bootstrap}")
    there = cluster.partitions(topic)
    if not colon:
        return [(topic, partition) for partition in there]
    wanted = [one.strip() for one in numbers.split(",")]
    wrong = [one for one in wanted if not one.isdecimal() or int(one) not in there]
    if wrong:
        raise UsageError(f"--topic {word}: topic {topic!r} has no partition {', '.join(wrong)}: it has 0 to {len(there) - 1}")
    return [(topic, int(one)) for one in wanted]
