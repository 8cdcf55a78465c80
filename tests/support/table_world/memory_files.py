"""A file system in memory, as an object store looks: real Parquet, nothing on a disk."""

import hashlib
import io
from typing import Any

from headrace.spark.warehouse.object_path import ObjectPath, ObjectStat
from headrace.spark.warehouse.settings import S3Settings


class MemoryFiles:
    """Name → content, and when it was written."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.written_ms: dict[str, int] = {}
        self.now_ms = 0

    def path(self, key: str) -> "MemoryPath":
        return MemoryPath(key, self)


class MemoryPath(ObjectPath):
    """A file of them."""

    def __init__(self, key: str, files: MemoryFiles) -> None:
        super().__init__(key, S3Settings())
        object.__setattr__(self, "files_of", files)

    def __truediv__(self, name: str) -> "MemoryPath":
        return MemoryPath(f"{self.key}/{name}", self._files)

    @property
    def _files(self) -> MemoryFiles:
        found: MemoryFiles = self.__dict__["files_of"]
        return found

    def read_bytes(self) -> bytes:
        if self.key not in self._files.content:
            raise FileNotFoundError(str(self))
        return self._files.content[self.key]

    def write_bytes(self, content: bytes) -> int:
        self._files.content[self.key] = content
        self._files.written_ms[self.key] = self._files.now_ms
        return len(content)

    def stat(self) -> ObjectStat:
        return ObjectStat(len(self.read_bytes()), self._files.written_ms[self.key] * 1_000_000)

    def etag(self) -> str:
        return hashlib.md5(self.read_bytes(), usedforsecurity=False).hexdigest()

    def reader(self) -> Any:
        return io.BytesIO(self.read_bytes())
