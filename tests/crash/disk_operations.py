"""Operations on a disk as plain values, and their effects on names and bytes. Pure."""

from typing import Any, NamedTuple


class Create(NamedTuple):
    path: str
    inode: int


class MakeFolder(NamedTuple):
    path: str


class Write(NamedTuple):
    inode: int
    position: int
    data: bytes


class Truncate(NamedTuple):
    inode: int
    size: int


class Sync(NamedTuple):
    inode: int


class FailedSync(NamedTuple):
    """The disk refused the pending writes: all of them, or all but the last. The system reported this once and does not report
    it again.
    """

    inode: int
    takes_last: bool = False


class Evict(NamedTuple):
    """The system dropped pages that it considers written: later reads return the bytes on the disk."""

    inode: int


class SyncFolder(NamedTuple):
    path: str


class Rename(NamedTuple):
    path: str
    new_path: str


class Remove(NamedTuple):
    path: str


class Mark(NamedTuple):
    """A fact that the test needs about this moment."""

    fact: Any


Operation = Create | MakeFolder | Write | Truncate | Sync | FailedSync | Evict | SyncFolder | Rename | Remove | Mark
Change = Write | Truncate
NameChange = Create | MakeFolder | Rename | Remove


def change_names(names: dict[str, int | None], change: NameChange) -> None:
    """Apply a change of names: path to inode, None for a folder."""
    match change:
        case Create(path, inode):
            names[path] = inode
        case MakeFolder(path):
            names[path] = None
        case Rename(path, new_path):
            for name in [name for name in names if name == path or name.startswith(f"{path}/")]:
                names[new_path + name[len(path) :]] = names.pop(name)
        case Remove(path):
            names.pop(path, None)


def change_bytes(content: bytearray, change: Change) -> None:
    """Apply a change of a file's bytes."""
    match change:
        case Truncate(_, size):
            del content[size:]
            content.extend(bytes(size - len(content)))
        case Write(_, position, data):
            content.extend(bytes(max(0, position + len(data) - len(content))))
            content[position : position + len(data)] = data
