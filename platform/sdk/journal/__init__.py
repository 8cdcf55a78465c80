"""The journal: events are in files beside the application, safe from its death, until `headrace agent` ships them.

`journal`: what an agent reads (`Journal`; `listing` finds them); `position` has the values it gets; `enrolment` makes it known.
`transport`: the application's side, with its `settings`, its `room` (quotas) and `group_sync` (durability). `files`: what
is on the disk.
"""

from .errors import JournalDamaged, JournalError, JournalLocked, JournalNotDurable, JournalRefused, JournalTooNew, SegmentGivenUp
from .files.head import JournalHead, WriterProcess
from .files.layout import Kind
from .files.losses_table import LossTotals
from .journal import Journal
from .listing import journal_folders, open_journals, remove_abandoned_below
from .position import START, JournalChunk, JournalRecord, Position, Unreadable
from .settings import JournalSettings
from .transport import JournalTransport

__all__ = [
    "START",
    "Journal",
    "JournalChunk",
    "JournalDamaged",
    "JournalError",
    "JournalHead",
    "JournalLocked",
    "JournalNotDurable",
    "JournalRecord",
    "JournalRefused",
    "JournalSettings",
    "JournalTooNew",
    "JournalTransport",
    "Kind",
    "LossTotals",
    "Position",
    "SegmentGivenUp",
    "Unreadable",
    "WriterProcess",
    "journal_folders",
    "open_journals",
    "remove_abandoned_below",
]
