"""The state's file: opened by one agent at a time, written in transactions that survive a power cut."""

import fcntl
import os
import sqlite3
from pathlib import Path

from ..errors import StateRefused

FILE = "agent.sqlite"
VERSION = 1

_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE topics (topic TEXT PRIMARY KEY);
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, instance TEXT NOT NULL, epoch INTEGER NOT NULL, facts TEXT NOT NULL, topics TEXT NOT NULL,
    next_sequence INTEGER NOT NULL, moved_past_ms INTEGER, announced_ids INTEGER NOT NULL, is_closing INTEGER NOT NULL,
    UNIQUE (instance, epoch));
CREATE TABLE producer_ids (
    number INTEGER PRIMARY KEY, owner INTEGER NOT NULL, producer_id INTEGER NOT NULL, producer_epoch INTEGER NOT NULL);
CREATE TABLE sequences (
    owner INTEGER NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, producer_id INTEGER NOT NULL,
    producer_epoch INTEGER NOT NULL, next_sequence INTEGER NOT NULL, PRIMARY KEY (owner, topic, partition)) WITHOUT ROWID;
CREATE TABLE sources (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, run_id INTEGER NOT NULL, settled TEXT NOT NULL, planned TEXT NOT NULL);
CREATE TABLE seen_losses (
    source_id INTEGER NOT NULL, window_start_ms INTEGER NOT NULL, name TEXT NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (source_id, window_start_ms, name)) WITHOUT ROWID;
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY, source_id INTEGER NOT NULL, start TEXT NOT NULL, end TEXT NOT NULL, topic TEXT NOT NULL,
    schema_id INTEGER NOT NULL, refusal TEXT NOT NULL, planned_ms INTEGER NOT NULL);
CREATE TABLE batches (
    id INTEGER PRIMARY KEY, chunk_id INTEGER NOT NULL, owner INTEGER NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL,
    kind TEXT NOT NULL, window_start_ms INTEGER NOT NULL, producer_id INTEGER NOT NULL, producer_epoch INTEGER NOT NULL,
    first_sequence INTEGER NOT NULL, crc INTEGER NOT NULL, record_count INTEGER NOT NULL, picks BLOB NOT NULL,
    search_from INTEGER NOT NULL, planned_ms INTEGER NOT NULL, earlier TEXT NOT NULL);
CREATE TABLE ends (
    id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL, topic TEXT NOT NULL, window_start_ms INTEGER NOT NULL,
    partition INTEGER NOT NULL, numbers TEXT NOT NULL, record_count INTEGER NOT NULL, is_acknowledged INTEGER NOT NULL);
CREATE TABLE losses (
    run_id INTEGER NOT NULL, topic TEXT NOT NULL, window_start_ms INTEGER NOT NULL, name TEXT NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (run_id, topic, window_start_ms, name)) WITHOUT ROWID;
CREATE TABLE reports (
    id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL, body BLOB NOT NULL, announces INTEGER NOT NULL, topics INTEGER NOT NULL);
CREATE TABLE totals (name TEXT PRIMARY KEY, count INTEGER NOT NULL);
"""


class Database:
    """The open file and its lock. `execute` opens a transaction where none is open; `commit` returns when it is on disk."""

    def __init__(self, folder: Path) -> None:
        """Raises StateRefused."""
        self.path = folder / FILE
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = os.open(folder / f"{FILE}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise StateRefused(
                f"another agent runs with the state {self.path}: stop it, or give this one a state of its own"
            ) from None
        try:
            self._db = _opened(self.path)
        except BaseException:
            os.close(self._lock)
            raise

    @property
    def is_changed(self) -> bool:
        """Return whether something waits for `commit`."""
        return self._db.in_transaction

    def execute(self, words: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        if not self._db.in_transaction:
            self._db.execute("BEGIN IMMEDIATE")
        return self._db.execute(words, values)

    def rows(self, words: str, values: tuple[object, ...] = ()) -> list[tuple]:  # type: ignore[type-arg]
        return self._db.execute(words, values).fetchall()

    def commit(self) -> None:
        if self._db.in_transaction:
            self._db.execute("COMMIT")

    def close(self) -> None:
        """Drop what is not committed, and let another agent have the file."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        self._db.close()
        os.close(self._lock)


def read_only(folder: Path) -> sqlite3.Connection:
    """Return a connection that reads the state beside a running agent. Raises StateRefused."""
    path = folder / FILE
    if not path.exists():
        raise StateRefused(f"there is no agent's state at {path}: `headrace agent run` makes one; see `state` in the settings")
    try:
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
        _check_version(db, path)
    except sqlite3.DatabaseError as error:
        raise StateRefused(f"{path} cannot be read: {error}") from error
    return db


def _opened(path: Path) -> sqlite3.Connection:
    try:
        db = sqlite3.connect(path, isolation_level=None, timeout=10)
        path.chmod(0o600)
        db.execute("PRAGMA journal_mode=WAL")
        # A position or a plan that a power cut takes back would be a batch sent twice.
        db.execute("PRAGMA synchronous=FULL")
        if not db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            db.executescript(f"BEGIN IMMEDIATE;{_TABLES}INSERT INTO meta VALUES ('version', '{VERSION}');COMMIT;")
        _check_version(db, path)
    except sqlite3.DatabaseError as error:
        raise StateRefused(
            f"{path} is not an agent's state: {error}; restore it. Without it what the sources hold is sent a second time"
        ) from error
    return db


def _check_version(db: sqlite3.Connection, path: Path) -> None:
    ((version,),) = db.execute("SELECT value FROM meta WHERE name = 'version'").fetchall() or [("none",)]
    if version != str(VERSION):
        raise StateRefused(f"{path} has layout {version}, this agent reads {VERSION}: run the agent that wrote it")
