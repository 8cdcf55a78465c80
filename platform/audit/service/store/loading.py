"""Rebuilds from the database what `journal.py` wrote: all runs at the start, a topic's books when they are asked for.

Of a topic only the list of its windows is loaded at once. A window's entries are loaded when somebody looks at it.
"""

import json
from collections.abc import Callable, ItemsView, Iterator, ValuesView
from itertools import groupby
from operator import itemgetter
from typing import Any

from ...model.books import Found, TopicBook, WindowBook, Windows, unpack_sent
from ...model.codec import decode
from ...model.messages import Hold, KnownDifference, PublishedHour
from ...model.runs import Retired, Run, RunKey
from ...model.tier_log import TierLog
from ..errors import StoreError
from .beats import noted_beats
from .database import Database
from .journal import widened


def see_window_ms(database: Database, window_ms: int) -> None:
    """Remember how wide the windows of the store are. Raises StoreError if they were stored with another width."""
    known = database.fact("window_ms")
    if known is not None and int(known) != window_ms:
        raise StoreError(
            f"{database.name} counts windows of {known} ms and the settings say {window_ms}: set window_ms back, "
            f"or move the store away"
        )
    if known is None:
        with database.transaction():
            database.put_fact("window_ms", window_ms)


def load_runs(database: Database) -> Iterator[Run]:
    """Yield every stored run."""
    beats = noted_beats(database)
    for instance, epoch, text in database.rows("SELECT instance, epoch, words FROM runs ORDER BY instance, epoch"):
        words = json.loads(text)
        next_sequence, heard_ms = beats.get(RunKey(instance, epoch), (0, 0))
        only, holds = words["only_between_ms"], words.get("holds")
        yield Run(
            **words
            | {
                "key": RunKey(instance, epoch),
                "next_sequence": max(words["next_sequence"], next_sequence),
                "heard_ms": max(words["heard_ms"], heard_ms),
                "producer_ids": set(words["producer_ids"]),
                "topics": set(words["topics"]),
                "gaps": [(start, end) for start, end in words["gaps"]],
                "seals": [(past, at) for past, at in words["seals"]],
                "retired": None if words["retired"] is None else Retired(**words["retired"]),
                "only_between_ms": None if only is None else (only[0], only[1]),
                "holds": None if holds is None else tuple(Hold(*one) for one in holds),
                "unsettled": tuple(Hold(*one) for one in words.get("unsettled", ())),
            }
        )


def load_topic(database: Database, topic: str, weigh: Callable[[str, int], None]) -> TopicBook:
    """Return the topic's book as of the last transaction. `weigh` is called with the bytes of each window that is loaded."""
    ids = database.rows("SELECT topic_id FROM topics WHERE topic = ?", (topic,))
    starts = [start for (start,) in database.rows("SELECT window_start_ms FROM windows WHERE topic = ?", (topic,))]
    book = TopicBook(topic_id=ids[0][0] if ids else None, windows=StoredWindows(database, topic, starts, weigh))
    for tier, partition, text in database.rows("SELECT tier, partition, words FROM logs WHERE topic = ?", (topic,)):
        book.logs.setdefault(tier, {})[partition] = TierLog.from_words(json.loads(text))
    return book


class StoredWindows(Windows):
    """A topic's windows by their start. Those that nobody has looked at stay in the store."""

    def __init__(self, database: Database, topic: str, starts: list[int], weigh: Callable[[str, int], None]) -> None:
        super().__init__()
        self._database = database
        self._topic = topic
        self._stored = set(starts)
        self._weigh = weigh

    def __contains__(self, start: object) -> bool:
        return start in self._stored or super().__contains__(start)

    def __missing__(self, start: int) -> WindowBook:
        if start not in self._stored:
            raise KeyError(start)
        self._stored.discard(start)
        self[start] = self._load(start)
        return self[start]

    def get(self, start: int, default: Any = None) -> Any:
        if start in self._stored:
            return self[start]
        return super().get(start, default)

    def __iter__(self) -> Iterator[int]:
        return iter([*super().__iter__(), *self._stored])

    def __len__(self) -> int:
        return super().__len__() + len(self._stored)

    def values(self) -> ValuesView[WindowBook]:  # type: ignore[override]
        self._load_all()
        return super().values()

    def items(self) -> ItemsView[int, WindowBook]:  # type: ignore[override]
        self._load_all()
        return super().items()

    def pop(self, start: int, default: Any = None) -> Any:
        self._stored.discard(start)
        return super().pop(start, default)

    def holding(self, tier: str, partition: int) -> Iterator[tuple[int, Found]]:
        yield from super().holding(tier, partition)
        rows = self._database.rows(
            "SELECT window_start_ms, packed FROM found WHERE topic = ? AND tier = ? AND partition = ? ORDER BY window_start_ms",
            (self._topic, tier, partition),
        )
        for start, pieces in groupby(rows, itemgetter(0)):
            if start in self._stored:
                entry = Found(tier)
                for _, packed in pieces:
                    entry.unpack(widened(packed))
                yield start, entry

    def _load_all(self) -> None:
        for start in list(self._stored):
            self[start]

    def _load(self, start: int) -> WindowBook:
        database, where = self._database, "WHERE topic = ? AND window_start_ms = ?"
        key = (self._topic, start)
        book = WindowBook()
        loaded = 0
        rows = database.rows(f"SELECT tier, partition, packed, updated_ms FROM found {where}", key)
        for tier, partition, packed, updated_ms in rows:
            wide = widened(packed)
            loaded += len(wide)
            book.restore_found(tier, partition, wide, updated_ms)
        told = database.rows(f"SELECT instance, epoch, packed, losses, heard_ms FROM sent {where}", key)
        for instance, epoch, packed, losses, heard_ms in told:
            wide = widened(packed)
            loaded += len(wide)
            book.take_producer(RunKey(instance, epoch), unpack_sent(wide), json.loads(losses), heard_ms)
        for (count,) in database.rows(f"SELECT count FROM redelivered {where}", key):
            book.redelivered = count
        for (report,) in database.rows(f"SELECT report FROM known {where}", key):
            known = decode(report)
            if isinstance(known, KnownDifference):
                book.known[known.tier] = known
            elif isinstance(known, PublishedHour):
                book.published = known
        self._weigh(self._topic, loaded + ENTRY_BYTES * (1 + len(rows) + len(told)))
        return book


ENTRY_BYTES = 1_000
"""What an entry takes in memory beside its rows."""
