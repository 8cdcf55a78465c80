"""Joins lines that belong together (a traceback, say) into one record. Pure.

A record begins with a line that matches the start pattern, and with the line behind a record that became too long.
"""

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiline:
    """What a record of several lines is."""

    start: re.Pattern[bytes]
    """Found anywhere in a record's first line; write ^ to bind it to the beginning."""
    most_lines: int = 500
    most_bytes: int = 64 * 1024
    timeout_ms: int = 2_000
    """The last record of a file is complete when nothing was added for this long."""


class Joined(NamedTuple):
    """A record: the lines [first, behind) joined by newlines."""

    first: int
    behind: int


def join(lines: Sequence[bytes], rule: Multiline, *, alone: Container[int], takes_last: bool) -> tuple[list[Joined], int]:
    """Return the records, and how many of the lines they hold.

    Lines in `alone` (those too long) are records of their own. The last record may continue in lines to come: it is left out,
    unless `takes_last`, or it is as long as it may be.
    """
    records: list[Joined] = []
    first = size = 0
    for index, line in enumerate(lines):
        is_full = index - first >= rule.most_lines or size + len(line) > rule.most_bytes
        stands_alone = index in alone or (index > first and index - 1 in alone)
        if index > first and (is_full or stands_alone or rule.start.search(line)):
            records.append(Joined(first, index))
            first, size = index, 0
        size += len(line) + 1
    is_closed = takes_last or (first < len(lines) and (len(lines) - 1 in alone or len(lines) - first >= rule.most_lines))
    if is_closed and first < len(lines):
        records.append(Joined(first, len(lines)))
        first = len(lines)
    return records, first
