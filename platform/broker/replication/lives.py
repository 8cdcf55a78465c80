"""The life of a replica's folder: a token for what the folder can be trusted to hold. Pure.

A member of the set is named with its life. A folder that has lost something gets a new life at the next start, so it is no longer
the member, and must catch up first.
"""

from dataclasses import dataclass

MEMORY, DISK = "memory", "disk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lives:
    """`memory`: holds all that it had acknowledged as written. `disk`: holds all that it had acknowledged as flushed."""

    memory: str
    disk: str

    def of(self, *, is_flushed: bool) -> str:
        return self.disk if is_flushed else self.memory

    def __contains__(self, life: str) -> bool:
        return life in (self.memory, self.disk)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderNote:
    """What the last process noted in the folder."""

    lives: Lives
    boot_id: str
    """The boot and mount under which it ran."""
    start_number: int
    was_stopped_cleanly: bool
    has_failed_flush: bool = False


def at_start(note: FolderNote | None, *, boot_id: str, start_number: int, known_start_number: int, token: str) -> Lives:
    """Return the lives of the process that starts now. `token` is new and unique.

    `note` is None for an empty folder. `known_start_number` is ZooKeeper's before this start: a folder that has noted a lower one
    is an older copy.
    """
    fresh = Lives(memory=f"{MEMORY}:{token}", disk=f"{DISK}:{token}")
    if note is None or note.start_number < known_start_number:
        return fresh
    return Lives(
        memory=note.lives.memory if survives_in_memory(note, boot_id) else fresh.memory,
        disk=note.lives.disk if not note.has_failed_flush else fresh.disk,
    )


def survives_in_memory(note: FolderNote, boot_id: str) -> bool:
    """Return whether what was written is still there: the system ran on, or everything was flushed at the stop."""
    return (note.boot_id == boot_id or note.was_stopped_cleanly) and not note.has_failed_flush


def counts_flushed(life: str) -> bool:
    """Return whether a member with this life acknowledges by what is on its disk."""
    return life.startswith(DISK)


def belongs(folder_topic_id: str, topic_id: str) -> bool:
    """Return whether a folder is of this topic, and not of a deleted one that had its name."""
    return folder_topic_id == topic_id
