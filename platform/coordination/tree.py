"""Calls on ZooKeeper's tree. Each call has a bounded wait and translates kazoo's errors. Does not know what the nodes mean.

Reads and unconditional writes of a given value may be repeated without harm: they are repeated until their time is over. A
create, a conditional write and a transaction are sent once; when their outcome is unknown they raise ConnectionUnsure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
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
from kazoo.security import ACL, Id

from .errors import ConnectionUnsure, CoordinationError, NodeForbidden, SessionClosed, ValueTooLarge, VersionConflict
from .node import Listing, Node, node_of
from .node_rights import ANYONE, Entry, rights_of
from .operations import Check, Create, Delete, Operation, Write
from .surroundings import SYSTEM, Surroundings

VALUE_LIMIT_BYTES = 900_000
"""Below jute.maxbuffer (1 MiB). The server closes the connection on a larger request and gives no reason."""
PIPELINE = 256
"""How many calls of one `read_many` or `put_many` are sent before the first response is awaited."""

_UNSURE = (
    ConnectionLoss,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    KazooTimeoutError,
)


class Tree:
    """The calls of one session. Any thread but kazoo's own may make them: kazoo's thread would wait for itself."""

    def __init__(
        self,
        client: KazooClient,
        *,
        name: str,
        call_timeout_ms: int,
        surroundings: Surroundings = SYSTEM,
        identities: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """`identities`: the names in certificates by role, whose rights new nodes get; None: everyone may change them."""
        self._client = client
        self._identities = identities
        self._name = name
        self._call_timeout_ms = call_timeout_ms
        self._now_ms = surroundings.monotonic_ms
        self._closed = surroundings.event()

    def close(self) -> None:
        """Refuse every call from now on."""
        self._closed.set()

    @property
    def session_id(self) -> int | None:
        """The id of the session now, None while there is no connection."""
        identity = self._client.client_id
        return None if identity is None else identity[0]

    def read(self, path: str, *, fired: Callable[[object], None] | None = None) -> Node | None:
        """Return the node, or None when it does not exist. `fired` watches it, as in `read_many`."""
        found = self._repeatable("read", path, lambda: self._client.get_async(path, watch=fired), absent=None)
        return None if found is None else node_of(found)

    def read_many(self, paths: Iterable[str], *, fired: Callable[[object], None] | None = None) -> dict[str, Node]:
        """Return the nodes that exist, by path. The calls are pipelined.

        `fired` is called once when one of those that exist changes or disappears, as in `watch`.
        """
        found: dict[str, Node] = {}
        for some in _runs_of(list(paths)):
            self._open("read", some[0])
            sent = [(path, self._client.get_async(path, watch=fired)) for path in some]
            for path, answer in sent:
                try:
                    found[path] = node_of(self._await("read", path, answer))
                except NoNodeError:
                    continue
                except _UNSURE:
                    node = self.read(path, fired=fired)
                    if node is not None:
                        found[path] = node
        return found

    def children(self, path: str) -> list[str]:
        """Return the names below `path`, sorted; an empty list when the node does not exist."""
        return sorted(self._repeatable("list", path, lambda: self._client.get_children_async(path), absent=()))

    def listing(self, path: str) -> Listing:
        """Return the names below `path` and how often that list has changed; an empty one when the node does not exist."""
        found = self._repeatable("list", path, lambda: self._client.get_children_async(path, include_data=True), absent=None)
        if found is None:
            return Listing(names=frozenset())
        names, stat = found
        return Listing(names=frozenset(names), created_zxid=stat.czxid, change_count=stat.cversion)

    def child_count(self, path: str) -> int:
        """Return how many nodes are right below `path`; 0 when it does not exist."""
        found = self._repeatable("look at", path, lambda: self._client.exists_async(path), absent=None)
        return 0 if found is None else int(found.numChildren)

    def children_many(self, paths: Iterable[str]) -> dict[str, list[str]]:
        """Return the sorted names below each path; an empty list where the node does not exist. The calls are pipelined."""
        found: dict[str, list[str]] = {}
        for some in _runs_of(list(paths)):
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
        """Remove the nodes and return those that this call removed. A node with children stays. The calls are pipelined."""
        return self.delete_unchanged(dict.fromkeys(paths, -1))

    def delete_unchanged(self, versions: Mapping[str, int]) -> set[str]:
        """Remove the nodes that still have their version (-1: any) and return those that this call removed. A node with children
        stays. The calls are pipelined.
        """
        gone: set[str] = set()
        for some in _runs_of(list(versions)):
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
        """Make the missing nodes down to `path`, persistent and empty. Existing nodes stay as they are."""
        self._repeatable("create", path, lambda: self._client.ensure_path_async(path, self._acl(path)), absent=None)

    def ensure_chroot(self, path: str) -> None:
        """Make the node that is to be this tree's root, and its missing parents."""
        self._repeatable("create", path, lambda: self._client.ensure_path_async(path, self._acl("/")), absent=None)

    def existing(self, paths: Iterable[str]) -> set[str]:
        """Return those that exist. No right is needed for that. The calls are pipelined."""
        wanted = list(paths)
        self._open("look at", wanted[0])
        sent = [(path, self._client.exists_async(path)) for path in wanted]
        return {path for path, answer in sent if self._await("look at", path, answer) is not None}

    def rights(self, path: str) -> tuple[Entry, ...] | None:
        """Return a node's rights, sorted; None when it does not exist."""
        found = self._repeatable("read the rights of", path, lambda: self._client.get_acls_async(path), absent=None)
        return None if found is None else tuple(sorted(_entry(one) for one in found[0]))

    def set_rights(self, path: str, entries: Sequence[Entry] | None = None) -> None:
        """Give the node these rights; None: those of its path. A node that is gone stays gone."""
        acl = self._acl(path) if entries is None else [_acl(one) for one in entries]
        self._repeatable("give rights to", path, lambda: self._client.set_acls_async(path, acl), absent=None)

    def _acl(self, path: str) -> list[ACL] | None:
        return None if self._identities is None else [_acl(one) for one in rights_of(path, self._identities)]

    def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> bool:
        """Make the node and its missing parents, which are persistent. Return False when the node exists."""
        self._fits(path, data)
        deadline_ms = self._now_ms() + self._call_timeout_ms
        while True:
            try:
                self._once(
                    "create",
                    path,
                    lambda: self._client.create_async(path, data, self._acl(path), ephemeral=ephemeral, makepath=True),
                )
            except NodeExistsError:
                return False
            except NoNodeError as error:  # another client removed the parents before the node was made in them
                if self._now_ms() > deadline_ms:
                    raise ConnectionUnsure("create", path, "its parents come and go") from error
                continue
            return True

    def create_many(self, values: Mapping[str, bytes], *, ephemeral: bool = False) -> dict[str, Node | CoordinationError | None]:
        """Make the nodes and their missing parents, which are persistent. The calls are pipelined, not a transaction.

        Return for each path the new node, None where the node existed, or the error where the call failed or its outcome is
        unknown.
        """
        outcomes: dict[str, Node | CoordinationError | None] = {}
        fitting = {}
        for path, data in values.items():
            try:
                self._fits(path, data)
                fitting[path] = data
            except ValueTooLarge as error:
                outcomes[path] = error
        for some in _runs_of(list(fitting)):
            self._open("create", some[0])
            self._make_parents(some)
            sent = [
                (
                    path,
                    self._client.create_async(
                        path, fitting[path], self._acl(path), ephemeral=ephemeral, makepath=True, include_data=True
                    ),
                )
                for path in some
            ]
            for path, (answer, why_not) in self._answers("create", sent, already=NodeExistsError).items():
                # The response holds the path and the new node's standing.
                outcomes[path] = why_not if answer is None else node_of((fitting[path], answer[1]))
        return outcomes

    def _make_parents(self, paths: Iterable[str]) -> None:
        """Make the missing parents beforehand, in one call each: kazoo makes three for each node, one after another.
        What cannot be made now, it tries again with its nodes.
        """
        parents = dict.fromkeys(path.rpartition("/")[0] for path in paths)
        sent = [(path, self._client.create_async(path, acl=self._acl(path), makepath=True)) for path in parents if path]
        self._answers("create", sent, already=NodeExistsError)

    def delete_each(self, versions: Mapping[str, int]) -> dict[str, bool | CoordinationError]:
        """Remove the nodes that have their version (-1: any). The calls are pipelined, not a transaction.

        Return for each path whether the node existed, or the error where the call failed or its outcome is unknown.
        """
        outcomes: dict[str, bool | CoordinationError] = {}
        for some in _runs_of(list(versions)):
            self._open("delete", some[0])
            sent = [(path, self._client.delete_async(path, versions[path])) for path in some]
            for path, (answer, error) in self._answers("delete", sent, already=NoNodeError).items():
                outcomes[path] = answer is not None if error is None else error
        return outcomes

    def write_each(self, values: Mapping[str, tuple[bytes, int]]) -> dict[str, int | CoordinationError | None]:
        """Write each (data, version) to its node, if it still has the version. The calls are pipelined, not a transaction.

        Return for each path the new version, None where there is no node, or the error where the call failed or its outcome is
        unknown.
        """
        for path, (data, _) in values.items():
            self._fits(path, data)
        outcomes: dict[str, int | CoordinationError | None] = {}
        for some in _runs_of(list(values)):
            self._open("write", some[0])
            sent = [(path, self._client.set_async(path, *values[path])) for path in some]
            for path, (stat, error) in self._answers("write", sent, already=NoNodeError).items():
                outcomes[path] = error if stat is None else stat.version
        return outcomes

    def write(self, path: str, data: bytes, *, version: int) -> int:
        """Write the node if it still has `version`, and return the new version. Raises VersionConflict."""
        self._fits(path, data)
        try:
            stat = self._once("write", path, lambda: self._client.set_async(path, data, version))
        except (NoNodeError, BadVersionError):
            raise VersionConflict("write", path) from None
        new_version: int = stat.version
        return new_version

    def put(self, path: str, data: bytes) -> None:
        """Write `data` to the node; make the node when it does not exist."""
        self.put_many({path: data})

    def put_many(self, values: Mapping[str, bytes]) -> None:
        """Write each value to its node; make the nodes that do not exist. The calls are pipelined, not a transaction."""
        for path, data in values.items():
            self._fits(path, data)
        for some in _runs_of(list(values)):
            self._open("write", some[0])
            sent = [(path, self._client.set_async(path, values[path])) for path in some]
            for path, answer in sent:
                try:
                    self._await("write", path, answer)
                except (NoNodeError, *_UNSURE):
                    self._put_one(path, values[path])

    def delete(self, path: str, *, version: int = -1) -> bool:
        """Remove the node; return False when it does not exist. Raises VersionConflict for another version or children."""
        try:
            self._once("delete", path, lambda: self._client.delete_async(path, version))
        except NoNodeError:
            return False
        except (BadVersionError, NotEmptyError):
            raise VersionConflict("delete", path) from None
        return True

    def transact(self, operations: Iterable[Operation]) -> int | None:
        """Carry out all of the operations or none. Return None for all, else the index of the first operation that failed."""
        wanted = list(operations)
        if not wanted:
            return None
        request = self._transaction(wanted)
        outcome = _outcome(wanted, self._once("transact on", wanted[0].path, request.commit_async))
        if isinstance(outcome, NodeForbidden):
            raise outcome
        return outcome

    def transact_each(self, transactions: Iterable[Sequence[Operation]]) -> list[int | CoordinationError | None]:
        """Carry out each of the transactions, all of its operations or none. The calls are pipelined.

        Return for each what `transact` returns, or the error where the call failed or its outcome is unknown.
        """
        wanted = list(transactions)
        outcomes: list[int | CoordinationError | None] = []
        for start in range(0, len(wanted), PIPELINE):
            some = wanted[start : start + PIPELINE]
            self._open("transact on", some[0][0].path)
            sent = [(str(number), self._transaction(one).commit_async()) for number, one in enumerate(some)]
            answers = self._answers("transact on", sent, already=NodeExistsError).values()
            outcomes += [
                _outcome(one, results) if error is None else error for one, (results, error) in zip(some, answers, strict=True)
            ]
        return outcomes

    def _transaction(self, operations: Iterable[Operation]) -> Any:
        request = self._client.transaction()
        for operation in operations:
            match operation:
                case Create(path=path, data=data, ephemeral=ephemeral):
                    self._fits(path, data)
                    request.create(path, data, self._acl(path), ephemeral=ephemeral)
                case Write(path=path, data=data, version=version):
                    self._fits(path, data)
                    request.set_data(path, data, version)
                case Delete(path=path, version=version):
                    request.delete(path, version)
                case Check(path=path, version=version):
                    request.check(path, version)
        return request

    def sync(self, path: str) -> None:
        """Wait until the server that this session is connected to has everything that was written before this call."""
        self._repeatable("sync", path, lambda: self._client.sync_async(path), absent=None)

    def watch(self, path: str, kind: str, fired: Callable[[object], None]) -> None:
        """Call `fired` once when the node (`kind` "data") or the list below it ("children") changes, appears or disappears.

        kazoo's thread calls it, so it must only set a flag. A broken connection calls it too.
        """
        while kind == "children":
            try:
                self._once("watch", path, lambda: self._client.get_children_async(path, watch=fired))
                return
            except NoNodeError:
                if self._once("watch", path, lambda: self._client.exists_async(path, watch=fired)) is None:
                    return
                # The node appeared between the two calls: a watch on its existence would not see its children.
        self._once("watch", path, lambda: self._client.exists_async(path, watch=fired))

    def watch_data_many(self, watches: Mapping[str, Iterable[Callable[[object], None]]]) -> None:
        """Watch the data of many nodes, as `watch` does. The calls are pipelined."""
        for some in _runs_of(list(watches)):
            self._open("watch", some[0])
            sent = [(path, self._client.exists_async(path, watch=fired)) for path in some for fired in watches[path]]
            for path, answer in sent:
                self._once("watch", path, lambda answer=answer: answer)  # type: ignore[misc]

    def _put_one(self, path: str, data: bytes) -> None:
        deadline_ms = self._now_ms() + self._call_timeout_ms
        while True:
            try:
                self._repeatable("write", path, lambda: self._client.set_async(path, data), absent=KeyError)
                return
            except KeyError:
                if self.create(path, data):
                    return
            if self._now_ms() > deadline_ms:  # another client makes and removes it again and again
                raise ConnectionUnsure("write", path, "it comes and goes")

    def _repeatable(self, what: str, path: str, send: Callable[[], Any], *, absent: Any) -> Any:
        deadline_ms = self._now_ms() + self._call_timeout_ms
        while True:
            try:
                return self._once(what, path, send)
            except NoNodeError:
                if absent is KeyError:
                    raise KeyError(path) from None
                return absent
            except ConnectionUnsure:
                if self._closed.wait(0.02) or self._now_ms() > deadline_ms:
                    raise

    def _once(self, what: str, path: str, send: Callable[[], Any]) -> Any:
        self._open(what, path)
        try:
            return self._await(what, path, send())
        except (NoNodeError, NodeExistsError, BadVersionError, NotEmptyError):
            raise
        except _UNSURE as error:
            self._open(what, path)  # after `close` the reason is the close, not the network
            reason = str(error) or type(error).__name__
            raise ConnectionUnsure(what, path, reason) from error
        except KazooException as error:
            raise _failed(what, path, error) from error

    def _await(self, what: str, path: str, answer: Any) -> Any:
        try:
            return answer.get(timeout=self._call_timeout_ms / 1000)
        except NoAuthError as error:
            raise NodeForbidden(what, path) from error

    def _answers(
        self, what: str, sent: Iterable[tuple[str, Any]], *, already: type[KazooException]
    ) -> dict[str, tuple[Any, CoordinationError | None]]:
        """Return for each path the response, or None and the error. There is no error where kazoo raised `already`: the work was
        done before. All responses together are awaited for one call's time.
        """
        answers: dict[str, tuple[Any, CoordinationError | None]] = {}
        deadline_ms = self._now_ms() + self._call_timeout_ms
        for path, answer in sent:
            try:
                answers[path] = answer.get(timeout=max(0, deadline_ms - self._now_ms()) / 1000), None
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


def _acl(entry: Entry) -> ACL:
    return ACL(entry.permissions, Id("world" if entry.identity == ANYONE else "x509", entry.identity))


def _entry(acl: ACL) -> Entry:
    """Return what kazoo read. An identity of another scheme keeps its scheme, so that it is none of ours."""
    identity = acl.id.id if acl.id.scheme in ("world", "x509") else f"{acl.id.scheme}:{acl.id.id}"
    return Entry(identity=identity, permissions=acl.perms)


def _failed(what: str, path: str, error: KazooException) -> CoordinationError:
    if isinstance(error, NoAuthError):
        return NodeForbidden(what, path)
    return CoordinationError(f"{what} {path} in ZooKeeper failed: {type(error).__name__} {error}")


def _outcome(operations: Sequence[Operation], results: Iterable[Any]) -> int | NodeForbidden | None:
    """Return None where all were carried out, else the index of the operation that failed, or what was denied."""
    for index, (operation, result) in enumerate(zip(operations, results, strict=False)):
        if isinstance(result, NoAuthError):
            return NodeForbidden(f"{type(operation).__name__.lower()} in a transaction", operation.path)
        # ZooKeeper answers with these two for the operations before and after the one that failed.
        if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
            return index
    return None


def _runs_of(paths: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(paths), PIPELINE):
        yield paths[start : start + PIPELINE]
