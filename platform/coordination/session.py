"""One process's session with ZooKeeper: opened, checked, renewed, closed. The rest of the room uses it.

Three kinds of threads meet here. kazoo's own threads only set flags. Our thread "zk-lease-<name>" probes the server every quarter
of the session time and does nothing else, so that no callback can delay a probe. Our thread "zk-<name>" calls the listeners of
state changes, re-arms watches and calls their callbacks, and renews registrations in a new session. A callback may block that
thread for a bounded time; no other callback runs meanwhile.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState, KeeperState

from .errors import ConnectionUnsure, CoordinationError, NodeForbidden, SessionClosed, ZooKeeperUnreachable
from .greeting import why_no_session
from .node_rights import TABLE
from .security import ZooKeeperSecurity, of_environment
from .standing import SessionState, Standing
from .surroundings import SYSTEM, Surroundings, Thread
from .tree import Tree

log = logging.getLogger(__name__)  # not runtime.logs: that room is on this room's floor

SHORTEST_SESSION_MS, LONGEST_SESSION_MS = 1_000, 30_000
"""The server may grant another session time than asked, and kazoo does not say so. Every server here grants these."""
TRIES_IN_A_SESSION = 4
"""How many connection attempts fit into one session time when none is answered."""


class Renewable(Protocol):
    """A registration that is made again in each new session."""

    def renew(self) -> None:
        """Register in the present session. Called on the session's thread. Raises CoordinationError."""
        ...


class _Watch:
    def __init__(
        self,
        path: str,
        kind: str,
        callback: Callable[[], None],
        note: Callable[["_Watch"], None],
        now_ms: Callable[[], int],
        rest_ms: Callable[[], int] | None = None,
    ) -> None:
        """`note` takes the watch when it is to be armed."""
        self._now_ms = now_ms
        self.path, self.kind, self.callback, self._note, self._rest_ms = path, kind, callback, note, rest_ms
        self.armed = False
        self.owes_call = False
        self.rests_until_ms = 0

    def fired(self, _event: object = None) -> None:
        """Note a change or a broken connection (kazoo reports both). Called on kazoo's thread."""
        if self._rest_ms is not None:
            self.rests_until_ms = self._now_ms() + self._rest_ms()
        self.armed = False
        self._note(self)


class Session:
    """A session with ZooKeeper below a chroot. The constructor only stores; `start` opens the session and makes the chroot."""

    def __init__(
        self,
        hosts_with_chroot: str,
        *,
        session_timeout_ms: int = 10_000,
        name: str,
        call_timeout_ms: int | None = None,
        security: ZooKeeperSecurity | None = None,
        surroundings: Surroundings = SYSTEM,
    ) -> None:
        """`hosts_with_chroot` is `host:port[,host:port…][/chroot]`; a call waits at most `call_timeout_ms` (default: session
        time). `security`: None takes what the environment names (`security.VARIABLE`), else speaks in the clear.
        """
        if not SHORTEST_SESSION_MS <= session_timeout_ms <= LONGEST_SESSION_MS:
            raise ValueError(f"session_timeout_ms={session_timeout_ms}: {SHORTEST_SESSION_MS} to {LONGEST_SESSION_MS}")
        self.hosts, self.name, self.session_timeout_ms = hosts_with_chroot, name, session_timeout_ms
        self._call_timeout_ms = call_timeout_ms or session_timeout_ms
        self._security = security
        self._lock = threading.Lock()  # guards the fields below; never held during a call or a callback
        # A fifth less than the server's session time: the clocks of two machines differ a little in speed.
        self._standing = Standing(lease_ms=session_timeout_ms * 4 // 5)
        self._listeners: list[Callable[[SessionState], None]] = []
        self._watches: dict[_Watch, None] = {}
        self._due: deque[_Watch] = deque()
        """Watches that are not armed or that owe a call, each at least once. All others need no look, however many there are."""
        self._renewables: dict[Renewable, int] = {}
        self._probe: tuple[int, int] | None = None  # connection, sent at: one probe at a time
        self.surroundings = surroundings
        self._now_ms = surroundings.monotonic_ms
        self._wake = surroundings.event()
        self._probe_due = surroundings.event()
        self._stopping = surroundings.event()
        self._threads: list[Thread] = []
        self._client: KazooClient | None = None
        self._tree: Tree | None = None

    def start(self, timeout_ms: int = 15_000) -> "Session":
        """Open the session, create the chroot, and return when the session is sure. Raises ZooKeeperUnreachable, and
        ZooKeeperConfigRefused.
        """
        if self._client is not None:
            raise CoordinationError(f"the ZooKeeper session {self.name!r} was started before: make a new one")
        deadline = self._now_ms() + timeout_ms
        hosts, _, chroot = self.hosts.partition("/")
        if "," not in hosts:
            # kazoo waits for a server's greeting for the session time divided by the number of servers. A starting server may
            # accept a connection and never greet: with one server listed, the session would end before the second try.
            hosts = ",".join([hosts] * TRIES_IN_A_SESSION)
        security = self._security or of_environment()
        around = self.surroundings
        client = around.client(hosts, self.session_timeout_ms)
        if security is not None:
            client.handler.use_tls(security.context)
        client.add_listener(self._on_kazoo_state)
        rights = None if security is None or not security.sets_rights else security.identities
        self._client = client
        self._tree = Tree(client, name=self.name, call_timeout_ms=self._call_timeout_ms, surroundings=around, identities=rights)
        try:
            client.start_async().wait(timeout_ms / 1000)
            if not client.connected:
                raise ZooKeeperUnreachable(self.hosts, timeout_ms, why_no_session(self.hosts.partition("/")[0], security))
            if chroot.strip("/"):
                # kazoo cannot make a chroot of several steps from inside: make it first, then enter it.
                self._tree.ensure_chroot(f"/{chroot.strip('/')}")
                client.chroot = f"/{chroot.strip('/')}"
            if rights is not None:
                self._make_roots()
            self._threads = [
                around.thread(self._run, f"zk-{self.name}"),
                around.thread(self._run_lease, f"zk-lease-{self.name}"),
            ]
            for thread in self._threads:
                thread.start()
            while not self.is_sure():
                if self._now_ms() > deadline:
                    raise ZooKeeperUnreachable(self.hosts, timeout_ms)
                if self._stopping.wait(0.002):
                    raise SessionClosed(self.name, "start")
        except BaseException:
            self.close()
            raise
        return self

    def _make_roots(self) -> None:
        """Make each node of the table of rights that is missing, with its rights, before anything is made below it.

        Brokers and operators may; for the others the nodes are there already, or their own calls say that they are denied.
        """
        tree = self.tree
        try:
            if not set(tree.children("/")) - {"zookeeper"}:
                tree.set_rights("/")  # a tree without a chroot, which is not in use yet
            there = tree.existing(TABLE)
            for path in TABLE:
                if path not in there:
                    tree.create(path, b"")
        except NodeForbidden as error:
            log.info("tree_not_prepared", extra={"fields": {"session": self.name, "error": str(error)}})

    def close(self) -> None:
        """End the session. Its ephemeral nodes disappear now, or at the session's timeout when the server cannot be reached."""
        self._stopping.set()
        self._wake.set()
        self._probe_due.set()
        for thread in self._threads:
            if not self.surroundings.is_current(thread):
                thread.join(timeout=self._call_timeout_ms / 1000 + 5)
        if self._tree is not None:
            self._tree.close()
        if self._client is not None:
            try:
                self._client.stop()
                self._client.close()
            except Exception as error:
                # kazoo raises when the server is dead. The session ends anyway.
                log.warning("session_close_incomplete", extra={"fields": {"session": self.name, "error": repr(error)}})

    @property
    def tree(self) -> Tree:
        """The calls on nodes. Raises SessionClosed before `start`."""
        if self._tree is None:
            raise SessionClosed(self.name, "use")
        return self._tree

    @property
    def generation(self) -> int:
        """Grows with every lost session: ephemeral nodes made under a lower number are gone. As cheap as `is_sure`."""
        return self._standing.generation

    @property
    def state(self) -> SessionState:
        """The state now. UNSURE after the end of the lease."""
        with self._lock:
            self._standing.tick(self._now_ms())
            return self._standing.state

    def is_sure(self) -> bool:
        """Return whether this session is provably alive now. Cheap enough for every message."""
        # No lock: three attribute reads of a state that only becomes less sure between two confirmations.
        return self._standing.is_sure(self._now_ms())

    def on_change(self, callback: Callable[[SessionState], None]) -> None:
        """Call `callback` on the session's thread with each new state. Of a burst it gets the loss and the last state."""
        with self._lock:
            self._listeners.append(callback)

    def watch_children(
        self, path: str, callback: Callable[[], None], *, rest_ms: Callable[[], int] | None = None
    ) -> Callable[[], None]:
        """Call `callback` once now, and after the list below `path` may have changed. Return a function that ends the watch.

        Level-triggered: several changes may be one call, so the callback reads the list again. The watch outlives reconnections
        and sessions. With `rest_ms` a change is reported this much later, together with all changes until then: a list that a
        hundred processes change at once costs a few calls. `rest_ms` is called on kazoo's thread and must only compute.
        """
        return self._add_watch(_Watch(path, "children", callback, self._note_due, self._now_ms, rest_ms))

    def watch_data(self, path: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Watch as `watch_children` does, for the node's data and for its creation and removal."""
        return self._add_watch(_Watch(path, "data", callback, self._note_due, self._now_ms))

    def keep(self, renewable: Renewable, *, made_in: int) -> None:
        """Renew this registration in every session after the generation `made_in`, which was read before it was made."""
        with self._lock:
            self._renewables[renewable] = made_in

    def forget(self, renewable: Renewable) -> None:
        """Stop renewing this registration."""
        with self._lock:
            self._renewables.pop(renewable, None)

    def _add_watch(self, watch: _Watch) -> Callable[[], None]:
        with self._lock:
            self._watches[watch] = None
        self._note_due(watch)

        def end() -> None:
            with self._lock:
                self._watches.pop(watch, None)

        return end

    def _note_due(self, watch: _Watch) -> None:
        """From any thread."""
        self._due.append(watch)
        self._wake.set()

    def _on_kazoo_state(self, state: str) -> None:
        with self._lock:
            if state == KazooState.CONNECTED:
                self._standing.connected()
            elif state == KazooState.SUSPENDED:
                self._standing.suspended()
            else:
                self._standing.lost()
            if state != KazooState.CONNECTED:
                self._probe = None
        self._probe_due.set()
        self._wake.set()

    def _run(self) -> None:
        # Every change wakes it. The wait only paces the retries.
        while not self._stopping.is_set():
            self._wake.clear()
            self._tell_changes()
            wait_ms = self.session_timeout_ms // 4
            if self.is_sure():
                self._renew()
                resting_until_ms = self._run_watches()
                if resting_until_ms is not None:
                    wait_ms = min(wait_ms, max(0, resting_until_ms - self._now_ms()))
            self._wake.wait(wait_ms / 1000)

    def _run_lease(self) -> None:
        while not self._stopping.is_set():
            self._probe_due.clear()
            self._ask_server()
            self._probe_due.wait(self.session_timeout_ms / 4000)

    def _ask_server(self) -> None:
        client = self._client
        assert client is not None
        if client.client_state == KeeperState.CLOSED and not self._stopping.is_set():
            # kazoo's connection thread ends on an unknown error. Without a restart the session would never come back.
            log.error("zookeeper_client_restarted", extra={"fields": {"session": self.name}})
            try:
                client.stop()
                client.start_async()
            except Exception as error:
                log.error("zookeeper_client_restart_failed", extra={"fields": {"session": self.name, "error": repr(error)}})
            return
        now_ms = self._now_ms()
        with self._lock:
            self._standing.tick(now_ms)
            if self._standing.has_changes:
                self._wake.set()
            if self._probe is not None or not client.connected:
                return
            self._probe = probe = (self._standing.connection, now_ms)

        def on_answer(answer: Any) -> None:
            with self._lock:
                if self._probe == probe:
                    self._probe = None
                if answer.successful():
                    self._standing.confirmed(*probe)
                if self._standing.has_changes:
                    self._wake.set()

        client.exists_async("/").rawlink(on_answer)

    def _tell_changes(self) -> None:
        with self._lock:
            changes, listeners = self._standing.take_changes(), list(self._listeners)
        for state in changes:
            if state is SessionState.SURE:
                self._renew()  # before the listeners: one that reads a registry then finds its own registration
            log.info("session_state", extra={"fields": {"session": self.name, "state": state.value}})
            for listener in listeners:
                self._guarded("state_listener_failed", partial(listener, state))

    def _renew(self) -> None:
        with self._lock:
            generation = self._standing.generation
            due = [thing for thing, made_in in self._renewables.items() if made_in < generation]
        for thing in due:
            if self._guarded("registration_renewal_failed", thing.renew):
                with self._lock:
                    if thing in self._renewables:
                        self._renewables[thing] = generation

    def _run_watches(self) -> int | None:
        """Arm what has fired, and make the calls that are due. Return until when the first of those that rest does so."""
        resting: list[int] = []
        handled: dict[_Watch, None] = {}
        try:
            # Lists first: their callbacks end the watches of removed nodes, so that these are not armed.
            for kind in ("children", "data"):
                handled |= dict.fromkeys(self._due.popleft() for _ in range(len(self._due)))
                with self._lock:
                    watches = [watch for watch in handled if watch.kind == kind and watch in self._watches]
                now_ms = self._now_ms()
                idle = [watch for watch in watches if not watch.armed]
                resting += [watch.rests_until_ms for watch in idle if watch.rests_until_ms > now_ms]
                self._arm([watch for watch in idle if watch.rests_until_ms <= now_ms])
                # A watch is armed before its callback reads, so no change is missed. Watches with the same callback share a call.
                owing: dict[Callable[[], None], list[_Watch]] = {}
                for watch in watches:
                    if watch.owes_call:
                        owing.setdefault(watch.callback, []).append(watch)
                for callback, owed in owing.items():
                    if self._stopping.is_set():
                        return None
                    self._call(callback, owed)
        except (ConnectionUnsure, SessionClosed) as error:
            # The next turn arms the rest and makes the owed calls.
            log.info("watches_postponed", extra={"fields": {"session": self.name, "error": str(error)}})
        finally:
            with self._lock:
                self._due.extend(watch for watch in handled if watch in self._watches and (watch.owes_call or not watch.armed))
        return min(resting, default=None)

    def _arm(self, watches: Sequence[_Watch]) -> None:
        """Have each watch fire at the next change. The calls for nodes' data are pipelined."""
        by_path: dict[str, list[_Watch]] = {}
        for watch in watches:
            by_path.setdefault(watch.path, []).append(watch)
            watch.armed = True  # before it is sent: it may fire at once
        try:
            for watch in watches:
                if watch.kind == "children":
                    self.tree.watch(watch.path, watch.kind, watch.fired)
            self.tree.watch_data_many(
                {path: [one.fired for one in of_path if one.kind == "data"] for path, of_path in by_path.items()}
            )
        except BaseException:
            for watch in watches:
                watch.armed = False
            raise
        for watch in watches:
            watch.owes_call = True

    def _call(self, callback: Callable[[], None], owing: list[_Watch]) -> None:
        for watch in owing:
            watch.owes_call = False
        try:
            callback()
        except (ConnectionUnsure, SessionClosed):
            for watch in owing:
                watch.owes_call = True
            raise
        except Exception:
            log.error("watch_callback_failed", extra={"fields": {"path": owing[0].path}}, exc_info=True)

    def _guarded(self, event: str, act: Callable[[], object]) -> bool:
        try:
            act()
        except (ConnectionUnsure, SessionClosed) as error:
            log.info(event, extra={"fields": {"session": self.name, "error": str(error)}})
            return False
        except Exception:
            log.error(event, extra={"fields": {"session": self.name}}, exc_info=True)
            return False
        return True
