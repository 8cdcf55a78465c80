"""The problems of a log's folder, and what to do about each. Plain values."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class ProblemKind(Enum):
    """From harmless to harmful."""

    LEFTOVER = "a file that a crash left half written or half deleted"
    STRANGER = "a file that is not part of a log"
    SIDECAR_UNUSABLE = "a sidecar that will be ignored"
    GAP = "offsets between two segments that hold nothing (a mirror's source had lost them, or a file is missing)"
    BEYOND_LIMIT = "bytes after the last batch of a segment, where the next one begins"
    HOLE_NOT_EMPTY = "bytes in a hole"
    TIMESTAMP = "times that cannot be"
    SEQUENCE = "an idempotent producer's batch that does not follow its last one"
    START_NOTE = "a note of the log's start that says nothing"
    SIDECAR_WRONG = "a sidecar that would be believed and does not fit"
    TORN_TAIL = "bytes after the last whole batch of the log"
    BAD_RANGE = "damage with whole batches or segments behind it"
    NO_SEGMENT = "no segment at all"

    @property
    def is_harmless(self) -> bool:
        """Return whether no written data are lost or in danger."""
        return self in _HARMLESS

    @property
    def what_to_do(self) -> str:
        return _WHAT_TO_DO[self]


_HARMLESS = {ProblemKind.LEFTOVER, ProblemKind.STRANGER, ProblemKind.SIDECAR_UNUSABLE, ProblemKind.GAP}
_WHAT_TO_DO = {
    ProblemKind.LEFTOVER: "nothing: the next start removes it",
    ProblemKind.STRANGER: "nothing: it is left alone; move it elsewhere if it is not yours",
    ProblemKind.SIDECAR_UNUSABLE: "nothing: it is written again; until then a start takes longer",
    ProblemKind.GAP: "nothing on a mirror; else bring the missing segment file back from a copy",
    ProblemKind.BEYOND_LIMIT: "nothing: they are never served; `headrace log repair` cuts them",
    ProblemKind.HOLE_NOT_EMPTY: "nothing: they are never served",
    ProblemKind.TIMESTAMP: "look at the producer's clock: look-ups by time go wrong there",
    ProblemKind.SEQUENCE: "look for records that are missing or twice at this offset: `headrace log dump --records`",
    ProblemKind.START_NOTE: "`headrace log repair` sets it aside; the log then starts at its first segment",
    ProblemKind.SIDECAR_WRONG: "`headrace log repair` makes it again",
    ProblemKind.TORN_TAIL: "the next start cuts them, as does `headrace log repair`, which keeps a copy",
    ProblemKind.BAD_RANGE: "it is never served; bring the segment back from a copy of it, or let a mirror copy it again",
    ProblemKind.NO_SEGMENT: "nothing for a partition that was never written to; else bring its files back",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Offsets are half-open, and None when the problem has none."""

    kind: ProblemKind
    path: Path
    from_offset: int | None = None
    to_offset: int | None = None
    position: int | None = None
    """Where it begins in the file."""
    reason: str = ""

    def __str__(self) -> str:
        where = "" if self.from_offset is None else f" from offset {self.from_offset} to {self.to_offset} (byte {self.position})"
        return f"{self.path}{where}: {self.kind.value}" + (f": {self.reason}" if self.reason else "")
