"""The small file `replica-note` in a replica's folder: a token of the folder, and the partition's last state that was obeyed.

Two lines of the same length. A write goes to the line that is not the newest, and is flushed, so a crash leaves one whole line:

    <count, 20 digits> <token, 32> <version, 20> <leader epoch, 10> <went back, 1> <CRC-32C of what is before, 8 hex digits>\\n

Behind them are two places of `SET_BYTES` for the in-sync set that each line's node had. A recovery needs it after ZooKeeper has
lost the node. A set counts if its count is the line's. Earlier releases do not read the sets:

    <count, 20 digits> <JSON: [[broker, life], …]> <CRC-32C of what is before, 8 hex digits>\\n, filled with spaces

The token is drawn when the file is made. It is part of the replica's lives: a folder that was removed and made again is not the
member that it was. Source: decision 69.
"""

import json
import os
import secrets
from dataclasses import dataclass, replace
from pathlib import Path

from ...wire.batch.crc32c import crc32c
from ..replication.state import Member

NAME = "replica-note"
LINE_BYTES = 97
SET_BYTES = 1_900
"""Both lines and both sets are in one block of 4 KiB. A set of more than some 20 members does not fit, and is not noted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaNote:
    """The content of the file."""

    token: str
    version: int = -1
    """Of the last node that was obeyed, -1 for none."""
    leader_epoch: int = 0
    members: tuple[Member, ...] = ()
    """The in-sync set of that node, empty where it is not known."""
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
    newest = max(found, key=lambda note: note.count)
    sets = content[2 * LINE_BYTES :]
    places = [sets[at : at + SET_BYTES] for at in (0, SET_BYTES)]
    members = next((known for place in places if (known := _parsed_set(place, newest.count)) is not None), ())
    return replace(newest, members=members)


def new_token() -> str:
    return secrets.token_hex(16)


def write(folder: Path, note: ReplicaNote) -> None:
    """Write the note in the place of the older of the two, and wait until it is on disk. Raises OSError.

    `fdatasync`: where the file's length stays, the file system need not write its journal.
    """
    is_new = not (folder / NAME).exists()
    fd = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        place = note.count % 2
        os.pwrite(fd, _line(note), LINE_BYTES * place)
        os.pwrite(fd, _set(note), 2 * LINE_BYTES + SET_BYTES * place)
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


def _set(note: ReplicaNote) -> bytes:
    words = json.dumps([[one.broker_id, one.life] for one in note.members], separators=(",", ":")).encode()
    text = b"%020d %s " % (note.count, words)
    line = b"%s%08x\n" % (text, crc32c(text))
    return line.ljust(SET_BYTES) if len(line) <= SET_BYTES else b" " * SET_BYTES


def _parsed_set(place: bytes, count: int) -> tuple[Member, ...] | None:
    line = place.rstrip(b" ")
    if len(line) < 31 or line[-9:] != b"%08x\n" % crc32c(line[:-9]) or int(line[:20]) != count:
        return None
    return tuple(Member(broker_id=broker_id, life=life) for broker_id, life in json.loads(line[21:-9]))


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
