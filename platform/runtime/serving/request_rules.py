"""Which requests a browser may have been tricked into, judged by `Host`, `Origin`, `Sec-Fetch-Site` and `Content-Type`. Pure.

A page of another origin can send GET, HEAD and some POSTs anywhere without asking first ("simple" requests). It cannot change
`Host`, `Origin` or `Sec-Fetch-Site`. A page whose own name was bound to our address ("DNS rebinding") is of the same origin as we
are, so only the name in `Host` gives it away. Sources: the Fetch standard; Fetch Metadata; RFC 9110, 7.2 and 15.5.20.
"""

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

SETTING = "HEADRACE_ALLOWED_HOSTS"
"""Names, separated by commas, by which clients reach the HTTP services of this process; `.example.com` is every name below it."""
NOT_PUBLIC = (".localhost", ".svc", ".cluster.local")
"""Suffixes of names that cannot be registered. Nor can names without a dot: of containers, services, machines nearby."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""They change nothing in any service of ours."""
SIMPLE_TYPES = frozenset({"text/plain", "application/x-www-form-urlencoded", "multipart/form-data"})
"""What a browser sends anywhere without asking first."""
OWN_SITE = frozenset({"same-origin", "none"})
"""Values of `Sec-Fetch-Site` that a page of ours, or the user, causes."""

SAFETY = (("X-Content-Type-Options", "nosniff"), ("X-Frame-Options", "DENY"), ("Cross-Origin-Resource-Policy", "same-origin"))
"""Headers of every response: browsers do not frame it, guess its type, or load it into a page of another origin."""
POLICY = "Content-Security-Policy"
NO_PAGE = "default-src 'none'; frame-ancestors 'none'"
"""The policy of what is not a page of ours: nothing is loaded for it."""

MOST_REMEMBERED = 256

_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")
_PORT = re.compile(r"(?::[0-9]{0,5})?")


class Refusal(NamedTuple):
    """Why a request is not answered."""

    status: int
    words: str


class AllowedHosts:
    """The names by which a service may be called."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """`names`: besides addresses, names without a dot, and those that end like `NOT_PUBLIC`."""
        given = [name.strip().lower().rstrip(".") for name in names]
        self._names = frozenset(name for name in given if name and not name.startswith("."))
        self._admitted: set[str] = set()
        """Values of the header that were admitted: looked at once, not with each request."""
        self._ends = (*NOT_PUBLIC, *(name for name in given if len(name) > 1 and name.startswith(".")))

    def admit(self, host: str) -> bool:
        """Return whether a `Host` header's value, `name` or `name:port`, names this service."""
        if host in self._admitted:
            return True
        is_ours = self._is_ours(host)
        if is_ours and len(self._admitted) < MOST_REMEMBERED:
            self._admitted.add(host)
        return is_ours

    def _is_ours(self, host: str) -> bool:
        name = _name_in(host)
        if name is None:
            return False
        # A rebound name is never an address: the browser would have to be reported the address, and then has its origin.
        return "." not in name or _is_address(name) or name in self._names or name.endswith(self._ends)


def allowed_hosts(environment: Mapping[str, str], *more: str) -> AllowedHosts:
    """Return the names of this machine, those of the environment, and `more`."""
    return AllowedHosts([socket.gethostname(), *environment.get(SETTING, "").split(","), *more])


def why_refused(method: str, values: Callable[[str], Sequence[str]], allowed: AllowedHosts) -> Refusal | None:
    """Return why a request must not be answered, None for one that may be. `values`: those of a header by its name.

    A request without `Host` is not a browser's: probes of load balancers send such.
    """
    hosts = values("host")
    if len(hosts) > 1:
        return Refusal(400, "the request has several Host headers: send one")
    if hosts and not allowed.admit(hosts[0]):
        return Refusal(
            421,
            f"{hosts[0][:100]!r} is none of this service's names: call it by an address or a name without a dot, or list the "
            f"name in {SETTING} of the service's environment",
        )
    if method in SAFE_METHODS:
        return None
    origins = values("origin")
    if any(not hosts or _authority(origin) != hosts[0].lower() for origin in origins):
        return Refusal(403, f"a page of {origins[0][:100]!r} must not change anything here: send the request without a browser")
    if any(site.strip().lower() not in OWN_SITE for site in values("sec-fetch-site")):
        return Refusal(403, "a page of another site must not change anything here: send the request without a browser")
    kinds = [kind.partition(";")[0].strip().lower() for kind in values("content-type")]
    if simple := next((kind for kind in kinds if kind in SIMPLE_TYPES), None):
        return Refusal(415, f"the body is {simple}, which any page may send: send application/json")
    return None


def _name_in(host: str) -> str | None:
    """Return the name in `name:port`, `1.2.3.4:port` or `[::1]:port`; None if it is none."""
    host = host.strip().lower()
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        return name if bracket and _is_address(name) and _PORT.fullmatch(port) else None
    name, colon, port = host.partition(":")
    name = name.removesuffix(".")
    return name if _NAME.fullmatch(name) and _PORT.fullmatch(colon + port) else None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _authority(origin: str) -> str:
    """Return `host:port` of an origin, as the browser sends it in `Host`; empty for `null`."""
    return origin.strip().lower().partition("://")[2]
