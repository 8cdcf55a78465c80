"""What was acknowledged, what was read, and what is wrong between the two: the classes of error of Jepsen's Kafka workload.

Values are unique, and grow for each producer and partition. Nothing here knows the broker: it sees what librdkafka reports, and
the bytes of segment files.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Position = tuple[int, int]
"""Partition and offset."""


@dataclass(slots=True)
class History:
    """Filled by the clients' threads."""

    acknowledged: dict[str, Position] = field(default_factory=dict)
    """By value. Values are `producer.partition.number`."""
    unknown: set[str] = field(default_factory=set)
    """Sent, and answered with an error or not at all."""
    read: list[tuple[int, int, str]] = field(default_factory=list)
    """Partition, offset and value, in the order in which one consumer that never goes back has read them."""
    read_again: list[tuple[int, int, str]] = field(default_factory=list)
    """The same of a consumer that begins at the start when all is over."""


def faults(history: History, *, may_double: bool = False) -> list[str]:
    """Return what is wrong, [] when nothing is. `may_double`: the producers were not idempotent."""
    found = []
    for name, rows in (("consumer", history.read), ("final consumer", history.read_again)):
        found += [f"{name}: {fault}" for fault in _of_reads(rows, may_double=may_double)]
    at: dict[Position, str] = {}
    for partition, offset, value in [*history.read, *history.read_again]:
        other = at.setdefault((partition, offset), value)
        if other != value:
            found.append(f"inconsistent-offsets: {partition}@{offset} was {other}, then {value}")
    final = {value: (partition, offset) for partition, offset, value in history.read_again}
    for value, position in history.acknowledged.items():
        if value not in final:
            found.append(f"lost-write: {value}, acknowledged at {position}")
        elif final[value] != position and not may_double:
            found.append(f"inconsistent-offsets: {value} was acknowledged at {position} and is at {final[value]}")
    seen = {value for _, _, value in history.read}
    found += [f"unseen: {value} at {position}" for value, position in history.acknowledged.items() if value not in seen]
    strangers = final.keys() - history.acknowledged.keys() - history.unknown
    found += [f"never sent: {value}" for value in sorted(strangers)]
    return found


def _of_reads(rows: Sequence[tuple[int, int, str]], *, may_double: bool) -> Iterable[str]:
    last_offset: dict[int, int] = {}
    last_number: dict[tuple[str, int], int] = defaultdict(lambda: -1)
    counts = Counter(value for _, _, value in rows)
    for partition, offset, value in rows:
        if offset <= last_offset.get(partition, -1):
            yield f"nonmonotonic-poll: {partition}@{offset} after {last_offset[partition]}"
        last_offset[partition] = offset
        producer, sent_to, number = value.split(".")
        if int(sent_to) != partition:
            yield f"inconsistent-offsets: {value} is in partition {partition}"
        key = (producer, partition)
        if int(number) <= last_number[key] and not may_double:
            yield f"nonmonotonic-send: {value} after {last_number[key]}"
        last_number[key] = max(last_number[key], int(number))
    if not may_double:
        yield from (f"duplicate: {value}, {count} times" for value, count in counts.items() if count > 1)


def log_bytes(folder: Path) -> dict[int, bytes]:
    """Return the content of a partition's segment files by their base offset."""
    return {int(path.name.partition(".")[0]): path.read_bytes() for path in sorted(folder.glob("*.log"))}


def differences(logs: Mapping[int, Mapping[int, bytes]], end_offset: int) -> list[str]:
    """Return where the logs of several brokers differ below `end_offset`: a byte of a log lies at the same offset in each."""
    whole = {broker_id: _from_start(segments, end_offset) for broker_id, segments in logs.items()}
    found = []
    (first_id, (first_start, first)), *others = whole.items()
    for broker_id, (start, data) in others:
        begin = max(start, first_start)
        one, other = first[begin - first_start :], data[begin - start :]
        if one != other:
            at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
            found.append(f"brokers {first_id} and {broker_id} differ at offset {begin + at} of {end_offset}")
    return found


def _from_start(segments: Mapping[int, bytes], end_offset: int) -> tuple[int, bytes]:
    start = min(segments)
    data = bytearray(max(0, end_offset - start))
    for base, content in segments.items():
        part = content[: max(0, end_offset - base)]
        data[base - start : base - start + len(part)] = part
    return start, bytes(data)
