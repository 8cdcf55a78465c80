"""A store with many topics: two are made by the real ledger and judge, the others are copies of their rows under other names.

Of the days that old windows were added to, one is made and the others are copies of it.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

from headrace.audit.service.store.audit_log import MOST_CHANGES
from headrace.audit.service.store.database import Database
from headrace.audit.service.store.opening import database_at
from headrace.audit.service.store.tables import LISTS, TABLES, columns_of
from headrace.audit.service.store.verdicts import DAY_MS

from . import one_topic

OF_A_TOPIC = tuple(name for name in TABLES if columns_of(name)[0] == "topic" and name != "to_judge")
AT_ONCE = 100


def topic_name(number: int) -> str:
    return f"topic-{number:05}"


def make(store: str, topics: int, *, by_window_days: int, days: int, losing_every: int, progress: Callable[[str], None]) -> None:
    """Make the store; the newest window ended an hour ago."""
    database = database_at(store)
    database.open()
    hours = (by_window_days + (1 if days else 0)) * 24
    _fill(database, topics, hours=hours, days=days, losing_every=losing_every, progress=progress)
    database.close()


def make_hours(store: str, topics: int, *, hours: int, groups: int, losing_every: int, progress: Callable[[str], None]) -> None:
    """Make a store without days. Two more topics have so many `groups` beside the verdict of each window."""
    database = database_at(store)
    database.open()
    _fill(database, topics, hours=hours, days=0, losing_every=losing_every, progress=progress)
    for number in range(2):
        progress(f"{hours} hours of {wide_topic_name(number)}, with {groups} groups")
        first_hour_ms = newest_window() + one_topic.W - hours * one_topic.HOUR_MS
        one_topic.tell(
            database, wide_topic_name(number), topics + number,
            first_hour_ms=first_hour_ms, hours=hours, loses=number == 1, groups=groups,
        )  # fmt: skip
    database.close()


def wide_topic_name(number: int) -> str:
    return f"wide-{number:05}"


def newest_window() -> int:
    """Return the start of the newest window of a store that is made in this hour."""
    return time.time_ns() // 1_000_000 // one_topic.HOUR_MS * one_topic.HOUR_MS - one_topic.W


def _fill(database: Database, topics: int, *, hours: int, days: int, losing_every: int, progress: Callable[[str], None]) -> None:
    first_hour_ms = time.time_ns() // 1_000_000 // one_topic.HOUR_MS * one_topic.HOUR_MS - hours * one_topic.HOUR_MS
    for number in range(min(2, topics)):
        progress(f"{hours} hours of {topic_name(number)} through ledger and judge")
        one_topic.tell(database, topic_name(number), number, first_hour_ms=first_hour_ms, hours=hours, loses=number == 1)
        if days:
            with database.transaction():
                _copy_days(database, topic_name(number), days)
    for begin in range(2, topics, AT_ONCE):
        with database.transaction():
            for number in range(begin, min(topics, begin + AT_ONCE)):
                _copy(
                    database, topic_name(1 if number % losing_every == 0 else 0), 1 if number % losing_every == 0 else 0, number
                )
        if begin % 1_000 < AT_ONCE:
            progress(f"{begin} of {topics} topics")
    _fill_changes(database)


def _copy(database: Database, of: str, model: int, number: int) -> None:
    for table in OF_A_TOPIC:
        columns = columns_of(table)
        chosen = ["?" if column == "topic" else "?" if column == "instance" else column for column in columns]
        values = [topic_name(number)] + ([_instance(number)] if "instance" in columns else [])
        database.do(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(chosen)} FROM {table} WHERE topic = ?", (*values, of)
        )
    ((epoch, words),) = database.rows("SELECT epoch, words FROM runs WHERE instance = ?", (_instance(model),))
    run = json.loads(words) | {"topics": [topic_name(number)], "producer_ids": [number]}
    database.put("runs", (_instance(number), epoch, json.dumps(run)))
    database.put_fact(f"topic_id:live:{topic_name(number)}", f"id-{topic_name(number)}")


def _copy_days(database: Database, topic: str, days: int) -> None:
    """Make of the oldest whole day as many days before it."""
    columns = columns_of("verdicts")
    chosen = [f"{column} - ?" if column in ("window_start_ms", "at_ms") else column for column in columns]
    for back in range(1, days):
        database.do(
            f"INSERT INTO verdicts ({', '.join(columns)}) SELECT {', '.join(chosen)} FROM verdicts"
            " WHERE topic = ? AND span_ms = ?"
            " AND window_start_ms = (SELECT min(window_start_ms) + ? FROM verdicts WHERE topic = ? AND span_ms = ?)",
            (back * DAY_MS, back * DAY_MS, topic, DAY_MS, (back - 1) * DAY_MS, topic, DAY_MS),
        )


def _instance(number: int) -> str:
    return f"host-{number}/application/{number}"


def _fill_changes(database: Database) -> None:
    """Fill the log of changes to its bound."""
    columns = ", ".join(columns_of("verdict_changes"))
    ((known,),) = database.rows("SELECT count(*) FROM verdict_changes")
    with database.transaction():
        while 0 < known < MOST_CHANGES:
            more = min(known, MOST_CHANGES - known)
            database.do(
                f"INSERT INTO verdict_changes ({columns}) SELECT {columns} FROM verdict_changes ORDER BY number LIMIT ?", (more,)
            )
            known += more


def size_bytes(store: str) -> int:
    """Return what the store takes on disk."""
    if "://" not in store:
        return sum(one.stat().st_size for one in Path(store).parent.glob(f"{Path(store).name}*"))
    database = database_at(store)
    database.open()
    ((size,),) = database.rows("SELECT pg_database_size(current_database())")
    database.close()
    return int(size)


def row_counts(store: str) -> dict[str, int]:
    """Return table → rows."""
    database = database_at(store)
    database.open()
    counts = {table: int(database.rows(f"SELECT count(*) FROM {table}")[0][0]) for table in (*TABLES, *LISTS)}
    database.close()
    return counts
