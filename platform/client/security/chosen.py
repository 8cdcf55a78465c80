"""Which client configuration is a cluster's, when the program names none: `HEADRACE_CLIENT_CONFIG`.

It holds the path of one properties file, or of several with `:` between them. A file with `bootstrap.servers` is for the cluster
with these addresses only, a file without is for every other one. So the credentials of one cluster never go to another.
Without the variable clients speak in the clear, as they always did.
"""

import functools
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ..errors import ClientConfigRefused

if TYPE_CHECKING:
    from .client_security import ClientSecurity

VARIABLE = "HEADRACE_CLIENT_CONFIG"

_given_for: dict[str, Path] = {}
"""Bootstrap → the file that a command's flag, or a process's settings, named for it."""

MOST_SHARED = 64
_shared: "dict[Path, ClientSecurity]" = {}
"""The files that are in use in this process. Shared, so that what a broker refused one client no other client tries at once, and
so that all of them see a rotation at the same time."""
_shared_lock = threading.Lock()

ClientConfig: TypeAlias = "ClientSecurity | Path | str | Mapping[str, str]"
"""What a program may hand over: a file's path, or a file's names and values."""


def give(bootstrap: str, path: Path) -> None:
    """Take this file for the cluster, in the whole process, before what the environment names. For commands, at their start.

    Raises `ClientConfigRefused`.
    """
    _of_file(path)
    _given_for[bootstrap] = path


def check(paths: Sequence[Path]) -> None:
    """Raise `ClientConfigRefused` if one of the files cannot be used."""
    for path in paths:
        _of_file(path)


def security_for(
    bootstrap: str, given: "ClientConfig | None", environment: Mapping[str, str] | None = None
) -> "ClientSecurity | None":
    """Return how to speak to this cluster; None: in the clear. Raises `ClientConfigRefused`.

    What `given` holds comes first, then a file that `give` has named, then the environment.
    """
    given = _given_for.get(bootstrap) if given is None else given
    if given is None:
        return named_for(bootstrap, (os.environ if environment is None else environment).get(VARIABLE))
    # Imported only here: who speaks in the clear needs no `ssl`.
    from .client_security import ClientSecurity

    if isinstance(given, ClientSecurity):
        return given
    return _of_file(Path(given)) if isinstance(given, str | Path) else ClientSecurity(given)


def named_for(bootstrap: str, files: str | None) -> "ClientSecurity | None":
    """Return how to speak to this cluster by what the variable, or an option like it, holds; None: it names no file. Raises
    `ClientConfigRefused`.
    """
    paths = [Path(word) for word in (files or "").split(os.pathsep) if word]
    return _chosen(bootstrap, paths) if paths else None


def _of_file(path: Path) -> "ClientSecurity":
    """Return this process's one security of the file. Raises `ClientConfigRefused` if the file was never usable."""
    from .client_security import ClientSecurity

    path = path.absolute()
    with _shared_lock:
        found = _shared.get(path)
    if found is not None:
        found.look_again()
        return found
    made = ClientSecurity(path)
    _see_to_forks()
    with _shared_lock:
        if len(_shared) >= MOST_SHARED:
            _shared.clear()
        return _shared.setdefault(path, made)


@functools.cache
def _see_to_forks() -> None:
    """Not at the import: importing the SDK changes nothing in an application."""
    os.register_at_fork(after_in_child=_forget_shared)


def _forget_shared() -> None:
    """In the child of a fork: another thread of the parent may have held one of the locks."""
    global _shared_lock
    _shared_lock = threading.Lock()
    _shared.clear()


def _chosen(bootstrap: str, paths: Sequence[Path]) -> "ClientSecurity":
    wanted = {word.strip() for word in bootstrap.split(",")}
    read = [_of_file(path) for path in paths]
    own = [one for one in read if wanted & set(one.settings.bootstrap_servers)]
    general = [one for one in read if not one.settings.bootstrap_servers]
    for found in (own, general):
        if len(found) > 1:
            names = " and ".join(one.where for one in found)
            raise ClientConfigRefused(names, [f"{VARIABLE} names them all, and each is for {bootstrap}: keep one of them"])
        if found:
            return found[0]
    theirs = ", ".join(name for one in read for name in one.settings.bootstrap_servers)
    raise ClientConfigRefused(
        os.pathsep.join(map(str, paths)),
        [
            f"it is for {theirs}, and none is for {bootstrap}: add a file with bootstrap.servers={bootstrap} to {VARIABLE} "
            f"(with security.protocol=PLAINTEXT if that cluster has no security)"
        ],
    )
