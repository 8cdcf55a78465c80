"""A secret, and where it may stand: in the settings' file itself, in another file, in an environment variable.

References are written as in Kafka's configuration providers: `${env:NAME}`, `${file:/path:key}` (a properties file),
`${dir:/folder:file}` (a file that holds nothing else). They are resolved in every value, of every setting.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from . import properties

_REFERENCE = re.compile(r"\$\{(env|file|dir):([^:}]*)(?::([^}]*))?\}")
LARGEST_FILE_BYTES = 1 << 20


class Secret:
    """Text that `str`, `repr`, logs and pickles do not show."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled: pass the path of the client configuration and read it there")


class BadReference(ValueError):
    """A reference leads nowhere. The message names it; it never holds what was found there."""


def resolve(text: str, environment: Mapping[str, str]) -> tuple[str, list[Path]]:
    """Return the text with its references replaced, and the files that were read. Raises `BadReference`."""
    files: list[Path] = []

    def value_of(found: re.Match[str]) -> str:
        kind, where, key = found.groups()
        if kind == "env":
            if where not in environment:
                raise BadReference(f"{found.group()}: the environment has no variable {where!r}: set it, or correct the name")
            return environment[where]
        if not key:
            raise BadReference(
                f"{found.group()}: write ${{{kind}:{where or '/path'}:{'key' if kind == 'file' else 'file name'}}}"
            )
        path = Path(where) if kind == "file" else Path(where, key)
        files.append(path)
        content = read_text(path, found.group())
        if kind == "dir":
            return content.rstrip("\r\n")
        try:
            kept = properties.parse(content)
        except properties.BadProperties as error:
            raise BadReference(f"{found.group()}: {path}, {error}") from None
        if key not in kept:
            raise BadReference(f"{found.group()}: {path} has no {key!r}: add it there, or correct the name")
        return kept[key][0]

    return _REFERENCE.sub(value_of, text), files


def read_text(path: Path, what: str) -> str:
    """Return the file's text. Raises `BadReference`."""
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST_FILE_BYTES + 1)
        if len(content) > LARGEST_FILE_BYTES:
            raise BadReference(f"{what}: {path} is larger than {LARGEST_FILE_BYTES} bytes: is it the right file?")
        return content.decode()
    except OSError as error:
        raise BadReference(f"{what}: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadReference(f"{what}: {path} is not UTF-8 text") from None


def is_open_to_others(path: Path) -> bool:
    """Return whether users other than the owner may read the file."""
    try:
        return bool(os.stat(path).st_mode & 0o004)
    except OSError:
        return False
