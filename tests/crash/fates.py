"""What a power cut leaves of operations that were never synced. Pure: randomness follows from a seed.

POSIX promises nothing here: some of it is there, in part, in any order, or none of it.
"""

import random

from tests.crash.disk_operations import Change, NameChange, Remove, Rename, Truncate, Write


class Fate:
    """The fate of changes that were not synced: all are lost. Subclasses keep some. `on_disk_bytes`: the file's size on disk."""

    is_only_a_kill = False

    def names_kept(self, pending: list[NameChange]) -> list[NameChange]:
        return []

    def changes_kept(self, pending: list[Change], on_disk_bytes: int) -> list[Change]:
        return []

    def __str__(self) -> str:
        return "all lost"


class AllKept(Fate):
    """As after `kill -9`."""

    is_only_a_kill = True

    def names_kept(self, pending: list[NameChange]) -> list[NameChange]:
        return pending

    def changes_kept(self, pending: list[Change], on_disk_bytes: int) -> list[Change]:
        return pending

    def __str__(self) -> str:
        return "all kept"


class RemovalsKept(Fate):
    """Removals are on disk; what was to replace the removed files is not."""

    def names_kept(self, pending: list[NameChange]) -> list[NameChange]:
        return [change for change in pending if isinstance(change, Rename | Remove)]

    def __str__(self) -> str:
        return "removals kept"


class LastKept(Fate):
    """The last write of each file is there, and the writes before it are not: its end looks well, and its middle is a hole."""

    def names_kept(self, pending: list[NameChange]) -> list[NameChange]:
        return pending

    def changes_kept(self, pending: list[Change], on_disk_bytes: int) -> list[Change]:
        return pending[-1:]

    def __str__(self) -> str:
        return "last kept"


class AnyKept(Fate):
    """Some changes are there, some are not, some in part; zeros where the length is on disk and the bytes are not. Bytes that are
    overwritten have the new or the old value: no disk writes zeros that nobody gave it.

    Names: in their order up to some point, as a journal keeps them; where `in_any_order`, any of them.
    """

    def __init__(self, seed: object, *, in_any_order: bool = False) -> None:
        self._seed = seed
        self._chance = random.Random(str(seed))
        self._in_any_order = in_any_order

    def names_kept(self, pending: list[NameChange]) -> list[NameChange]:
        if not self._in_any_order:
            return pending[: self._chance.randint(0, len(pending))]
        return [change for change in pending if self._chance.random() < 0.5]

    def changes_kept(self, pending: list[Change], on_disk_bytes: int) -> list[Change]:
        chance = self._chance
        kept: list[Change] = []
        for change in pending:
            fate = chance.choice(("whole", "whole", "lost", "zeros", "torn"))
            if fate == "whole" or (isinstance(change, Truncate) and fate != "lost"):
                kept.append(change)
            elif isinstance(change, Write) and fate == "zeros":
                begin, end = max(change.position, on_disk_bytes), change.position + len(change.data)
                kept += [Write(change.inode, begin, bytes(end - begin))] if begin < end else []
            elif isinstance(change, Write) and fate == "torn":
                kept += self._torn(change)
        return kept

    def _torn(self, write: Write) -> list[Change]:
        """Return the parts of a write that are on disk: some of its pages, of the disk's size or smaller."""
        page = self._chance.choice((16, 64, 512, 4096))
        kept: list[Change] = []
        at = 0
        while at < len(write.data):
            length = page - (write.position + at) % page
            if self._chance.random() < 0.5:
                kept.append(Write(write.inode, write.position + at, write.data[at : at + length]))
            at += length
        return kept

    def __str__(self) -> str:
        return f"any kept ({self._seed}{', names in any order' if self._in_any_order else ''})"
