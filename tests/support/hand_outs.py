"""An append-only journal of what the members of a group handed out, and what can be told from it afterwards.

Every member writes a line before it acts on a message. The checks know nothing of groups: they read the lines in their order.
"""

import os
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple


class HandOut(NamedTuple):
    """One line: at this moment of the machine's own clock, `member` got a message under its `turn` of owning the partition."""

    at_ns: int
    member: str
    turn: int
    partition: int
    offset: int
    value: str


class Journal:
    """One file for all members, of any process: each line is one write to a file opened for appending."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, member: str, turn: int, partition: int, offset: int, value: bytes) -> None:
        line = f"{time.monotonic_ns()}\t{member}\t{turn}\t{partition}\t{offset}\t{value.decode()}\n"
        os.write(self._file, line.encode())

    def read(self) -> list[HandOut]:
        rows = (line.split("\t") for line in self.path.read_text().splitlines())
        found = [
            HandOut(int(at), member, int(turn), int(partition), int(offset), value)
            for at, member, turn, partition, offset, value in rows
        ]
        return sorted(found)


def owned_twice(lines: list[HandOut]) -> list[tuple[HandOut, HandOut]]:
    """Return each hand-out by somebody who had been followed by another reader of its partition already, behind that reader's."""
    followed: dict[int, set[tuple[str, int]]] = defaultdict(set)
    last: dict[int, HandOut] = {}
    found = []
    for line in lines:
        before = last.get(line.partition)
        if before is not None and (before.member, before.turn) != (line.member, line.turn):
            followed[line.partition].add((before.member, before.turn))
            if (line.member, line.turn) in followed[line.partition]:
                found.append((before, line))
        last[line.partition] = line
    return found


def out_of_order(lines: list[HandOut]) -> list[tuple[HandOut, HandOut]]:
    """Return the neighbours of one reader's turn in a partition whose offsets do not rise."""
    last: dict[tuple[str, int, int], HandOut] = {}
    found = []
    for line in lines:
        key = line.member, line.turn, line.partition
        if key in last and last[key].offset >= line.offset:
            found.append((last[key], line))
        last[key] = line
    return found
