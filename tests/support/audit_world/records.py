"""Records, what was done with them, and where they stand."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .producers import Run

WINDOW_MS = 600_000
TOPIC = "clicks"

ACKNOWLEDGED, UNCERTAIN, REFUSED = "acknowledged", "uncertain", "refused"


class Numbers(NamedTuple):
    """Under which numbers a batch was sent."""

    producer_id: int
    epoch: int
    sequence: int
    crc: int


@dataclass(eq=False)
class Batch:
    """Records that an application handed over together."""

    run: "Run"
    partition: int
    window: int
    records: list[int]
    numbers: list[Numbers]
    """More than one: it was sent again under others."""
    end: str
    copies: list[int] = field(default_factory=list)
    """What the broker stores: under which of the numbers."""
    is_reported: bool = True
    is_altered: bool = False
    """One of its copies is in the live log with another content."""


class Entry(NamedTuple):
    """One record at one place of one tier."""

    offset: int
    record: int
    content: int
    crc: int
    window: int
    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1
    numbers: int = 0
    """Under which of its batch's numbers it stands."""


@dataclass
class Log:
    """What one tier has of one partition."""

    held: list[Entry] = field(default_factory=list)
    aside: list[Entry] = field(default_factory=list)
    """Put in quarantine, with an address."""
    altered: set[int] = field(default_factory=set)
    """Offsets of which the tier itself knows that the content is another."""
    skipped: list[tuple[int, int, str]] = field(default_factory=list)
    begins_at: int = 0
    """What lies below is gone."""
    end: int = 0
    """Up to where it has read the tier before it (of the live log: its end)."""
    told: list[tuple[int, int]] = field(default_factory=list)
    """What the audit topic has of it, or what the audit itself has read."""
    is_silent: bool = False
    cut: list[Entry] = field(default_factory=list)
    """What its tail held before it was cut off. Nothing is appended any more."""

    def has_told(self, offset: int) -> bool:
        return any(start <= offset < end for start, end in self.told)

    def between(self, start: int, end: int) -> list[Entry]:
        return [one for one in self.held if start <= one.offset < end]
