"""How applications read events: the counterpart of `headrace.sdk`. docs/READER.md is the manual.

`EventReader` is the entry point. Inside, a `ReadingLoop` is one member of a group: it reads, decodes (`decoding/`), has a
`Processor` do the records (`handling`, `batches` with `positions/`), puts aside what cannot be used (`quarantine`), reports to
the audit (`counts`) and commits, in this order. Imports nothing beyond the light install.
"""

from typing import TYPE_CHECKING

from .errors import BatchFailed, HandlerFailed, ReaderError, ReaderMisused
from .event_reader import EventReader
from .handling import Quarantine, Stop
from .positions.protocol import LogBeganAnew, Positions, TransactionEnded
from .quarantine import QuarantineLost
from .record import EventRecord
from .statistics import ReaderStatistics

if TYPE_CHECKING:
    from .positions.postgresql import PostgresPositions
    from .positions.sqlite import SqlitePositions

__all__ = [
    "BatchFailed",
    "EventReader",
    "EventRecord",
    "HandlerFailed",
    "LogBeganAnew",
    "Positions",
    "PostgresPositions",
    "Quarantine",
    "QuarantineLost",
    "ReaderError",
    "ReaderMisused",
    "ReaderStatistics",
    "SqlitePositions",
    "Stop",
    "TransactionEnded",
]


def __getattr__(name: str) -> object:
    """Import databases only where they are used: the light install has no driver for PostgreSQL."""
    if name == "SqlitePositions":
        from .positions.sqlite import SqlitePositions

        return SqlitePositions
    if name == "PostgresPositions":
        try:
            from .positions.postgresql import PostgresPositions
        except ImportError as error:
            raise ImportError("there is no driver for PostgreSQL: pip install 'psycopg[binary]'") from error
        return PostgresPositions
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
