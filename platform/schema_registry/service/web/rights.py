"""What a caller of the registry may do: the cluster's access rules for the topic that a subject belongs to.

`clicks-value` and `clicks-key` belong to the topic `clicks`; any other subject is taken as a topic's name itself. DESCRIBE (which
READ and WRITE include) reads a subject, WRITE registers in it, ALTER administers it. Who may create a topic that does not exist
yet may register for it. Global settings want ALTER on the cluster.
"""

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import unquote

from ....client.callers import ALTER, DESCRIBE, WRITE, Caller, Callers
from ....runtime.http_access import Refused

ANYONE, READ_SUBJECT, WRITE_SUBJECT, ADMIN_SUBJECT, ADMIN = "login", "read", "write", "admin", "global"

NEEDS: dict[tuple[str, str], str] = {
    ("GET", "/"): ANYONE,
    ("POST", "/"): ANYONE,
    ("GET", "/contexts"): ANYONE,
    ("GET", "/v1/metadata/id"): ANYONE,
    ("GET", "/v1/metadata/version"): ANYONE,
    ("GET", "/healthz"): ANYONE,
    ("GET", "/readyz"): ANYONE,
    ("GET", "/openapi.json"): ANYONE,
    ("GET", "/metrics"): ANYONE,
    ("GET", "/config"): ANYONE,
    ("GET", "/mode"): ANYONE,
    ("GET", "/schemas/types"): ANYONE,
    # These show what the caller may read, and leave out the rest.
    ("GET", "/subjects"): ANYONE,
    ("GET", "/schemas"): ANYONE,
    ("GET", "/schemas/ids/{id}"): ANYONE,
    ("GET", "/schemas/ids/{id}/schema"): ANYONE,
    ("GET", "/schemas/ids/{id}/subjects"): ANYONE,
    ("GET", "/schemas/ids/{id}/versions"): ANYONE,
    ("POST", "/subjects/{subject}"): READ_SUBJECT,
    ("GET", "/subjects/{subject}/metadata"): READ_SUBJECT,
    ("GET", "/subjects/{subject}/versions"): READ_SUBJECT,
    ("GET", "/subjects/{subject}/versions/{version}"): READ_SUBJECT,
    ("GET", "/subjects/{subject}/versions/{version}/schema"): READ_SUBJECT,
    ("GET", "/subjects/{subject}/versions/{version}/referencedby"): READ_SUBJECT,
    ("POST", "/compatibility/subjects/{subject}/versions"): READ_SUBJECT,
    ("POST", "/compatibility/subjects/{subject}/versions/{version}"): READ_SUBJECT,
    ("GET", "/config/{subject}"): READ_SUBJECT,
    ("GET", "/mode/{subject}"): READ_SUBJECT,
    ("POST", "/subjects/{subject}/versions"): WRITE_SUBJECT,
    ("DELETE", "/subjects/{subject}"): ADMIN_SUBJECT,
    ("DELETE", "/subjects/{subject}/versions/{version}"): ADMIN_SUBJECT,
    ("PUT", "/config/{subject}"): ADMIN_SUBJECT,
    ("DELETE", "/config/{subject}"): ADMIN_SUBJECT,
    ("PUT", "/mode/{subject}"): ADMIN_SUBJECT,
    ("DELETE", "/mode/{subject}"): ADMIN_SUBJECT,
    ("PUT", "/config"): ADMIN,
    ("DELETE", "/config"): ADMIN,
    ("PUT", "/mode"): ADMIN,
    ("DELETE", "/mode"): ADMIN,
}
"""Every route. A request for any other is refused."""
_OPERATIONS = {READ_SUBJECT: (DESCRIBE, "DESCRIBE"), WRITE_SUBJECT: (WRITE, "WRITE"), ADMIN_SUBJECT: (ALTER, "ALTER")}
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_ROUTES = [
    (
        method,
        re.compile(
            "".join(
                f"(?P<{part[1:-1]}>[^/]+)" if part.startswith("{") else re.escape(part) for part in re.split(r"(\{\w+\})", path)
            )
        ),
        need,
    )
    for (method, path), need in NEEDS.items()
]


class RegistryLogins:
    """Admits callers of the registry (`runtime.serving.guard.Logins`)."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    def admitted(self, authorization: str | None, host: str) -> AbstractContextManager[Caller]:
        return self._callers.admitted(authorization, host)

    def check(self, caller: Caller, method: str, path: str, query: bytes) -> None:
        """Raise Refused when the caller has no right to the request."""
        need, subject = _need(method, path)
        if need == ANYONE:
            return
        if need == ADMIN:
            if not caller.may_on_cluster(ALTER):
                raise Refused(f"User:{caller.name} has no right to ALTER the cluster, which global settings want")
            return
        operation, word = _OPERATIONS[need]
        if not may(caller, operation, subject):
            raise Refused(f"User:{caller.name} has no right to {word} the topic of the subject {subject[:250]!r}")


def _need(method: str, path: str) -> tuple[str, str]:
    """Return the need of a request, and its subject. For a path that is not served the application has an answer."""
    path = path[:-1] if len(path) > 1 and path.endswith("/") else path
    for known, pattern, need in _ROUTES:
        if known == ("GET" if method == "HEAD" else method) and (found := pattern.fullmatch(path)) is not None:
            return need, unquote(found.groupdict().get("subject", ""), errors="replace")
    return ANYONE, ""


def may(caller: Caller, operation: int, subject: str) -> bool:
    """Return whether the caller may do this with the subject. Raises ClientError."""
    topic = topic_of(subject)
    return caller.may_on_cluster(ALTER) if topic is None else caller.may(operation, topic) or caller.may_on_cluster(ALTER)


def readable(caller: Any, subjects: Iterable[str]) -> list[str]:
    """Return the subjects that the caller may read; all where callers do not log in. Raises ClientError."""
    seen = None if caller is None else caller.visible()
    return [one for one in subjects if seen is None or topic_of(one) in seen]


def topic_of(subject: str) -> str | None:
    """Return the name of the topic that the subject belongs to; None where no topic can have it."""
    name = subject.removesuffix("-value") if subject.endswith("-value") else subject.removesuffix("-key")
    return name if _TOPIC.fullmatch(name) and name not in (".", "..") else None
