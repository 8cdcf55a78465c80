"""Cut the end of a closed log, durably. The tail is put aside, not destroyed.

A follower cuts what its leader never had. A crash at any point leaves a log that begins as it did and ends at the old end, at the
new one, or between: sidecars go first, because they describe the tail. Then later segments go, the last one first, each on disk
before the next, so that no later segment stays behind a missing one. Then the segment that holds the new end is cut. The list of
leader epochs is cut last: an epoch without a batch means nothing, a batch without its epoch would be taken for an older one.
"""

import os
from pathlib import Path

from . import first_append, leader_epochs
from . import folder as folders
from .segment import sidecar_file
from .segment.segment_name import file_name

COPIED_AT_ONCE = 1 << 20


def cut(folder: Path, to_offset: int, *, aside: Path, is_behind_damage: bool = False) -> None:
    """Make the log in `folder` end at `to_offset`; its tail goes to the folder `aside`, which is made.

    `to_offset` is where a batch of the log ends, or a segment begins, and not before the first segment. `is_behind_damage`: a new
    segment begins there, because damage at the end of the last segment would be taken for a torn tail, and the log would be
    shorter than its replica has promised. Nobody has the log open, and no job of it is under way. Raises OSError; call it again
    then.
    """
    bases = folders.segment_bases(folder)
    holding = max(base for base in bases if base <= to_offset)
    later = [base for base in bases if base > holding]
    for base in (holding, *later):
        sidecar_file.remove(folder, base)
    (folder / first_append.NAME).unlink(missing_ok=True)
    folders.sync(folder)
    aside.mkdir(exist_ok=True)
    folders.sync(aside.parent)
    for base in reversed(later):
        os.rename(folder / file_name(base), aside / file_name(base))
        folders.sync(aside)
        folders.sync(folder)
    if is_behind_damage:
        (folder / file_name(to_offset)).touch(mode=0o644)
        folders.sync(folder)
    _cut_segment(folder / file_name(holding), to_offset - holding, aside / file_name(to_offset))
    epochs = leader_epochs.read(folder)
    if epochs != (kept := leader_epochs.before(epochs, to_offset)):
        leader_epochs.write(folder, kept)


def _cut_segment(path: Path, size_bytes: int, tail: Path) -> None:
    """Cut the file to a size, after what follows is on disk in the file `tail`. A file that ends before stays."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        end = os.fstat(fd).st_size
        if end <= size_bytes:
            return
        to = os.open(tail, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            for position in range(size_bytes, end, COPIED_AT_ONCE):
                os.pwrite(to, os.pread(fd, min(COPIED_AT_ONCE, end - position), position), position - size_bytes)
            os.fsync(to)
        finally:
            os.close(to)
        folders.sync(tail.parent)
        os.ftruncate(fd, size_bytes)
        os.fsync(fd)
    finally:
        os.close(fd)
