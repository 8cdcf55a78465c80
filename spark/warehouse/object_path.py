"""Files of an S3-compatible object store under the names of `pathlib`: what the warehouse does with a `Path`, it does with these.

There are no folders: a folder is the beginning of its files' names. A file is replaced as a whole, and seen when it is closed.
Credentials are found by the AWS SDK inside pyarrow, in each process for itself: `AWS_ACCESS_KEY_ID` and the like, the files that
`AWS_SHARED_CREDENTIALS_FILE` and `AWS_PROFILE` name, or the machine's role. They never pass through this program.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
from pyarrow import fs

from ..errors import StoreUnreachable

SCHEMES = ("s3://", "s3a://", "s3n://")
"""Java's engines write the other two."""
ATTEMPTS = 5
CONNECT_S = 5.0
REQUEST_S = 60.0
DEEPEST = 5
"""Folders inside each other that a run makes, and one."""
COARSE_NS = 999_999_999
"""S3 tells the time of a change in whole seconds: the latest instant that it may mean is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """How the store is reached. No secrets."""

    endpoint: str | None = None
    region: str = "us-east-1"
    path_style: bool | None = None
    """None: as pyarrow does it: with an endpoint, the bucket is in the path."""

    def properties(self) -> dict[str, str]:
        """Return the settings under Iceberg's names."""
        words = {"s3.region": self.region, "s3.connect-timeout": str(CONNECT_S), "s3.request-timeout": str(REQUEST_S)}
        if self.endpoint is not None:
            words["s3.endpoint"] = self.endpoint
        if self.path_style is not None:
            words["s3.force-virtual-addressing"] = str(not self.path_style).lower()
        return words


@dataclass(frozen=True, slots=True)
class ObjectStat:
    """Under the names of `os.stat_result`."""

    st_size: int
    st_mtime_ns: int


@dataclass(frozen=True, order=True)
class ObjectPath:
    """One file, or the beginning of names. May be sent to other processes."""

    key: str
    """`bucket/name`."""
    s3: S3Settings
    listed: ObjectStat | None = field(default=None, compare=False, repr=False)
    """What a listing has said of it; else `stat` asks."""

    @classmethod
    def of_uri(cls, uri: str, s3: S3Settings) -> "ObjectPath":
        scheme = next(one for one in SCHEMES if uri.startswith(one))
        return cls(uri.removeprefix(scheme).strip("/"), s3)

    def __str__(self) -> str:
        return f"s3://{self.key}"

    def __truediv__(self, name: str) -> "ObjectPath":
        return ObjectPath(f"{self.key}/{name.strip('/')}", self.s3)

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def name(self) -> str:
        return PurePosixPath(self.key).name

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.key).suffix

    @property
    def parent(self) -> "ObjectPath":
        return ObjectPath(str(PurePosixPath(self.key).parent), self.s3)

    @property
    def filesystem(self) -> fs.FileSystem:
        return _filesystem(self.s3, os.getpid())

    def stat(self) -> ObjectStat:
        """Raises FileNotFoundError, StoreUnreachable."""
        if self.listed is not None:
            return self.listed
        with self._reaching():
            found = self.filesystem.get_file_info(self.key)
        if found.type != fs.FileType.File:
            raise FileNotFoundError(f"{self} is not there")
        return _stat_of(found)

    def etag(self) -> str:
        """Return the store's own mark of the content; empty if it tells none. Raises FileNotFoundError, StoreUnreachable."""
        with self._reaching(), self.filesystem.open_input_file(self.key) as file:
            found: str = (file.metadata() or {}).get("ETag", b"").decode()
        return found

    def exists(self) -> bool:
        with self._reaching():
            return bool(self.filesystem.get_file_info(self.key).type != fs.FileType.NotFound)

    def read_bytes(self) -> bytes:
        with self._reaching(), self.filesystem.open_input_stream(self.key) as file:
            content: bytes = file.read()
            return content

    def read_text(self) -> str:
        return self.read_bytes().decode()

    def write_bytes(self, content: bytes) -> int:
        with self._reaching(), self.filesystem.open_output_stream(self.key) as file:
            return int(file.write(content))

    def reader(self) -> Any:
        """Return the file, opened to be read from its begin to its end."""
        with self._reaching():
            return self.filesystem.open_input_stream(self.key)

    def writer(self) -> pa.NativeFile:
        """Return a file to write to; it is there once it is closed."""
        with self._reaching():
            return self.filesystem.open_output_stream(self.key)

    def unlink(self, missing_ok: bool = False) -> None:
        with self._reaching():
            try:
                self.filesystem.delete_file(self.key)
            except FileNotFoundError:
                if not missing_ok:
                    raise

    def files(self) -> Iterator["ObjectPath"]:
        """Yield every file whose name begins with this folder's, with what the listing says of it: a thousand a request."""
        with self._reaching():
            found = self.filesystem.get_file_info(fs.FileSelector(self.key, recursive=True, allow_not_found=True))
        yield from (ObjectPath(one.path, self.s3, _stat_of(one)) for one in found if one.type == fs.FileType.File)

    def remove_folder(self) -> None:
        """Delete every file whose name begins with this folder's; nothing if there is none.

        Servers that keep objects as files refuse to delete a folder before what is in it, in one request with it: so again.
        """
        for _ in range(DEEPEST):
            try:
                self.filesystem.delete_dir(self.key)
                return
            except FileNotFoundError:
                return
            except OSError as error:
                reason = str(error)
            left = next(self.files(), None)  # raises if the store is away
        if left is not None:
            raise StoreUnreachable(str(left), f"it cannot be deleted: {reason}")

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StoreUnreachable(str(self), str(error)) from error


def _stat_of(found: fs.FileInfo) -> ObjectStat:
    return ObjectStat(found.size, found.mtime_ns + COARSE_NS)


@lru_cache(maxsize=8)
def _filesystem(s3: S3Settings, pid: int) -> fs.FileSystem:
    """`pid`: a forked process has clients of its own."""
    words: dict[str, Any] = {"region": s3.region, "connect_timeout": CONNECT_S, "request_timeout": REQUEST_S}
    if s3.endpoint is not None:
        words["endpoint_override"] = s3.endpoint
    if s3.path_style is not None:
        words["force_virtual_addressing"] = not s3.path_style
    return fs.S3FileSystem(retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS), **words)
