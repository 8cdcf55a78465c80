"""Requests per minute of one partition, kept in `<home>/request-rate/<topic>-<partition>.json`.

    {"v": 1, "topic": "access_log", "partition": 0, "offset": 81920, "minutes": {"1431857100000": 17, ...}}

`minutes` counts every record below `offset`, by event time. One rename writes both, so they always agree. The next owner of the
partition continues exactly there: records below `offset` are counted already. Knows no broker and no ZooKeeper.
"""

import fcntl
import heapq
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import HeadraceError
from ...runtime.whole_file import replace_file

MINUTE_MS = 60_000
MOST_MINUTES = 10_080
"""A week of minutes: the latest ones stay."""


class StateError(HeadraceError):
    """A state file cannot be read or written."""


class Overtaken(StateError):
    """The file is further than the state to be written: another process owns the partition now. Nothing was written."""

    def __init__(self, path: Path, held: int, written: int) -> None:
        self.path, self.held, self.written = path, held, written
        super().__init__(
            f"{path} is at offset {held}, not written with {written}: another process has taken over the partition, "
            "and counts the later records"
        )


class MinuteCounts:
    """Minute start (ms) → records; at most `most` minutes, the latest."""

    def __init__(self, counts: Mapping[int, int] | None = None, *, most: int = MOST_MINUTES) -> None:
        self._counts = dict(counts or {})
        self._order = list(self._counts)
        heapq.heapify(self._order)
        self._most = most
        self._trim()

    def add(self, timestamp_ms: int) -> None:
        """Count one record of this event time. Hot: once per record."""
        minute = timestamp_ms - timestamp_ms % MINUTE_MS
        if minute in self._counts:
            self._counts[minute] += 1
            return
        self._counts[minute] = 1
        heapq.heappush(self._order, minute)
        self._trim()

    def as_dict(self) -> dict[int, int]:
        """Return the counts, sorted by minute."""
        return dict(sorted(self._counts.items()))

    def _trim(self) -> None:
        while len(self._order) > self._most:
            del self._counts[heapq.heappop(self._order)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """The content of one state file."""

    topic: str
    partition: int
    offset: int
    minutes: Mapping[int, int]


class StateFolder:
    """The state files in one folder. Several processes may share it; each writes only partitions it owns."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, topic: str, partition: int) -> Path:
        return self._folder / f"{topic}-{partition}.json"

    def load(self, topic: str, partition: int) -> PartitionState | None:
        """Return the partition's state, or None if there is none. Raises StateError for a file that cannot be read."""
        path = self.path(topic, partition)
        try:
            return _parse(path, path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateError(f"{path} cannot be read: {error}") from error

    def save(self, state: PartitionState) -> None:
        """Replace the partition's file. Raises Overtaken if it is further already, StateError if it cannot be written."""
        path = self.path(state.topic, state.partition)
        words = {
            "v": 1,
            "topic": state.topic,
            "partition": state.partition,
            "offset": state.offset,
            "minutes": {str(minute): count for minute, count in state.minutes.items()},
        }
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / f".{path.name}.lock").open("ab") as lock:
                # Held from the check to the rename: a process that was frozen in between would overwrite its successor's state.
                fcntl.flock(lock, fcntl.LOCK_EX)
                held = self._offset_in(path)
                if held is not None and held > state.offset:
                    raise Overtaken(path, held, state.offset)
                replace_file(path, json.dumps(words).encode(), is_durable=True)
        except OSError as error:
            raise StateError(f"{path} cannot be written: {error}") from error

    def set_aside(self, topic: str, partition: int) -> Path:
        """Rename a damaged file, so that people can examine it; return its new path."""
        path = self.path(topic, partition)
        aside = path.with_suffix(".damaged")
        path.replace(aside)
        return aside

    def all(self, topic: str | None = None) -> list[PartitionState]:
        """Return every state, of one topic or of all. Raises StateError."""
        found = [_parse(path, path.read_bytes()) for path in sorted(self._folder.glob("*.json")) if not path.name.startswith(".")]
        return [state for state in found if topic is None or state.topic == topic]

    @staticmethod
    def _offset_in(path: Path) -> int | None:
        try:
            return _parse(path, path.read_bytes()).offset
        except (FileNotFoundError, StateError):
            return None


def merged(states: Iterable[PartitionState]) -> dict[str, dict[int, int]]:
    """Return topic → minute start (ms) → requests over all partitions, sorted by minute."""
    sums: dict[str, dict[int, int]] = {}
    for state in states:
        mine = sums.setdefault(state.topic, {})
        for minute, count in state.minutes.items():
            mine[minute] = mine.get(minute, 0) + count
    return {topic: dict(sorted(minutes.items())) for topic, minutes in sorted(sums.items())}


def _parse(path: Path, data: bytes) -> PartitionState:
    try:
        words = json.loads(data)
        if words["v"] != 1:
            raise ValueError(f"version {words['v']!r}")
        minutes = {int(minute): count for minute, count in words["minutes"].items()}
        numbers = [words["partition"], words["offset"], *minutes.values()]
        if not all(isinstance(number, int) and number >= 0 for number in numbers) or not isinstance(words["topic"], str):
            raise ValueError("a number is negative or no number")
        return PartitionState(topic=words["topic"], partition=words["partition"], offset=words["offset"], minutes=minutes)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{path} is not a state of the request rates ({error!r}): delete it, and its partition is counted again"
        raise StateError(reason) from None
