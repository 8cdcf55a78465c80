"""What a checkpoint of the store costs: of the whole store, and of what an hour of all topics changed. The topic is a file."""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from headrace.audit.service.checkpoints.checkpointer import Checkpointer
from headrace.audit.service.hearing.other_audits import Position
from headrace.audit.service.judge import Judge
from headrace.audit.service.store.ledger import Ledger
from headrace.audit.service.store.opening import database_at
from headrace.runtime.clock import ManualClock

from . import one_topic, store

HOURS = 4


class TopicInAFile:
    """`CheckpointLog`."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the topic
        self._sizes: list[int] = []
        self.start = 0

    def append(self, values: Iterable[bytes]) -> None:
        for value in values:
            self._file.write(value)
            self._sizes.append(len(value))

    def read(self, from_offset: int = 0) -> Iterator[tuple[int, bytes | None]]:
        begin = max(from_offset, self.start)
        at = sum(self._sizes[:begin])
        for offset in range(begin, len(self._sizes)):
            self._file.seek(at)
            yield offset, self._file.read(self._sizes[offset])
            at += self._sizes[offset]
        self._file.seek(0, 2)

    def trim(self, audit: Mapping[int, int], checkpoints_before: int) -> None:
        self.start = max(self.start, checkpoints_before)

    def note_position(self, position: Position) -> None:
        """Nobody else reads this audit topic."""

    def positions(self) -> list[Position]:
        return []

    @property
    def held_bytes(self) -> int:
        return sum(self._sizes[self.start :])

    def close(self) -> None:
        self._file.close()


def measure(address: str, topics: int, *, progress: Callable[[str], None]) -> dict[str, object]:
    """Return bytes and processor seconds of two bases, of the increments after hours in which all topics got records, and of a
    rebuild from them. The manual clock makes no progress, so nothing is rested.
    """
    database = database_at(address)
    database.open()
    ((newest,),) = database.rows("SELECT max(window_start_ms) FROM windows")
    hour_ms = newest // one_topic.HOUR_MS * one_topic.HOUR_MS + one_topic.HOUR_MS
    clock = ManualClock(hour_ms)
    ledger = Ledger(database, one_topic.SETTINGS, clock)
    ledger.books.open()
    judge = Judge(ledger, clock)
    judge.open()
    topic = TopicInAFile()
    checkpointer = Checkpointer(ledger, topic, clock)
    checkpointer.nothing_lost()
    ((hour,),) = database.rows("SELECT max(sequence) + 1 FROM sent WHERE topic = ?", (store.topic_name(0),))
    found: dict[str, object] = {}
    for number in range(HOURS):
        progress(f"an hour of {topics} topics, number {number}")
        clock.advance(one_topic.HOUR_MS)
        began = time.process_time()
        for name in range(topics):
            one_topic.tell_hour(
                ledger, judge, clock, store.topic_name(name), name, hour, hour_ms, loses=bool(name) and name % 100 == 0
            )
        told_s = time.process_time() - began
        hour, hour_ms = hour + 1, hour_ms + one_topic.HOUR_MS
        held, began = topic.held_bytes, time.process_time()
        checkpointer.write()
        kind = "increment" if checkpointer._seen(None)[-1].about.after else "base"
        found[f"{number}: {kind}"] = {
            "bytes": topic.held_bytes - held,
            "cpu_s": round(time.process_time() - began, 2),
            "hour_told_cpu_s": round(told_s, 2),
        }
    progress("a rebuild")
    began = time.process_time()
    positions = ledger.collector_positions()
    assert checkpointer.rebuild(dict.fromkeys(positions, 0), positions)
    found["rebuild_cpu_s"] = round(time.process_time() - began, 2)
    topic.close()
    database.close()
    return found
