"""How applications read events: the counterpart of `headrace.sdk`. docs/READER.md is the manual.

`EventReader` is the entry point. Inside, a `ReadingLoop` is one member of a group: it reads, decodes (`decoding/`), has a
`Processor` do the records, puts aside what cannot be used (`quarantine`), reports to the audit (`counts`) and commits, in this
order. Imports nothing beyond the light install.
"""

from .errors import HandlerFailed, ReaderError, ReaderMisused
from .event_reader import EventReader
from .handling import Quarantine, Stop
from .quarantine import QuarantineLost
from .record import EventRecord
from .statistics import ReaderStatistics
from .steering import Lag

__all__ = [
    "EventReader",
    "EventRecord",
    "HandlerFailed",
    "Lag",
    "Quarantine",
    "QuarantineLost",
    "ReaderError",
    "ReaderMisused",
    "ReaderStatistics",
    "Stop",
]
