"""The errors of a partition's log. Each names the partition and its offsets."""

from pathlib import Path
from typing import ClassVar

from ...errors import HeadraceError


class LogError(HeadraceError):
    """The log of `topic` and `partition` cannot do what was asked."""

    def __init__(self, message: str, *, topic: str, partition: int) -> None:
        super().__init__(f"{topic}-{partition}: {message}")
        self.topic = topic
        self.partition = partition


class OffsetOutOfRange(LogError):
    """A read outside of the log: a wrong offset, or the data have expired."""

    def __init__(self, *, topic: str, partition: int, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(
            f"offset {offset} is not in the log, which holds {log_start_offset} to {log_end_offset}: begin at one of these",
            topic=topic,
            partition=partition,
        )
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class DamageAhead(LogError):
    """A replica's read meets a damaged range that is not repaired yet. Records must not be skipped: read again later."""

    retriable: ClassVar[bool] = True

    def __init__(self, *, topic: str, partition: int, from_offset: int, to_offset: int) -> None:
        super().__init__(
            f"offsets {from_offset} to {to_offset} are damaged here and not repaired from another replica yet: read again later, "
            "and see `headrace cluster status`",
            topic=topic,
            partition=partition,
        )
        self.from_offset = from_offset
        self.to_offset = to_offset


class BatchRefused(LogError):
    """A batch that no log takes, even with a right CRC: it has no records, or its length is not the buffer's."""


class AppendFailed(LogError):
    """The file system refused the write (full, read-only, broken). The log is unchanged; a later append may work."""

    retriable: ClassVar[bool] = True

    def __init__(self, *, topic: str, partition: int, offset: int, size_bytes: int, path: Path, cause: OSError) -> None:
        super().__init__(
            f"cannot append {size_bytes} bytes at offset {offset} to {path}: {cause.strerror or cause}. The log is unchanged; "
            "see to the disk and send again",
            topic=topic,
            partition=partition,
        )
        self.offset = offset
        self.size_bytes = size_bytes
        self.path = path
        self.errno = cause.errno


class LogUnusable(LogError):
    """After a disk failure memory and file may differ: no more appends until the log is opened again."""

    def __init__(self, *, topic: str, partition: int, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} takes no more appends: {reason}. Restart the broker when the disk is well: it recovers what is whole",
            topic=topic,
            partition=partition,
        )
        self.path = path
        self.reason = reason


class OldFormat(HeadraceError):
    """The files have a format that is no longer read. Names no partition: all files of that release have this format."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} holds batches of log format 1, whose offsets leave the gap behind a batch; this release reads and writes "
            "format 2 (decision 1), and has changed nothing. Read the folder with a release from before 2026-11-22, or begin "
            "with an empty one and copy the topics over with any Kafka client"
        )
        self.path = path


class FolderFault(LogError):
    """The partition's folder or a file in it cannot be opened, read, created or deleted."""

    retriable: ClassVar[bool] = True

    def __init__(self, *, topic: str, partition: int, path: Path, cause: OSError) -> None:
        super().__init__(
            f"cannot work with {path}: {cause.strerror or cause}. See to its permissions, the disk and the limit of open files",
            topic=topic,
            partition=partition,
        )
        self.path = path
        self.errno = cause.errno
