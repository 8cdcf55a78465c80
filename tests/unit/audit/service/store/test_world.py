"""Histories of the search's world, written into the service's store: what is read back is what was in memory, at any moment."""

from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from headrace.audit.model.books import TopicBook
from headrace.audit.model.tier_reports import TierReports
from headrace.audit.service.store.database import Database
from headrace.audit.service.store.journal import BooksJournal
from headrace.audit.service.store.loading import load_runs, load_topic
from headrace.audit.service.store.opening import database_at
from tests.support.audit_world.records import TOPIC, WINDOW_MS
from tests.support.audit_world.world import World

SEEDS = range(400)
EVICTED_EVERY = 3
"""At each third comparison the history continues with the books that were read back."""


class _Over(Exception):
    """Rolls the history back, so that the next one finds the store empty."""


def test_books_read_back_from_the_store_are_those_in_memory_and_judge_alike(tmp_path: Path) -> None:
    compared = 0
    with closing(database_at(tmp_path / "audit.db")) as database:
        database.open()
        for seed in SEEDS:
            with suppress(_Over), database.transaction():
                compared += _play(seed, database)
                raise _Over
    assert compared > 3 * len(SEEDS)


def test_a_journal_that_forgets_a_rewritten_entry_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail."""
    monkeypatch.setattr(BooksJournal, "rewrite_found", lambda *_: None)
    with pytest.raises(AssertionError):
        test_books_read_back_from_the_store_are_those_in_memory_and_judge_alike(tmp_path)


def _play(seed: int, database: Database) -> int:
    """Play one history; return how often memory and store were compared."""
    world = World(seed, BooksJournal(database))
    world.books = TierReports(WINDOW_MS, lambda topic: load_topic(database, topic, lambda *_: None))
    compared = 0

    def look(_: World) -> None:
        nonlocal compared
        mine = world.books.book(TOPIC)
        assert _contents(load_topic(database, TOPIC, lambda *_: None)) == _contents(mine), f"seed {seed}"
        assert {run.key: run for run in load_runs(database)} == world.books.runs, f"seed {seed}"
        compared += 1
        if compared % EVICTED_EVERY == 0:
            world.books.evict(TOPIC)
            for tier, logs in world.books.book(TOPIC).logs.items():
                for partition, log in logs.items():
                    log.caught_up_ms = mine.logs[tier][partition].caught_up_ms

    world.run(look)
    look(world)
    never_evicted = World(seed).run(lambda _: None)
    for window in world.windows:
        assert world.judge(window) == never_evicted.judge(window), f"seed {seed}"
    return compared


def _contents(book: TopicBook) -> Any:
    """Return everything in a book that is stored, as values (`caught_up_ms` is known by those who read)."""
    logs = {
        (tier, partition): log.words() | {"caught_up_ms": None} for tier, of in book.logs.items() for partition, log in of.items()
    }
    windows = {}
    for start in list(book.windows):
        window = book.windows[start]
        found = {
            (tier, partition): (entry.updated_ms, [sorted(rows) for rows in entry.parts])
            for tier, entries in window.found.items()
            for partition, entry in entries.items()
            if entry
        }
        producers = {
            run: (one.heard_ms, one.losses, {key: [sorted(rows) for rows in sent.parts] for key, sent in one.sent.items()})
            for run, one in window.producers.items()
        }
        if found or producers or window.redelivered or window.known:
            windows[start] = (found, producers, window.redelivered, window.known)
    return book.topic_id, logs, windows
