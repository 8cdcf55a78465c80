"""Which segments a full journal gave up to make room (`dropped.json`), and what was lost with them.

One rename replaces the file, so a segment is either reported as dropped or not. A kill may leave the file of a reported segment;
it is not part of the journal any more.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ....runtime.whole_file import replace_file
from ..errors import JournalDamaged, JournalTooNew
from .layout import VERSION

DROPPED_FILE = "dropped.json"
MOST_PAIRS = 10_000
"""How many windows and names the file distinguishes."""

Losses = Mapping[tuple[int, str], int]
"""(window start in ms, name of `LOSS_NAMES`) → how many."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """What was given up so far."""

    segments: frozenset[int] = frozenset()
    losses: Losses = field(default_factory=dict)
    unassigned: int = 0
    """Losses beyond the first `MOST_PAIRS` windows and names."""

    @classmethod
    def read(cls, folder: Path) -> "Dropped":
        """Return what the folder's file tells; without a file, nothing. Raises `JournalDamaged`, `JournalTooNew`."""
        path = folder / DROPPED_FILE
        try:
            words = json.loads(path.read_bytes())
            if words["version"] > VERSION:
                raise JournalTooNew(str(path), words["version"], VERSION)
            return cls(
                frozenset(segment for first, end in words["segments"] for segment in range(first, end)),
                {(int(window), str(name)): int(count) for window, name, count in words["losses"]},
                int(words["unassigned"]),
            )
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise JournalDamaged(f"{path} cannot be read ({type(error).__name__}: {error})") from error

    def with_segment(self, segment: int, losses: Losses) -> "Dropped":
        """Return the sum of this and one more segment."""
        totals, unassigned = dict(self.losses), self.unassigned
        for key, count in losses.items():
            if key in totals or len(totals) < MOST_PAIRS:
                totals[key] = totals.get(key, 0) + count
            else:
                unassigned += count
        return Dropped(self.segments | {segment}, totals, unassigned)

    def write(self, folder: Path) -> None:
        """Replace the file, durably. Raises OSError."""
        words = {
            "version": VERSION,
            "segments": _ranges(sorted(self.segments)),
            "unassigned": self.unassigned,
            "losses": [[window, name, count] for (window, name), count in sorted(self.losses.items())],
        }
        replace_file(folder / DROPPED_FILE, json.dumps(words).encode(), is_durable=True, mode=0o600)


def _ranges(numbers: list[int]) -> list[list[int]]:
    """Return sorted numbers as half-open ranges."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number:
            ranges[-1][1] += 1
        else:
            ranges.append([number, number + 1])
    return ranges
