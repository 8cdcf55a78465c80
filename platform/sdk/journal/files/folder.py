"""Makes the folder of a new journal: head, lock, table of losses, and no segment yet. Others see it complete or not at all."""

import errno
import os
import shutil
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from ....runtime.whole_file import replace_file
from ..errors import JournalRefused
from .head import HEAD_FILE, JournalHead, folder_of
from .losses_table import LOSSES_FILE, LossesTable
from .scratch import new_scratch, remove_abandoned
from .segment_writer import Numbers, SegmentWriter
from .writer_process import LOCK_FILE, lock_file, this_process

_TRIES = 1_000
"""How many journals of one instance and one millisecond there may be."""


@dataclass(frozen=True, slots=True)
class NewJournal:
    """What a writer has of its own journal."""

    folder: Path
    head: JournalHead
    lock: int
    """The open file of the lock: its writer lives as long as it is open."""
    losses: LossesTable


def make_journal(
    root: Path,
    *,
    topic: str,
    schema: str,
    application: str,
    instance: str,
    server_name: str,
    now_ms: int,
    lateness_ms: int | None,
    only_between_ms: tuple[int, int] | None,
    segment_bytes: int,
    is_durable: bool,
    numbers: Numbers,
) -> tuple[NewJournal, SegmentWriter]:
    """Make a journal; return it and its first segment. Raises `JournalRefused`, and leaves nothing behind then."""
    folder = folder_of(root, application, instance, now_ms)
    scratch = new_scratch(folder.parent)
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        remove_abandoned(folder.parent)
        scratch.mkdir(mode=0o700)
        lock = lock_file(scratch / LOCK_FILE)
        if lock is None:
            raise OSError(errno.EAGAIN, f"{scratch} was taken for one whose process is dead")
        try:
            head = JournalHead(
                journal_id=uuid.uuid4().hex,
                topic=topic,
                schema=schema,
                application=application,
                instance=instance,
                server_name=server_name,
                epoch=now_ms,
                lateness_ms=lateness_ms,
                only_between_ms=only_between_ms,
                segment_bytes=segment_bytes,
                is_durable=is_durable,
                writer=this_process(),
            )
            losses = LossesTable(scratch / LOSSES_FILE)
            first = SegmentWriter(scratch, head.id_bytes, 0, segment_bytes, numbers)
            head = _put_in_place(scratch, root, head)
            return NewJournal(folder_of(root, application, instance, head.epoch), head, lock, losses), first
        except BaseException:
            os.close(lock)
            raise
    except OSError as error:
        raise JournalRefused(
            f"no journal can be made in {root} ({error.strerror or error}): it needs a local folder that this process may write, "
            f"and {segment_bytes} free bytes"
        ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _put_in_place(scratch: Path, root: Path, head: JournalHead) -> JournalHead:
    """Give the folder its name, durably; return its head, with a later epoch where the name was taken. Raises OSError."""
    for epoch in range(head.epoch, head.epoch + _TRIES):
        head = replace(head, epoch=epoch)
        replace_file(scratch / HEAD_FILE, head.to_json(), is_durable=True, mode=0o600)
        sync_folder(scratch)
        folder = folder_of(root, head.application, head.instance, epoch)
        try:
            scratch.rename(folder)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            continue
        sync_folder(folder.parent)
        return head
    raise JournalRefused(f"{_TRIES} journals of instance {head.instance!r} were made at one time: give each its own instance")


def sync_folder(folder: Path) -> None:
    """Return once the names in the folder are on the disk. Raises OSError."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
