"""Calls on ZooKeeper's tree: each with a bounded wait, each with its error translated. Knows nodes, not what they mean.

A call that may be repeated without harm (reads, unconditional writes of a given value) is repeated until its time is over; one
that may not (create, conditional set, transaction) is sent once and answers ConnectionUnsure when its fate is not known.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    RequestTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.handlers.threading import KazooTimeoutError

from .errors import ConnectionUnsure, CoordinationError, SessionClosed, ValueTooLarge, VersionConflict

VALUE_LIMIT_BYTES = 900_000
"""Under jute.maxbuffer (1 MiB): the server answers a larger request by cutting the connection, with no word why."""
PIPELINE = 256
"""Calls of one `get_many` or `put_many` that are under way at once."""

_UNSURE = (
    ConnectionLoss,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    KazooTimeoutError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What stands in one node, as it was read."""

    data: bytes
    version: int
    owner_session: int
    """The session an ephemeral node lives with; 0 for a persistent one."""
    modified_ms: int
    """When it was last written, the same value or another, by ZooKeeper's own clock."""
    created_zxid: int
    """The number of the transaction that made it: a node that was removed and made again has another."""
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """An operation of a transaction: the node must not be there, its parent must."""

    path: str
    data: bytes
    ephemeral: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """An operation of a transaction: the node must be there, at `version` unless that is -1."""

    path: str
    data: bytes
    version: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """An operation of a transaction: the node must be there, at `version` unless that is -1."""

    path: str
    version: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """An operation of a transaction: the node must be there, at `version` unless that is -1."""

    path: str
    version: int = -1


Operation = Create | Write | Delete | Check


class Tree:
    """The calls of one session. Safe from any thread but kazoo's own (they would wait for themselves)."""

    def __init__(self, client: KazooClient, *, name: str, call_timeout_ms: int) -> None:
        self._client = client
        self._name = name
        self._call_timeout_ms = call_timeout_ms
        self._closed = threading.Event()

    def close(self) -> None:
        """Refuse every call from now on."""
        self._closed.set()

    @property
    def session_id(self) -> int | None:
        """The id of the present session, None while there is no connection."""
        identity = self._client.client_id
        return None if identity is None else identity[0]

    def read(self, path: str) -> Node | None:
        """Return the node, or None when there is none."""
        found = self._repeatable("read", path, lambda: self._client.get_async(path), absent=None)
        return None if found is None else _node(found)

    def read_many(self, paths: Iterable[str]) -> dict[str, Node]:
        """Return those of the nodes that are there, by path; the calls travel together."""
        found: dict[str, Node] = {}
        for some in _pieces(list(paths)):
            self._open("read", some[0])
            sent = [(path, self._client.get_async(path)) for path in some]
            for path, answer in sent:
                try:
                    found[path] = _node(self._await("read", path, answer))
                except NoNodeError:
                    continue
                except _UNSURE:
                    node = self.read(path)
                    if node is not None:
                        found[path] = node
        return found

    def children(self, path: str) -> list[str]:
        """Return the names below `path`, sorted; none when there is no such node."""
        return sorted(self._repeatable("list", path, lambda: self._client.get_children_async(path), absent=()))

    def children_many(self, paths: Iterable[str]) -> dict[str, list[str]]:
        """Return the sorted names below each path, none where there is no such node; the calls travel together."""
        found: dict[str, list[str]] = {}
        for some in _pieces(list(paths)):
            self._open("list", some[0])
            sent = [(path, self._client.get_children_async(path)) for path in some]
            for path, answer in sent:
                try:
                    found[path] = sorted(self._await("list", path, answer))
                except NoNodeError:
                    found[path] = []
                except _UNSURE:
                    found[path] = self.children(path)
        return found

    def delete_many(self, paths: Iterable[str]) -> set[str]:
        """Remove the nodes; return those that are gone by this call. One that has children stays; the calls travel together."""
        return self.delete_unchanged(dict.fromkeys(paths, -1))

    def delete_unchanged(self, versions: Mapping[str, int]) -> set[str]:
        """Remove those of the nodes that still have their version (-1: any); return those that are gone by this call. One that
        has children stays; the calls travel together.
        """
        gone: set[str] = set()
        for some in _pieces(list(versions)):
            self._open("delete", some[0])
            sent = [(path, self._client.delete_async(path, versions[path])) for path in some]
            for path, answer in sent:
                try:
                    self._await("delete", path, answer)
                except (NoNodeError, NotEmptyError, BadVersionError):
                    continue
                except _UNSURE as error:
                    raise ConnectionUnsure("delete", path, str(error) or type(error).__name__) from error
                gone.add(path)
        return gone

    def ensure(self, path: str) -> None:
        """Have persistent, empty nodes down to `path`; what is there stays as it is."""
        self._repeatable("create", path, lambda: self._client.ensure_path_async(path), absent=None)

    def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> bool:
        """Make the node and its (persistent) parents; return False when it is there already."""
        self._fits(path, data)
        try:
            self._once("create", path, lambda: self._client.create_async(path, data, ephemeral=ephemeral, makepath=True))
        except NodeExistsError:
            return False
        return True

    def create_many(self, values: Mapping[str, bytes]) -> dict[str, Node | CoordinationError | None]:
        """Make the nodes and their (persistent) parents; return those that are new, None where there is one already, and why
        it is not known or cannot be. The calls travel together, not as one act.
        """
        outcomes: dict[str, Node | CoordinationError | None] = {}
        fitting = {}
        for path, data in values.items():
            try:
                self._fits(path, data)
                fitting[path] = data
            except ValueTooLarge as error:
                outcomes[path] = error
        for some in _pieces(list(fitting)):
            self._open("create", some[0])
            sent = [(path, self._client.create_async(path, fitting[path], makepath=True, include_data=True)) for path in some]
            for path, (answer, why_not) in self._answers("create", sent, already=NodeExistsError).items():
                # It answers with the path and the new node's standing.
                outcomes[path] = why_not if answer is None else _node((fitting[path], answer[1]))
        return outcomes

    def delete_each(self, versions: Mapping[str, int]) -> dict[str, bool | CoordinationError]:
        """Remove the nodes that have their version (-1: any); return of each whether there was one, or why that is not known or
        cannot be. The calls travel together, not as one act.
        """
        outcomes: dict[str, bool | CoordinationError] = {}
        for some in _pieces(list(versions)):
            self._open("delete", some[0])
            sent = [(path, self._client.delete_async(path, versions[path])) for path in some]
            for path, (answer, error) in self._answers("delete", sent, already=NoNodeError).items():
                outcomes[path] = answer is not None if error is None else error
        return outcomes

    def write(self, path: str, data: bytes, *, version: int) -> int:
        """Write the node if it still has `version`; return the new version. Raises VersionConflict."""
        self._fits(path, data)
        try:
            stat = self._once("write", path, lambda: self._client.set_async(path, data, version))
        except (NoNodeError, BadVersionError):
            raise VersionConflict("write", path) from None
        new_version: int = stat.version
        return new_version

    def put(self, path: str, data: bytes) -> None:
        """Have the node hold `data`, made if it is not there."""
        self.put_many({path: data})

    def put_many(self, values: Mapping[str, bytes]) -> None:
        """Have each node hold its value, made if it is not there; the calls travel together, not as one act."""
        for path, data in values.items():
            self._fits(path, data)
        for some in _pieces(list(values)):
            self._open("write", some[0])
            sent = [(path, self._client.set_async(path, values[path])) for path in some]
            for path, answer in sent:
                try:
                    self._await("write", path, answer)
                except (NoNodeError, *_UNSURE):
                    self._put_one(path, values[path])

    def delete(self, path: str, *, version: int = -1) -> bool:
        """Remove the node; return False when there was none. Raises VersionConflict when it has another version or children."""
        try:
            self._once("delete", path, lambda: self._client.delete_async(path, version))
        except NoNodeError:
            return False
        except (BadVersionError, NotEmptyError):
            raise VersionConflict("delete", path) from None
        return True

    def transact(self, operations: Iterable[Operation]) -> int | None:
        """Carry out all of the operations or none; return None for all, else the index of the first that could not be."""
        wanted = list(operations)
        if not wanted:
            return None
        request = self._client.transaction()
        for operation in wanted:
            match operation:
                case Create(path=path, data=data, ephemeral=ephemeral):
                    self._fits(path, data)
                    request.create(path, data, ephemeral=ephemeral)
                case Write(path=path, data=data, version=version):
                    self._fits(path, data)
                    request.set_data(path, data, version)
                case Delete(path=path, version=version):
                    request.delete(path, version)
                case Check(path=path, version=version):
                    request.check(path, version)
        results = self._once("transact on", wanted[0].path, request.commit_async)
        for index, result in enumerate(results):
            # The operations before and after the refused one answer with these two: they tell who did not fail.
            if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
                return index
        return None

    def watch(self, path: str, kind: str, fired: Callable[[object], None]) -> None:
        """Have `fired` called once when the node (`kind` "data") or the list below it ("children") changes, comes or goes.

        It is called on kazoo's thread and must only set a flag. A broken connection calls it too.
        """
        while kind == "children":
            try:
                self._once("watch", path, lambda: self._client.get_children_async(path, watch=fired))
                return
            except NoNodeError:
                if self._once("watch", path, lambda: self._client.exists_async(path, watch=fired)) is None:
                    return
                # It came between the two questions: a watch on its existence would not see its children.
        self._once("watch", path, lambda: self._client.exists_async(path, watch=fired))

    def watch_data_many(self, watches: Mapping[str, Iterable[Callable[[object], None]]]) -> None:
        """Do what `watch` does for the nodes' own data; the calls travel together."""
        for some in _pieces(list(watches)):
            self._open("watch", some[0])
            sent = [(path, self._client.exists_async(path, watch=fired)) for path in some for fired in watches[path]]
            for path, answer in sent:
                self._once("watch", path, lambda answer=answer: answer)  # type: ignore[misc]

    def _put_one(self, path: str, data: bytes) -> None:
        deadline = time.monotonic() + self._call_timeout_ms / 1000
        while True:
            try:
                self._repeatable("write", path, lambda: self._client.set_async(path, data), absent=KeyError)
                return
            except KeyError:
                if self.create(path, data):
                    return
            if time.monotonic() > deadline:  # made and removed under our hands, time after time
                raise ConnectionUnsure("write", path, "it comes and goes")

    def _repeatable(self, what: str, path: str, send: Callable[[], Any], *, absent: Any) -> Any:
        deadline = time.monotonic() + self._call_timeout_ms / 1000
        while True:
            try:
                return self._once(what, path, send)
            except NoNodeError:
                if absent is KeyError:
                    raise KeyError(path) from None
                return absent
            except ConnectionUnsure:
                if self._closed.wait(0.02) or time.monotonic() > deadline:
                    raise

    def _once(self, what: str, path: str, send: Callable[[], Any]) -> Any:
        self._open(what, path)
        try:
            return self._await(what, path, send())
        except (NoNodeError, NodeExistsError, BadVersionError, NotEmptyError):
            raise
        except _UNSURE as error:
            self._open(what, path)  # our own closing is not the network's fault
            reason = str(error) or type(error).__name__
            raise ConnectionUnsure(what, path, reason) from error
        except KazooException as error:
            raise _failed(what, path, error) from error

    def _await(self, what: str, path: str, answer: Any) -> Any:
        return answer.get(timeout=self._call_timeout_ms / 1000)

    def _answers(
        self, what: str, sent: Iterable[tuple[str, Any]], *, already: type[KazooException]
    ) -> dict[str, tuple[Any, CoordinationError | None]]:
        """Return of each call its answer, or None and why there is none: no error where what it was to do was done `already`. All
        within one call's time.
        """
        answers: dict[str, tuple[Any, CoordinationError | None]] = {}
        deadline = time.monotonic() + self._call_timeout_ms / 1000
        for path, answer in sent:
            try:
                answers[path] = answer.get(timeout=max(0.0, deadline - time.monotonic())), None
            except already:
                answers[path] = None, None
            except (BadVersionError, NotEmptyError):
                answers[path] = None, VersionConflict(what, path)
            except _UNSURE as error:
                answers[path] = None, ConnectionUnsure(what, path, str(error) or type(error).__name__)
            except KazooException as error:
                answers[path] = None, _failed(what, path, error)
        return answers

    def _open(self, what: str, path: str) -> None:
        if self._closed.is_set():
            raise SessionClosed(self._name, f"{what} {path}")

    @staticmethod
    def _fits(path: str, data: bytes) -> None:
        if len(data) > VALUE_LIMIT_BYTES:
            raise ValueTooLarge(path, len(data), VALUE_LIMIT_BYTES)


def _failed(what: str, path: str, error: KazooException) -> CoordinationError:
    return CoordinationError(f"{what} {path} in ZooKeeper failed: {type(error).__name__} {error}")


def _pieces(paths: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(paths), PIPELINE):
        yield paths[start : start + PIPELINE]


def _node(found: Any) -> Node:
    data, stat = found
    return Node(
        data=data or b"",
        version=stat.version,
        owner_session=stat.ephemeralOwner,
        modified_ms=stat.mtime,
        created_zxid=stat.czxid,
        created_ms=stat.ctime,
    )
