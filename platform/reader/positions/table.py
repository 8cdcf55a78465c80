"""The table of positions, in the SQL that SQLite and PostgreSQL share. docs/FORMATS.md shows its layout."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...client.fetch.fetched import TopicPartition
from ...runtime.logs import get_logger
from .protocol import Fenced, Move, Position, name_of

log = get_logger(__name__)

TABLE = "headrace_positions"
CREATE = f"""CREATE TABLE IF NOT EXISTS {TABLE} (
    group_id TEXT NOT NULL,
    topic TEXT NOT NULL,
    partition INTEGER NOT NULL,
    topic_id TEXT NOT NULL,
    next_offset BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    PRIMARY KEY (group_id, topic, partition, topic_id)
)"""
_ROW = "group_id = ? AND topic = ? AND partition = ? AND topic_id = ?"
_OTHERS = f"SELECT next_offset FROM {TABLE} WHERE group_id = ? AND topic = ? AND partition = ? AND topic_id <> ?"
_TAKE = (
    f"INSERT INTO {TABLE} AS mine (group_id, topic, partition, topic_id, next_offset, fence) VALUES (?, ?, ?, ?, ?, 1) "
    "ON CONFLICT (group_id, topic, partition, topic_id) DO UPDATE SET fence = mine.fence + 1 RETURNING next_offset, fence"
)
_READ = f"SELECT next_offset, fence FROM {TABLE} WHERE {_ROW}"
_MOVE = f"UPDATE {TABLE} SET next_offset = ? WHERE {_ROW} AND next_offset = ? AND fence = ?"

Execute = Callable[[str, Sequence[Any]], Any]
"""Runs a statement with `?` for each value, and returns its cursor."""


class Rows:
    """The rows of one thread's partitions. Its methods run within the caller's transaction."""

    def __init__(self) -> None:
        self._topic_ids: dict[str, str] = {}

    def take(
        self, execute: Execute, group: str, starts: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> dict[TopicPartition, Position]:
        """Make or fence the rows."""
        self._topic_ids |= {name.topic: topic_ids.get(name.topic, "") for name in starts}
        found = {}
        for name, start in sorted(starts.items()):  # in one order in all members, so that none waits for another in a circle
            key = self._key(group, name)
            ((next_offset, fence),) = execute(_TAKE, (*key, start)).fetchall()
            found[name] = Position(next_offset, fence)
            others = [] if fence > 1 else execute(_OTHERS, key).fetchall()
            if others:
                log.error(
                    "topic_made_anew",
                    topic=name.topic,
                    partition=name.partition,
                    position_of_the_other=max(offset for (offset,) in others),
                    then=f"begins at the group's offset, {start}",
                )
        return found

    def read(
        self, execute: Execute, group: str, partitions: Iterable[TopicPartition], *, locking: str = ""
    ) -> dict[TopicPartition, Position]:
        """Return the rows. `locking`: what PostgreSQL needs to wait for transactions that change them."""
        rows = {name: execute(_READ + locking, self._key(group, name)).fetchone() for name in sorted(partitions)}
        return {name: Position(*row) for name, row in rows.items() if row is not None}

    def move(self, execute: Execute, group: str, moves: Mapping[TopicPartition, Move]) -> None:
        """Move positions by compare-and-set. Raises Fenced with those whose rows hold something else."""
        fenced = []
        for name, (held, to) in sorted(moves.items()):
            if execute(_MOVE, (to, *self._key(group, name), *held)).rowcount != 1:
                fenced.append(name)
            elif to < held.next_offset:
                log.error("position_moved_back", partition=name_of(name), was=held.next_offset, to=to, why="the log begins again")
        if fenced:
            raise Fenced(fenced)

    def _key(self, group: str, name: TopicPartition) -> tuple[str, str, int, str]:
        return group, name.topic, name.partition, self._topic_ids[name.topic]
