"""Which files were replayed into which topics, so that a second replay of one is noticed: `<home>/replays.json`.

A file is known by its first lines (`TimeRange.head`), so also under another name and after it has grown. This is for a warning
only: two replays that end at the same moment may forget one another, and a file that cannot be read counts as empty.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ...runtime.whole_file import replace_file

REMEMBERED = 1_000
"""Replays; the oldest are forgotten. 200 bytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierReplay:
    """One replay that sent something."""

    head: str
    topic: str
    bootstrap: str
    file: str
    sent: int
    at_ms: int


def latest_of(head: str, topic: str, bootstrap: str, earlier: list[EarlierReplay]) -> EarlierReplay | None:
    """Return the latest replay of such a file into that topic of that cluster."""
    same = [one for one in earlier if (one.head, one.topic, one.bootstrap) == (head, topic, bootstrap)]
    return max(same, key=lambda one: one.at_ms, default=None)


def read(path: Path) -> list[EarlierReplay]:
    """Return the replays that the file holds, oldest first."""
    try:
        return [EarlierReplay(**one) for one in json.loads(path.read_text())]
    except (OSError, ValueError, TypeError):
        return []


def remember(path: Path, replay: EarlierReplay) -> None:
    """Add one replay to the file. Raises OSError."""
    kept = [*read(path), replay][-REMEMBERED:]
    replace_file(path, json.dumps([asdict(one) for one in kept]).encode())
