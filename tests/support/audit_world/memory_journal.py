"""A store in memory: keeps what a journal is told and builds the books again from it."""

import pickle
from collections.abc import Mapping

from headrace.audit.model.books import TopicBook, unpack_sent
from headrace.audit.model.messages import KnownDifference, PublishedHour
from headrace.audit.model.runs import Run, RunKey
from headrace.audit.model.tier_log import TierLog
from headrace.audit.model.tier_reports import LogKey, TierReports


class MemoryJournal:
    """`tier_reports.Journal`."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self.logs: dict[LogKey, bytes] = {}
        self.found: dict[tuple[LogKey, int], dict[int, tuple[bytes, int]]] = {}
        self.sent: list[tuple[RunKey, str, int, bytes, dict[str, int], int]] = []
        self.redelivered: dict[tuple[str, int], int] = {}
        self.known: dict[tuple[str, int, str], KnownDifference] = {}
        self.published: dict[tuple[str, int], PublishedHour] = {}
        self.runs: dict[RunKey, bytes] = {}
        self.topic_ids: dict[str, str] = {}

    def put_log(self, key: LogKey, log: TierLog) -> None:
        self.logs[key] = pickle.dumps(log.words())

    def append_found(self, key: LogKey, window_start_ms: int, from_offset: int, packed: bytes, now_ms: int) -> None:
        pieces = self.found.setdefault((key, window_start_ms), {})
        assert from_offset not in pieces
        pieces[from_offset] = (packed, now_ms)

    def rewrite_found(self, key: LogKey, window_start_ms: int, packed: bytes, now_ms: int) -> None:
        self.found[key, window_start_ms] = {-1: (packed, now_ms)} if packed else {}

    def append_sent(
        self, key: RunKey, topic: str, window_start_ms: int, sequence: int, packed: bytes, losses: Mapping[str, int], now_ms: int
    ) -> None:
        self.sent.append((key, topic, window_start_ms, packed, dict(losses), now_ms))

    def put_redelivered(self, topic: str, window_start_ms: int, count: int) -> None:
        self.redelivered[topic, window_start_ms] = count

    def put_known(self, known: KnownDifference) -> None:
        self.known[known.topic, known.window_start_ms, known.tier] = known

    def put_published(self, told: PublishedHour, window_start_ms: int) -> None:
        self.published[told.topic, window_start_ms] = told

    def put_run(self, run: Run) -> None:
        self.runs[run.key] = pickle.dumps(run)

    def drop_run(self, key: RunKey) -> None:
        del self.runs[key]

    def drop_log(self, key: LogKey) -> None:
        self.logs.pop(key, None)
        self.found = {place: pieces for place, pieces in self.found.items() if place[0] != key}

    def drop_topic(self, topic: str) -> None:
        self.logs = {key: log for key, log in self.logs.items() if key.topic != topic}
        self.found = {place: pieces for place, pieces in self.found.items() if place[0].topic != topic}
        self.sent = [one for one in self.sent if one[1] != topic]
        self.redelivered = {place: count for place, count in self.redelivered.items() if place[0] != topic}
        self.known = {place: one for place, one in self.known.items() if place[0] != topic}
        self.published = {place: one for place, one in self.published.items() if place[0] != topic}

    def put_topic_id(self, topic: str, topic_id: str) -> None:
        self.topic_ids[topic] = topic_id

    def load_topic(self, topic: str) -> TopicBook:
        """Return the topic's book as it was journalled."""
        book = TopicBook(self.topic_ids.get(topic))
        for key, words in self.logs.items():
            if key.topic == topic:
                book.logs.setdefault(key.tier, {})[key.partition] = TierLog.from_words(pickle.loads(words))
        for (key, start), pieces in self.found.items():
            for packed, updated_ms in pieces.values():
                if key.topic == topic:
                    book.window(start).restore_found(key.tier, key.partition, packed, updated_ms)
        for key, of_topic, start, packed, losses, heard_ms in self.sent:
            if of_topic == topic:
                book.window(start).take_producer(key, unpack_sent(packed), losses, heard_ms)
        for (of_topic, start), count in self.redelivered.items():
            if of_topic == topic:
                book.window(start).redelivered = count
        for known in self.known.values():
            if known.topic == topic:
                book.window(known.window_start_ms).known[known.tier] = known
        for (of_topic, start), told in self.published.items():
            if of_topic == topic:
                book.window(start).published = told
        return book

    def load(self) -> TierReports:
        """Return the books as they were journalled."""
        books = TierReports(self._window_ms, self.load_topic)
        for run in self.runs.values():
            books.restore_run(pickle.loads(run))
        return books
