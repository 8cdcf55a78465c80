"""What stands for kazoo's client: the calls that `coordination` makes, over connections that break, to servers that lag.

As kazoo does: when a connection breaks, every call under way fails with ConnectionLoss and every watch fires; a call may have
been carried out nevertheless. A session that is over is found out at the next connection, and a new one begins.
"""

from collections.abc import Callable
from typing import Any

from kazoo.exceptions import ConnectionLoss, NodeExistsError, NoNodeError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, KeeperState

from .ensemble import NODES, Act, Ensemble, Server, SessionRecord, parent_of
from .network import Network
from .scheduler import MS, Process, SimulatedThread

HOST = "zookeeper"
Finish = Callable[[Any, Exception | None], None]


class Answer:
    """As kazoo's `AsyncResult`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._is_ready = False
        self._value: Any = None
        self._error: Exception | None = None
        self._waiting: list[SimulatedThread] = []
        self._links: list[Callable[[Answer], None]] = []

    def finish(self, value: Any, error: Exception | None) -> None:
        if self._is_ready:
            return
        self._is_ready, self._value, self._error = True, value, error
        for thread in self._waiting:
            self._process.sim.wake(thread)
        for link in self._links:
            link(self)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        sim = self._process.sim
        self._process.check()
        if not self._is_ready:
            thread = sim.current
            assert thread is not None
            self._waiting.append(thread)
            if not sim.block(timeout) and not self._is_ready:
                raise KazooTimeoutError
        if self._error is not None:
            raise self._error
        return self._value

    def wait(self, timeout: float | None = None) -> bool:
        try:
            self.get(timeout=timeout)
        except Exception:
            pass
        return self._is_ready

    def successful(self) -> bool:
        return self._is_ready and self._error is None

    def rawlink(self, link: Callable[["Answer"], None]) -> None:
        if self._is_ready:
            link(self)
        else:
            self._links.append(link)


class SimulatedClient:
    """See the module. What it does between calls runs beside the process's threads, as kazoo's own threads do."""

    def __init__(self, ensemble: Ensemble, network: Network, process: Process, timeout_ms: int) -> None:
        self.chroot = ""
        self.connected = False
        self.client_state = KeeperState.CONNECTING
        self._ensemble, self._network, self._process, self._timeout_ms = ensemble, network, process, timeout_ms
        self._sim = process.sim
        self._listeners: list[Callable[[str], None]] = []
        self._session: SessionRecord | None = None
        self._server: Server | None = None
        self._connection = 0
        self._seen_zxid = 0
        self._heard_ms = 0
        self._lost_on = 0
        """The last connection on which a request was lost: a server without a leader closes it."""
        self._pending: dict[Answer, None] = {}
        self._watches: dict[Callable[[str], None], Callable[[object], None]] = {}
        self._next_out_us = self._next_in_us = 0
        self._started = Answer(process)
        self._is_stopped = False

    # -- as kazoo ----------------------------------------------------------------------------------

    def add_listener(self, listener: Callable[[str], None]) -> None:
        self._listeners.append(listener)

    def start_async(self) -> Answer:
        self._sim.call_at(self._sim.now_us, self._connect, self._process)
        return self._started

    @property
    def client_id(self) -> tuple[int, bytes] | None:
        return None if self._session is None else (self._session.number, b"")

    def stop(self) -> None:
        self._is_stopped = True
        session = self._session
        if self.connected and session is not None:
            self._carry_out(lambda: self._ensemble.end_session(session))
        self._break(KazooState.LOST)
        self.client_state = KeeperState.CLOSED

    def close(self) -> None:
        pass

    def get_async(self, path: str, watch: Callable[[object], None] | None = None) -> Answer:
        def read(server: Server) -> Any:
            node = server.copy.nodes.get(path)
            if node is None:
                raise NoNodeError
            self._watch(server, "data", path, watch)
            return node.data, node.stat()

        return self._read(read)

    def exists_async(self, path: str, watch: Callable[[object], None] | None = None) -> Answer:
        def read(server: Server) -> Any:
            self._watch(server, "data", path, watch)
            node = server.copy.nodes.get(path)
            return None if node is None else node.stat()

        return self._read(read)

    def get_children_async(self, path: str, watch: Callable[[object], None] | None = None, include_data: bool = False) -> Answer:
        def read(server: Server) -> Any:
            node = server.copy.nodes.get(path)
            if node is None:
                raise NoNodeError
            self._watch(server, "children", path, watch)
            return (list(node.children), node.stat()) if include_data else list(node.children)

        return self._read(read)

    def sync_async(self, path: str) -> Answer:
        def read(server: Server) -> Any:
            server.catch_up(len(self._ensemble.log))
            return path

        return self._read(read)

    def create_async(
        self,
        path: str,
        value: bytes = b"",
        acl: object = None,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        include_data: bool = False,
    ) -> Answer:
        assert not sequence, "not used"
        answer = Answer(self._process)

        def made(results: Any, error: Exception | None) -> None:
            if isinstance(error, NoNodeError) and makepath:
                self._ensure(parent_of(path), lambda _, why: answer.finish(None, why) if why else send(final))
            else:
                final(results, error)

        def final(results: Any, error: Exception | None) -> None:
            answer.finish(None if error else results[0] if include_data else path, error)

        def send(then: Finish) -> None:
            owner = 0 if self._session is None or not ephemeral else self._session.number
            self._write([Act("create", path, value, owner=owner)], then)

        send(made)
        return answer

    def ensure_path_async(self, path: str, acl: object = None) -> Answer:
        answer = Answer(self._process)
        self._ensure(path, answer.finish)
        return answer

    def set_async(self, path: str, value: bytes, version: int = -1) -> Answer:
        return self._single(Act("write", path, value, version))

    def delete_async(self, path: str, version: int = -1) -> Answer:
        return self._single(Act("delete", path, version=version))

    def transaction(self) -> "TransactionRequest":
        return TransactionRequest(self)

    def commit(self, acts: list[Act]) -> Answer:
        answer = Answer(self._process)
        session = self._session
        owned = [act._replace(owner=session.number) if act.owner and session is not None else act for act in acts]

        def done(results: Any, error: Exception | list[Exception] | None) -> None:
            answer.finish(error if isinstance(error, list) else results, None if isinstance(error, list) else error)

        if any(act.what == "write" and act.path.startswith(NODES) for act in acts):
            late_ms = self._ensemble.swap_asked(self._process, acts)
            self._next_out_us = max(self._next_out_us, self._sim.now_us + int(late_ms * MS))
        self._write(owned, done, is_multi=True)
        return answer

    # -- requests ----------------------------------------------------------------------------------

    def _single(self, act: Act) -> Answer:
        answer = Answer(self._process)
        self._write([act], lambda results, error: answer.finish(None if error else results[0], error))
        return answer

    def _ensure(self, path: str, then: Finish) -> None:
        if path == "/":
            then(True, None)
            return

        def looked(found: Any) -> None:
            if found._error is not None:
                then(None, found._error)
            elif found._value is not None:
                then(True, None)
            else:
                self._ensure(parent_of(path), above)

        def above(_: Any, error: Exception | None) -> None:
            if error is not None:
                then(None, error)
            else:
                self._write([Act("create", path)], made)

        def made(_: Any, error: Exception | None) -> None:
            then(True, None if isinstance(error, NodeExistsError) else error)

        self.exists_async(path).rawlink(looked)

    def _read(self, read: Callable[[Server], Any]) -> Answer:
        answer = Answer(self._process)

        def at_server(server: Server) -> tuple[Any, Exception | None]:
            try:
                return read(server), None
            except NoNodeError as error:
                return None, error

        self._ask(answer, at_server, answer.finish)
        return answer

    def _write(self, acts: list[Act], then: Callable[[Any, Any], None], *, is_multi: bool = False) -> None:
        def at_server(server: Server) -> tuple[Any, Any]:
            results, errors = self._ensemble.transact(acts)
            server.catch_up(len(self._ensemble.log))
            if results is None:
                return None, errors if is_multi else errors[0]
            return results, None

        pending = Answer(self._process)
        pending.rawlink(lambda one: then(one._value, one._error))
        self._ask(pending, at_server, pending.finish)

    def _ask(self, pending: Answer, at_server: Callable[[Server], tuple[Any, Any]], then: Callable[[Any, Any], None]) -> None:
        """Send a request. Its answer comes, or the connection breaks, or nothing happens for a long time."""
        self._process.check()
        session, server, connection = self._session, self._server, self._connection
        if not self.connected or session is None or server is None:
            self._sim.call_at(self._sim.now_us, lambda: pending.finish(None, ConnectionLoss()), self._process)
            return
        self._pending[pending] = None

        def arrived() -> None:
            if self._ensemble.is_away:
                self._lost_on = connection
            if session.is_over or session.connection != connection or self._ensemble.is_away:
                return
            session.heard_ms = self._sim.now_ms
            value, error = at_server(server)
            zxid = server.copy.zxid

            def answered() -> None:
                if self._connection == connection and self.connected:
                    self._seen_zxid = max(self._seen_zxid, zxid)
                    self._heard_ms = self._sim.now_ms
                    self._pending.pop(pending, None)
                    then(value, error)

            self._next_in_us = max(self._next_in_us + 1, self._sim.now_us + self._network.delay_us())
            back = (HOST, self._process.host)
            self._network.carry(back, self._next_in_us, lambda: self._sim.call_at(self._sim.now_us, answered, self._process))

        self._carry_out(arrived)

    def _carry_out(self, arrived: Callable[[], None]) -> None:
        self._next_out_us = max(self._next_out_us + 1, self._sim.now_us + self._network.delay_us())
        self._network.carry((self._process.host, HOST), self._next_out_us, arrived)

    def _watch(self, server: Server, kind: str, path: str, watch: Callable[[object], None] | None) -> None:
        """At the server. The client hears of the change after it has heard of what it read before."""
        if watch is None:
            return

        connection = self._connection

        def fired(changed: str) -> None:
            def tell() -> None:
                if self._connection == connection and self._watches.pop(fired, None) is not None:
                    watch(changed)

            self._next_in_us = max(self._next_in_us + 1, self._sim.now_us + self._network.delay_us())
            back = (HOST, self._process.host)
            self._network.carry(back, self._next_in_us, lambda: self._sim.call_at(self._sim.now_us, tell, self._process))

        self._watches[fired] = watch
        server.watch(kind, path, fired)

    # -- the connection ----------------------------------------------------------------------------

    def _connect(self) -> None:
        """Try to connect to a server that has all that this client has seen."""
        if self._is_stopped or self.connected:
            return
        ensemble, network, chance = self._ensemble, self._network, self._sim.chance
        host = self._process.host
        servers = [one for one in ensemble.servers if one.copy.zxid >= self._seen_zxid]
        self._sim.call_in(chance.uniform(60, 200), self._connect, self._process)
        if ensemble.is_away or not servers or (host, HOST) in network.cut or (HOST, host) in network.cut:
            return
        self._server = server = chance.choice(servers)
        if self._session is not None and self._session.is_over:
            self._session = None
            self._tell(KazooState.LOST)
        if self._session is None:
            self._session = ensemble.open_session(self._timeout_ms)
        self._connection += 1
        self._session.connection, self._session.heard_ms = self._connection, self._sim.now_ms
        self._heard_ms = self._sim.now_ms
        self.connected, self.client_state = True, KeeperState.CONNECTED
        self._sim.note(self._process.name, "session", self._session.number, "on server", server.number)
        self._tell(KazooState.CONNECTED)
        self._started.finish(True, None)
        self._beat(self._connection)

    def _beat(self, connection: int) -> None:
        """Ping, and give up a connection on which nothing comes."""
        if self._connection != connection or not self.connected:
            return
        assert self._session is not None
        is_cut = (HOST, self._process.host) in self._network.cut
        is_closed = self._session.is_over or (self._lost_on == connection and not self._ensemble.is_away)
        if (is_closed and not is_cut) or self._sim.now_ms - self._heard_ms > self._timeout_ms * 2 // 3:
            self._break(KazooState.SUSPENDED)
            self._sim.call_in(self._sim.chance.uniform(5, 60), self._connect, self._process)
            return
        self._ask(Answer(self._process), lambda server: (None, None), lambda value, error: None)
        self._sim.call_in(min(300, self._timeout_ms // 6), lambda: self._beat(connection), self._process)

    def _break(self, state: str) -> None:
        if self.connected:
            self.connected = False
            self.client_state = KeeperState.CONNECTING
            self._tell(state)
        error = SessionExpiredError if state == KazooState.LOST else ConnectionLoss
        pending, self._pending = self._pending, {}
        for one in pending:
            one.finish(None, error())
        watches, self._watches = self._watches, {}
        for fired, watch in watches.items():
            if self._server is not None:
                self._server.forget(fired)
            watch(None)

    def _tell(self, state: str) -> None:
        for listener in self._listeners:
            listener(state)


class TransactionRequest:
    """As kazoo's."""

    def __init__(self, client: SimulatedClient) -> None:
        self._client = client
        self._acts: list[Act] = []

    def create(self, path: str, value: bytes = b"", acl: object = None, ephemeral: bool = False) -> None:
        self._acts.append(Act("create", path, value, owner=1 if ephemeral else 0))

    def set_data(self, path: str, value: bytes, version: int = -1) -> None:
        self._acts.append(Act("write", path, value, version))

    def delete(self, path: str, version: int = -1) -> None:
        self._acts.append(Act("delete", path, version=version))

    def check(self, path: str, version: int = -1) -> None:
        self._acts.append(Act("check", path, version=version))

    def commit_async(self) -> Answer:
        return self._client.commit(self._acts)
