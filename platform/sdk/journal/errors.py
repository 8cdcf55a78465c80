"""What can be wrong with a journal, by name. A full journal is not an error: its drops are counted."""

from ..errors import SdkError


class JournalError(SdkError):
    """The root of this room's errors."""


class JournalRefused(JournalError):
    """No journal can be made or opened there: the folder, its rights or its disk."""


class JournalDamaged(JournalError):
    """A file of a journal is not what its writer wrote."""


class JournalTooNew(JournalError):
    """A later version of Headrace wrote this journal."""

    def __init__(self, where: str, version: int, known: int) -> None:
        self.version = version
        super().__init__(
            f"{where} is of version {version}, this program reads up to {known}: upgrade the agent before the applications"
        )


class JournalLocked(JournalError):
    """Another process has the journal: an agent reads it, or its writer is alive."""

    retriable = True


class JournalNotDurable(JournalError):
    """The disk refused to store what was written. The event may be shipped, and may be lost: it is undecided."""


class SegmentGivenUp(JournalError):
    """A full journal gave up a segment that its reader was about to ship. It is counted; the reader continues behind it."""

    retriable = True
