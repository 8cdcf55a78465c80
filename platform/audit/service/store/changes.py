"""Which rows of the store differ from the last two checkpoints: a note per unit (`tables.UNITS`), in the change's transaction.

Time is divided into periods; a checkpoint ends one. A note says in which period its unit changed last. So what changed since a
checkpoint is what has a note of a later period, whatever was killed, rolled back or lost together with the store's last
transactions meanwhile.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from .tables import UNIT_OF, UNITS, Reading, Row, upsert

KEPT = 2
"""Checkpoints from which the differences are known: the next one can then be used even if one of them cannot."""
MOST_REMEMBERED = 20_000
"""Units that are known in memory to have a note of this period, so that it need not be written again."""
_NOW = ""
"""The name under which the period that continues stands beside the checkpoints."""


class Made(NamedTuple):
    """A checkpoint that holds all that changed in `period` and before."""

    checkpoint: str
    period: int


class Statements(Protocol):
    """What the notes need of a database."""

    def do(self, statement: str, values: Iterable[Any] = ()) -> None: ...

    def do_many(self, statement: str, rows: Iterable[Row]) -> None: ...

    def rows(self, statement: str, values: Iterable[Any] = ()) -> list[Row]: ...


class Changes:
    """Reads and writes the notes, in the transaction that the caller has begun."""

    def __init__(self, database: Statements) -> None:
        self._database = database
        self._period: int | None = None
        """None: ask the store."""
        self._noted: set[tuple[Any, ...]] = set()

    def forget(self) -> None:
        """Know that the last transaction was not kept, or that the store was opened again."""
        self._period = None
        self._noted.clear()

    def note(self, table: str, keys: Iterable[tuple[Any, ...]]) -> None:
        """Note that units of the table changed. Hot: with each row that is written."""
        unit = UNIT_OF[table]
        news = {(unit, *key) for key in keys} - self._noted
        if not news:
            return
        period = self._now()
        self._database.do_many(upsert(f"changed_{unit}"), [(*one[1:], period) for one in news])
        if len(self._noted) > MOST_REMEMBERED:
            self._noted.clear()
        self._noted |= news

    def _now(self) -> int:
        if self._period is None:
            rows = self._database.rows("SELECT period FROM made_checkpoints WHERE checkpoint = ?", (_NOW,))
            self._period = rows[0][0] if rows else 1
        return self._period

    def end_period(self) -> int:
        """Begin the next period; return the one that ended."""
        ended = self._now()
        self._put(_NOW, ended + 1)
        self.forget()
        return ended

    def made(self, checkpoint: str, period: int) -> None:
        """Note a checkpoint that holds everything of `period` and before, and forget what the last `KEPT` all hold."""
        self._put(checkpoint, period)
        kept = made_checkpoints(self._database.rows)[:KEPT]
        self._database.do("DELETE FROM made_checkpoints WHERE checkpoint <> ? AND period < ?", (_NOW, kept[-1].period))
        for unit in UNITS:
            self._database.do(f"DELETE FROM changed_{unit} WHERE period <= ?", (kept[-1].period,))

    def begin_from(self, checkpoint: str) -> None:
        """Know that the store is now what the checkpoint holds."""
        for table in ("made_checkpoints", *(f"changed_{unit}" for unit in UNITS)):
            self._database.do(f"DELETE FROM {table}")
        self._put(checkpoint, 0)
        self.forget()

    def _put(self, checkpoint: str, period: int) -> None:
        self._database.do_many(upsert("made_checkpoints"), [(checkpoint, period)])


def made_checkpoints(read: Callable[[str], Iterable[Row]]) -> list[Made]:
    """Return the checkpoints from which the differences are known, the newest first."""
    found = [Made(*row) for row in read("SELECT checkpoint, period FROM made_checkpoints ORDER BY period DESC")]
    return [one for one in found if one.checkpoint != _NOW]


def changed_keys(read: Reading, unit: str, since: int) -> Iterator[tuple[Any, ...]]:
    """Yield the keys of the units that changed after this period."""
    return iter(read(f"SELECT {UNITS[unit][0]} FROM changed_{unit} WHERE period > {since}"))


def changed_rows(read: Reading, table: str, columns: Iterable[str], since: int) -> Iterator[tuple[Any, ...]]:
    """Yield these columns of the rows of the units that changed after this period."""
    unit = UNIT_OF[table]
    same = " AND ".join(f"r.{column} = c.{column}" for column in UNITS[unit][0].split(", "))
    # CROSS JOIN tells SQLite to begin with the notes, which are few, and to look up the rows by their key.
    return iter(
        read(
            f"SELECT {', '.join(f'r.{column}' for column in columns)} FROM changed_{unit} c CROSS JOIN {table} r"
            f" WHERE c.period > {since} AND {same}"
        )
    )
