"""The small file `leader-epoch-checkpoint`: at which offset each leader epoch began. Its format is Kafka's.

    0\\n
    <how many>\\n
    <leader epoch> <start offset>\\n    for each

The CRC of a batch does not cover the epoch in its bytes, so the epoch of a batch is what this list says. An epoch is on disk
before any batch of it is appended. The file is written to a scratch file, flushed and renamed, and the folder is flushed, so it
holds the old list or the new one. A log of one replica has no such file.
"""

import os
from pathlib import Path
from typing import NamedTuple

from . import folder as folders

NAME = "leader-epoch-checkpoint"
SCRATCH = "leader-epoch-checkpoint.new"


class LeaderEpoch(NamedTuple):
    leader_epoch: int
    start_offset: int


LeaderEpochs = tuple[LeaderEpoch, ...]


def read(folder: Path) -> LeaderEpochs:
    """Return the list, () when there is none. Raises OSError, and ValueError for a file of another format or a damaged one."""
    try:
        content = (folder / NAME).read_bytes()
    except FileNotFoundError:
        return ()
    lines = content.decode("ascii", "replace").splitlines()
    pairs = [line.split(" ") for line in lines[2:]]
    found = tuple(LeaderEpoch(int(pair[0]), int(pair[1])) for pair in pairs if len(pair) == 2 and all(map(str.isdigit, pair)))
    if _content(found) != content or list(found) != sorted(set(found)):
        raise ValueError(f"{NAME} is damaged or of another version")
    return found


def write(folder: Path, epochs: LeaderEpochs) -> None:
    """Write the list in the place of the older one, and wait until it is on disk. Raises OSError."""
    fd = os.open(folder / SCRATCH, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, _content(epochs))
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(folder / SCRATCH, folder / NAME)
    folders.sync(folder)


def _content(epochs: LeaderEpochs) -> bytes:
    lines = ["0", str(len(epochs)), *(f"{epoch} {start}" for epoch, start in epochs)]
    return ("\n".join(lines) + "\n").encode("ascii")


def with_epoch(epochs: LeaderEpochs, leader_epoch: int, start_offset: int) -> LeaderEpochs:
    """Return the list with a new epoch. Earlier ones that began there or later go: no batch of theirs is left."""
    return (*before(epochs, start_offset), LeaderEpoch(leader_epoch, start_offset))


def before(epochs: LeaderEpochs, end_offset: int) -> LeaderEpochs:
    """Return the epochs that began before an offset: the list of a log that ends there."""
    return tuple(each for each in epochs if each.start_offset < end_offset)
