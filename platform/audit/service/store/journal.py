"""Writes every change of the tier reports into the database, in the transaction that the caller has begun.

Packed rows are compressed: they are sorted numbers, a quarter of their size is left. `loading.py` reads them back.
"""

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields

from ...model.codec import encode
from ...model.messages import KnownDifference, PublishedHour
from ...model.runs import Run, RunKey
from ...model.tier_log import TierLog
from ...model.tier_reports import LogKey
from ...model.tiers import MAIN
from .database import Database

REWRITTEN = -1
"""The `from_offset` of a piece that replaced all earlier ones of its entry."""
_RUN = tuple(one.name for one in fields(Run) if one.name != "key")


class BooksJournal:
    """`model.tier_reports.Journal`, into the database."""

    def __init__(self, database: Database, weigh: Callable[[str, int], None] = lambda topic, size: None) -> None:
        """`weigh` is called with the topic and the bytes of each piece: memory grew by them, too."""
        self._database = database
        self._weigh = weigh

    def put_log(self, key: LogKey, log: TierLog) -> None:
        self._database.put("logs", (key.topic, key.tier, key.partition, log.position, json.dumps(log.words())))

    def append_found(self, key: LogKey, window_start_ms: int, from_offset: int, packed: bytes, now_ms: int) -> None:
        self._mention(key.topic, window_start_ms, packed)
        self._database.put("found", (key.topic, window_start_ms, key.tier, key.partition, from_offset, squeezed(packed), now_ms))

    def rewrite_found(self, key: LogKey, window_start_ms: int, packed: bytes, now_ms: int) -> None:
        self._database.delete("found", topic=key.topic, window_start_ms=window_start_ms, tier=key.tier, partition=key.partition)
        if packed:
            self.append_found(key, window_start_ms, REWRITTEN, packed, now_ms)

    def append_sent(
        self, key: RunKey, topic: str, window_start_ms: int, sequence: int, packed: bytes, losses: Mapping[str, int], now_ms: int
    ) -> None:
        self._mention(topic, window_start_ms, packed)
        self._database.put(
            "sent",
            (topic, window_start_ms, key.instance, key.epoch, sequence, squeezed(packed), json.dumps(dict(losses)), now_ms),
        )

    def put_redelivered(self, topic: str, window_start_ms: int, count: int) -> None:
        self._mention(topic, window_start_ms)
        self._database.put("redelivered", (topic, window_start_ms, count))

    def put_known(self, known: KnownDifference) -> None:
        self._mention(known.topic, known.window_start_ms)
        self._database.put("known", (known.topic, known.window_start_ms, known.tier, encode(known)))

    def put_published(self, told: PublishedHour, window_start_ms: int) -> None:
        self._mention(told.topic, window_start_ms)
        self._database.put("known", (told.topic, window_start_ms, MAIN, encode(told)))

    def put_run(self, run: Run) -> None:
        # Hot: once per report. Without `asdict`, which copies each seal by itself (0.6 ms of a run of three days).
        words = {name: getattr(run, name) for name in _RUN} | {
            "producer_ids": sorted(run.producer_ids),
            "topics": sorted(run.topics),
            "retired": None if run.retired is None else asdict(run.retired),
        }
        self._database.put("runs", (*run.key, json.dumps(words)))

    def drop_run(self, key: RunKey) -> None:
        self._database.delete("runs", instance=key.instance, epoch=key.epoch)

    def drop_log(self, key: LogKey) -> None:
        for table in ("logs", "found", "chunks"):
            self._database.delete(table, topic=key.topic, tier=key.tier, partition=key.partition)

    def drop_topic(self, topic: str) -> None:
        for table in ("topics", "windows", "logs", "chunks", "found", "sent", "redelivered", "known", "unreadable"):
            self._database.delete(table, topic=topic)

    def put_topic_id(self, topic: str, topic_id: str) -> None:
        self._database.put("topics", (topic, topic_id))

    def drop_window(self, topic: str, window_start_ms: int) -> None:
        """Drop everything of one window."""
        for table in ("windows", "found", "sent", "redelivered", "known"):
            self._database.delete(table, topic=topic, window_start_ms=window_start_ms)

    def _mention(self, topic: str, window_start_ms: int, packed: bytes = b"") -> None:
        self._database.put("windows", (topic, window_start_ms))
        self._weigh(topic, len(packed))


def squeezed(packed: bytes) -> bytes:
    """Return the bytes compressed; `widened` takes them back."""
    return zlib.compress(packed, 1)


def widened(stored: bytes) -> bytes:
    return zlib.decompress(stored)
