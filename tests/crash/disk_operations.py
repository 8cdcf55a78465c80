"""What may be asked of a disk, as plain values, and what each does to names and bytes when it is carried out. Pure."""

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
    """The disk refused what was to be written, all of it or all but the last. The system has said so and forgets: it tells nobody
    again.
    """

    inode: int
    takes_last: bool = False


class Evict(NamedTuple):
    """The system needed the room, and let go of what it takes for written: who reads sees what is on the disk."""

    inode: int


class SyncFolder(NamedTuple):
    path: str


class Rename(NamedTuple):
    path: str
    new_path: str


class Remove(NamedTuple):
    path: str


class Mark(NamedTuple):
    """Something the test wants to know about this moment."""

    fact: Any


Operation = Create | MakeFolder | Write | Truncate | Sync | FailedSync | Evict | SyncFolder | Rename | Remove | Mark
Change = Write | Truncate
NameChange = Create | MakeFolder | Rename | Remove


def change_names(names: dict[str, int | None], change: NameChange) -> None:
    """Carry out a change of names: path to inode, None for a folder."""
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
    """Carry out a change of a file's bytes."""
    match change:
        case Truncate(_, size):
            del content[size:]
            content.extend(bytes(size - len(content)))
        case Write(_, position, data):
            content.extend(bytes(max(0, position + len(data) - len(content))))
            content[position : position + len(data)] = data
