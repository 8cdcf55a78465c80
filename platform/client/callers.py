"""Who calls an HTTP service of ours, and what it may do: the service asks its cluster, so there is no second list of either.

It logs in to a broker with what the caller showed (a user's password, or a bearer token), and asks on that connection which
operations the caller is authorized to (KIP-430). What it learned is used for at most a second. Any thread may call.

Access rules by host see the service's address, not the caller's.
"""

import base64
import hashlib
import json
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..runtime.clock import Clock, SystemClock
from ..runtime.failed_logins import Failures
from ..runtime.http_access import NotAdmitted
from ..runtime.logs import get_logger
from ..runtime.rate_limited_log import RateLimitedLog
from ..wire.messages import control
from .connection.cluster import parse_bootstrap
from .connection.connection import Connection
from .errors import AuthenticationFailed, BrokerUnreachable, ClientError
from .security import mechanisms
from .security.chosen import ClientConfig, security_for
from .security.secret_value import Secret

if TYPE_CHECKING:
    from .security.client_security import ClientSecurity
    from .security.tls_socket import TlsSocket

LONGEST_AGE_MS = 1_000
"""How long what was learned of a caller is used: a changed password or rule is in force after it."""
MOST_CALLERS = 64
"""Remembered at a time, each with a connection to a broker."""
MOST_TOPICS = 10_000
"""Remembered of one caller."""
TIMEOUT_MS = 5_000
LONGEST_HEADER = 16 * 1024
METADATA, CREATE_TOPICS = 3, 19
UNKNOWN_TOPIC, DENIED = 3, 29
READ, WRITE, ALTER, DESCRIBE = 3, 4, 7, 8
"""Kafka's numbers of operations; bits of authorized operations."""
EVERYTHING = -1
_NOT_GIVEN = -(1 << 31)
PASSWORD_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")


class _Shown:
    """How a connection is secured and logs in for a caller. It has the part of `ClientSecurity` that a `Connection` uses."""

    def __init__(self, own: "ClientSecurity | None", mechanism: str, exchange: Callable[[], mechanisms.Exchange]) -> None:
        self._own = own
        self.mechanism = mechanism
        self.exchange = exchange

    def wrapped(self, raw: socket.socket, host: str, address: str, timeout_s: float) -> "socket.socket | TlsSocket":
        return raw if self._own is None else self._own.wrapped(raw, host, address, timeout_s)

    def check_may_try(self, address: str) -> None:
        pass

    def refused(self, address: str, error: ClientError) -> None:
        pass

    def accepted(self, address: str) -> None:
        pass

    def refusal_in(self, address: str, error: BaseException) -> None:
        return None


class Caller:
    """One who has logged in."""

    def __init__(self, name: str, connection: Connection, since_ms: int) -> None:
        self.name = name
        self.since_ms = since_ms
        self.users = 0
        self.is_old = False
        self._connection = connection
        self._lock = threading.Lock()
        self._topics: dict[str, int | None] = {}
        """Authorized operations, None where there is no such topic. 0 also where the caller may not see the topic."""
        self._new: dict[str, bool] = {}
        self._cluster: int | None = None
        self._visible: dict[str, int] | None = None

    def may_on_cluster(self, operation: int) -> bool:
        """Return whether it may do this with the cluster. Raises ClientError."""
        with self._lock:
            if self._cluster is None:
                self._cluster = _bits(self._ask_metadata(()).cluster_authorized_operations)
            return bool(self._cluster >> operation & 1)

    def visible(self) -> frozenset[str] | None:
        """Return the topics that it may describe; None: all, for it may describe the cluster. Raises ClientError."""
        if self.may_on_cluster(DESCRIBE):
            return None
        with self._lock:
            return frozenset(self._all())

    def readable(self) -> frozenset[str] | None:
        """Return the topics that it may read; None: all, for it may describe the cluster. Raises ClientError."""
        if self.may_on_cluster(DESCRIBE):
            return None
        with self._lock:
            return frozenset(name for name, bits in self._all().items() if bits >> READ & 1)

    def may(self, operation: int, topic: str) -> bool:
        """Return whether it may do this with a topic. WRITE to a topic that does not exist: whether it may create it. Raises
        ClientError.
        """
        with self._lock:
            self._learn(topic)
            if self._topics.get(topic) is None and operation in (WRITE, ALTER):
                if topic not in self._new:
                    self._new[topic] = operation == WRITE and self._may_create(topic)
                return self._new[topic]
            return self._may(topic, operation)

    def close(self) -> None:
        self._connection.close()

    def _all(self) -> dict[str, int]:
        if self._visible is None:
            found = self._ask_metadata(None).topics
            self._visible = {str(one.name): _bits(one.topic_authorized_operations) for one in found if not one.error_code}
        return self._visible

    def _may(self, topic: str, operation: int) -> bool:
        bits = self._topics.get(topic)
        return operation in (DESCRIBE, READ) if bits is None else bool(bits >> operation & 1)

    def _learn(self, topic: str) -> None:
        if topic in self._topics:
            return
        if len(self._topics) >= MOST_TOPICS:
            self._topics.clear()
            self._new.clear()
        (found,) = self._ask_metadata((topic,)).topics
        error = int(found.error_code)
        self._topics[topic] = None if error == UNKNOWN_TOPIC else 0 if error else _bits(found.topic_authorized_operations)

    def _ask_metadata(self, topics: Collection[str] | None) -> Any:
        wanted = {
            "topics": None if topics is None else [{"topic_id": None, "name": one} for one in topics],
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": True,
            "include_topic_authorized_operations": True,
        }
        return self._ask(METADATA, 8, 10, wanted)

    def _may_create(self, topic: str) -> bool:
        new = {"name": topic, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        (answer,) = self._ask(CREATE_TOPICS, 1, 5, {"topics": [new], "timeout_ms": TIMEOUT_MS, "validate_only": True}).topics
        return int(answer.error_code) == 0

    def _ask(self, api_key: int, lowest: int, highest: int, message: Mapping[str, Any]) -> Any:
        version = self._connection.version(api_key, lowest, highest)
        answer = self._connection.request(api_key, version, control.encode_request(api_key, version, message))
        return control.decode_response(api_key, version, answer)


class Callers:
    """Logs callers in."""

    def __init__(
        self,
        bootstrap: str,
        *,
        security: "ClientConfig | None" = None,
        clock: Clock | None = None,
    ) -> None:
        """`security` of the service's own connections: its TLS is used, and its mechanism for passwords. Raises ClientError."""
        self._seeds = parse_bootstrap(bootstrap)
        self._own = security_for(bootstrap, security)
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._callers: OrderedDict[bytes, Caller] = OrderedDict()
        self._failures = Failures()
        self._log = RateLimitedLog(get_logger(__name__), self._clock.monotonic_ms)

    @contextmanager
    def admitted(self, authorization: str | None, host: str) -> Iterator[Caller]:
        """Yield the caller that the header `Authorization` names. Raises NotAdmitted, and ClientError when no broker answers."""
        caller = self._take(authorization or "", host)
        try:
            yield caller
        finally:
            self._leave(caller)

    def close(self) -> None:
        """Forget all callers."""
        with self._lock:
            forgotten = [self._callers.popitem()[1] for _ in range(len(self._callers))]
        for one in forgotten:
            one.close()

    def _take(self, authorization: str, host: str) -> Caller:
        key = hashlib.sha256(authorization.encode("utf-8", "surrogateescape")).digest()
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            caller = self._callers.get(key)
            if caller is not None and now_ms - caller.since_ms < LONGEST_AGE_MS:
                caller.users += 1
                return caller
        name, shown = self._read(authorization)
        with self._lock:
            if self._failures.too_many(host, name, now_ms):
                raise NotAdmitted
        try:
            connection = self._logged_in(shown)
        except AuthenticationFailed as error:
            with self._lock:
                self._failures.add(host, name, self._clock.monotonic_ms())
            self._log.warning("login_failed", peer=host, user=name[:100], why=str(error))
            raise NotAdmitted from None
        made = Caller(name, connection, now_ms)
        made.users = 1
        with self._lock:
            gone = [self._callers.pop(key)] if key in self._callers else []
            if len(self._callers) >= MOST_CALLERS:
                gone.append(self._callers.popitem(last=False)[1])
            self._callers[key] = made
            for one in gone:
                one.is_old = True
            unused = [one for one in gone if not one.users]
        for one in unused:
            one.close()
        return made

    def _leave(self, caller: Caller) -> None:
        with self._lock:
            caller.users -= 1
            is_last = caller.is_old and not caller.users
        if is_last:
            caller.close()

    def _read(self, authorization: str) -> tuple[str, _Shown]:
        kind, _, word = authorization.partition(" ")
        word = word.strip()
        if len(authorization) > LONGEST_HEADER or not word:
            raise NotAdmitted
        if kind.lower() == "bearer":
            return _subject_of(word), _Shown(self._own, "OAUTHBEARER", lambda: mechanisms.oauth_bearer(lambda: Secret(word), {}))
        if kind.lower() != "basic":
            raise NotAdmitted
        try:
            name, colon, password = base64.b64decode(word, validate=True).decode().partition(":")
        except ValueError:
            raise NotAdmitted from None
        if not colon or not name or not password or "\0" in name + password:
            raise NotAdmitted
        mechanism = self._own.mechanism if self._own is not None else None
        mechanism = mechanism if mechanism in PASSWORD_MECHANISMS else PASSWORD_MECHANISMS[0]
        if mechanism == "PLAIN":
            return name, _Shown(self._own, mechanism, lambda: mechanisms.plain(name, Secret(password)))
        return name, _Shown(self._own, mechanism, lambda: mechanisms.scram_login(mechanism, name, Secret(password)))

    def _logged_in(self, shown: _Shown) -> Connection:
        failed: ClientError | None = None
        for host, port in self._seeds:
            connection = Connection(host, port, "headrace-login", TIMEOUT_MS, security=shown)  # type: ignore[arg-type]
            try:
                connection.version(METADATA, 8, 10)  # connects, and logs in
            except BrokerUnreachable as error:
                connection.close()
                failed = error
            except BaseException:
                connection.close()
                raise
            else:
                return connection
        assert failed is not None
        raise failed


def _bits(operations: int) -> int:
    """Return the authorized operations. A cluster without access rules gives none: everyone may do everything."""
    return EVERYTHING if int(operations) == _NOT_GIVEN else int(operations)


def _subject_of(token: str) -> str:
    """Return whom the token says it is for, to count failures. The broker alone decides whether that is true."""
    try:
        body = token.split(".")[1]
        subject = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))).get("sub")
    except (ValueError, IndexError, AttributeError, RecursionError):
        return ""
    return subject[:250] if isinstance(subject, str) else ""
