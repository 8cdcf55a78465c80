"""The small file `replica-note` in a replica's folder: a token of the folder, and the partition's last state that was obeyed.

Two lines of the same length. A write goes to the line that is not the newest, and is flushed, so a crash leaves one whole line:

    <count, 20 digits> <token, 32> <version, 20> <leader epoch, 10> <went back, 1> <CRC-32C of what is before, 8 hex digits>\\n

The token is drawn when the file is made. It is part of the replica's lives: a folder that was removed and made again is not the
member that it was. Source: decision 69.
"""

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from ...wire.batch.crc32c import crc32c

NAME = "replica-note"
LINE_BYTES = 97


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaNote:
    """The content of the file."""

    token: str
    version: int = -1
    """Of the last node that was obeyed, -1 for none."""
    leader_epoch: int = 0
    went_back: bool = False
    """ZooKeeper went back behind it. Then no node is obeyed until an operator decides."""
    count: int = 0
    """How often the file was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldReplica:
    """A folder of a replica that its topic does not name any more."""

    topic: str
    noted: ReplicaNote


def read(folder: Path) -> ReplicaNote | None:
    """Return the newest note, None when there is no file. Raises OSError, and ValueError when no line is whole."""
    try:
        content = (folder / NAME).read_bytes()
    except FileNotFoundError:
        return None
    found = [note for at in (0, LINE_BYTES) if (note := _parsed(content[at : at + LINE_BYTES])) is not None]
    if not found:
        raise ValueError(f"{NAME} is damaged: both of its lines are")
    return max(found, key=lambda note: note.count)


def new_token() -> str:
    return secrets.token_hex(16)


def write(folder: Path, note: ReplicaNote) -> None:
    """Write the note in the place of the older of the two, and wait until it is on disk. Raises OSError.

    `fdatasync`: where the file's length stays, the file system need not write its journal.
    """
    is_new = not (folder / NAME).exists()
    fd = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.pwrite(fd, _line(note), LINE_BYTES * (note.count % 2))
        os.fdatasync(fd)
    finally:
        os.close(fd)
    if is_new:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _line(note: ReplicaNote) -> bytes:
    words = b"%020d %s %020d %010d %d " % (
        note.count,
        note.token.encode("ascii"),
        note.version,
        note.leader_epoch,
        note.went_back,
    )
    return b"%s%08x\n" % (words, crc32c(words))


def _parsed(line: bytes) -> ReplicaNote | None:
    words = line.split()
    if len(line) != LINE_BYTES or len(words) != 6 or line[-9:] != b"%08x\n" % crc32c(line[:-9]):
        return None
    return ReplicaNote(
        count=int(words[0]),
        token=words[1].decode("ascii"),
        version=int(words[2]),
        leader_epoch=int(words[3]),
        went_back=words[4] == b"1",
    )
