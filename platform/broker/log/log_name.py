"""The name of a log, and its errors: a system error gets the partition and the path here."""

from pathlib import Path
from typing import NamedTuple

from .errors import AppendFailed, FolderFault, LogUnusable, OffsetOutOfRange


class LogName(NamedTuple):
    """A partition and the folder of its log."""

    topic: str
    partition: int
    folder: Path

    def fault(self, error: OSError) -> FolderFault:
        path = Path(error.filename) if isinstance(error.filename, str) else self.folder
        return FolderFault(topic=self.topic, partition=self.partition, path=path, cause=error)

    def append_failed(self, offset: int, size_bytes: int, path: Path, error: OSError) -> AppendFailed:
        return AppendFailed(
            topic=self.topic, partition=self.partition, offset=offset, size_bytes=size_bytes, path=path, cause=error
        )

    def unusable(self, path: Path, reason: str) -> LogUnusable:
        return LogUnusable(topic=self.topic, partition=self.partition, path=path, reason=reason)

    def out_of_range(self, offset: int, log_start_offset: int, log_end_offset: int) -> OffsetOutOfRange:
        return OffsetOutOfRange(
            topic=self.topic,
            partition=self.partition,
            offset=offset,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
        )
