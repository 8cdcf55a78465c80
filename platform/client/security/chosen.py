"""Which client configuration is a cluster's, when the program names none: `HEADRACE_CLIENT_CONFIG`.

It holds the path of one properties file, or of several with `:` between them. A file with `bootstrap.servers` is for the cluster
with these addresses only, a file without is for every other one. So the credentials of one cluster never go to another.
Without the variable clients speak in the clear, as they always did.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ..errors import ClientConfigRefused

if TYPE_CHECKING:
    from .client_security import ClientSecurity

VARIABLE = "HEADRACE_CLIENT_CONFIG"

_given_for: dict[str, Path] = {}
"""Bootstrap → the file that a command's flag, or a process's settings, named for it."""

ClientConfig: TypeAlias = "ClientSecurity | Path | str | Mapping[str, str]"
"""What a program may hand over: a file's path, or a file's names and values."""


def give(bootstrap: str, path: Path) -> None:
    """Take this file for the cluster, in the whole process, before what the environment names. For commands, at their start.

    Raises `ClientConfigRefused`.
    """
    from .client_security import ClientSecurity

    ClientSecurity(path)
    _given_for[bootstrap] = path


def check(paths: Sequence[Path]) -> None:
    """Raise `ClientConfigRefused` if one of the files cannot be used."""
    from .client_security import ClientSecurity

    for path in paths:
        ClientSecurity(path)


def security_for(
    bootstrap: str, given: "ClientConfig | None", environment: Mapping[str, str] | None = None
) -> "ClientSecurity | None":
    """Return how to speak to this cluster; None: in the clear. Raises `ClientConfigRefused`.

    What `given` holds comes first, then a file that `give` has named, then the environment.
    """
    given = _given_for.get(bootstrap) if given is None else given
    environment = os.environ if environment is None else environment
    if given is None:
        paths = [Path(word) for word in environment.get(VARIABLE, "").split(os.pathsep) if word]
        if not paths:
            return None
        return _chosen(bootstrap, paths)
    # Imported only here: who speaks in the clear needs no `ssl`.
    from .client_security import ClientSecurity

    if isinstance(given, ClientSecurity):
        return given
    return ClientSecurity(Path(given) if isinstance(given, str) else given)


def _chosen(bootstrap: str, paths: Sequence[Path]) -> "ClientSecurity":
    from .client_security import ClientSecurity

    wanted = {word.strip() for word in bootstrap.split(",")}
    read = [ClientSecurity(path) for path in paths]
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
