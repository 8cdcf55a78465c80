"""Files of the warehouse wherever it stands: a `Path` of this machine, or an `ObjectPath` of an object store.

A file that is not there is FileNotFoundError in both. A store that does not answer is StoreUnreachable and never taken for a
loss: it is not a WarehouseError, so that who calls a damaged file damaged does not catch it.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...runtime.whole_file import replace_file
from ..errors import StoreUnreachable
from .object_path import SCHEMES, ObjectPath, S3Settings

StorePath = Path | ObjectPath
COPIED_AT_ONCE = 4 << 20


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file of the warehouse to be read here."""

    path: Path
    """Of this machine: the file itself, or a copy that is gone after the `with`."""
    sha256: str


def path_of(uri: str, s3: S3Settings) -> StorePath:
    """Return the file of a URI: ours begin with `file:///` or `s3://`, those of Java's engines with `file:/` or `s3a://`."""
    return ObjectPath.of_uri(uri, s3) if uri.startswith(SCHEMES) else local_path(uri)


def local_path(uri: str) -> Path:
    """Return the path of a file's URI on this machine."""
    return Path(local_name(uri))


def local_name(uri: str) -> str:
    """Return the same as text: for a look at ten thousand files."""
    return "/" + uri.removeprefix("file:").lstrip("/")


def uri_of(path: StorePath) -> str:
    """Return what a table names the file. (`Path.as_uri` writes percent signs, which Iceberg does not read.)"""
    return str(path) if isinstance(path, ObjectPath) else f"file://{path}"


def below(path: StorePath, folder: StorePath) -> str:
    """Return the file's name inside the folder, as in `run/part.parquet`; empty if it is not there."""
    begin = f"{folder}/"
    return str(path).removeprefix(begin) if str(path).startswith(begin) else ""


def replace(path: StorePath, content: bytes) -> None:
    """Write a small file whole: a reader sees the one before or this one."""
    if isinstance(path, ObjectPath):
        path.write_bytes(content)
    else:
        replace_file(path, content)


def writer(path: StorePath) -> Any:
    """Return a new file to write to, for pyarrow."""
    if isinstance(path, ObjectPath):
        return path.writer()
    path.parent.mkdir(parents=True, exist_ok=True)
    return pa.OSFile(str(path), "wb")


@contextmanager
def fetched(path: StorePath) -> Iterator[Fetched]:
    """Yield the file as one of this machine, with the SHA-256 of its bytes. Raises OSError, StoreUnreachable.

    What is read of a copy is what its checksum is of; and an error of reading it is the file's own, not the network's.
    """
    if isinstance(path, Path):
        yield Fetched(path, checksum(path))
        return
    with tempfile.NamedTemporaryFile(prefix="headrace-", suffix=path.suffix) as copy:
        found = hashlib.sha256()
        for part in _parts(path):
            found.update(part)
            copy.write(part)
        copy.flush()
        yield Fetched(Path(copy.name), found.hexdigest())


def checksum(path: StorePath) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal. Raises OSError, StoreUnreachable."""
    if isinstance(path, Path):
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    found = hashlib.sha256()
    for part in _parts(path):
        found.update(part)
    return found.hexdigest()


def _parts(path: ObjectPath) -> Iterator[bytes]:
    try:
        with path.reader() as file:
            while part := file.read(COPIED_AT_ONCE):
                yield part
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreUnreachable(str(path), str(error)) from error


@contextmanager
def reaching_store(folder: StorePath) -> Iterator[None]:
    """Turn an object store's error into StoreUnreachable, where pyiceberg reads and writes its own files."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if isinstance(folder, ObjectPath):
            raise StoreUnreachable(str(folder), str(error)) from error
        raise


def files_under(folder: StorePath) -> Iterator[StorePath]:
    """Yield every file of the folder and of those in it; nothing if there is none."""
    if isinstance(folder, ObjectPath):
        yield from folder.files()
    else:
        yield from (path for path in folder.rglob("*") if path.is_file())


def remove_folder(folder: StorePath) -> None:
    """Delete the folder and all that is in it; nothing if it is not there. What cannot be deleted here stays."""
    if isinstance(folder, ObjectPath):
        folder.remove_folder()
    else:
        shutil.rmtree(folder, ignore_errors=True)
