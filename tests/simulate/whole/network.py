"""Connections between simulated machines: ordered bytes with a delay, one-way cuts, dead peers, machines without power."""

from collections import deque
from collections.abc import Callable
from select import EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP
from typing import TYPE_CHECKING, Any

from .scheduler import MS, Process, SimulatedThread, Simulation

if TYPE_CHECKING:
    from .poller import SimulatedPoller

ROOM_BYTES = 1 << 18
"""Of one direction of a connection: under way or not read."""
FIRST_FD = 1_000_000
"""No descriptor of the real system is so large."""


class Network:
    """All machines' sockets, by descriptor."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.sockets: dict[int, SimulatedSocket | SimulatedListener] = {}
        self.listeners: dict[tuple[str, int], SimulatedListener] = {}
        self.cut: set[tuple[str, str]] = set()
        """Pairs of hosts between which nothing arrives, in this direction."""
        self.off: set[str] = set()
        """Machines without power."""
        self.slowest_ms = 2.0
        self._held: dict[tuple[str, str], list[Callable[[], None]]] = {}
        self._next_fd = FIRST_FD

    def new_fd(self, one: "SimulatedSocket | SimulatedListener") -> int:
        self._next_fd += 1
        self.sockets[self._next_fd] = one
        return self._next_fd

    def delay_us(self) -> int:
        chance = self.sim.chance
        slowest = self.slowest_ms * 20 if chance.random() < 0.01 else self.slowest_ms
        return int(chance.uniform(0.05, slowest) * MS)

    def carry(self, link: tuple[str, str], at_us: int, arrive: Callable[[], None]) -> None:
        """Let something arrive then; while the link is cut, when it is mended."""

        def arrives() -> None:
            if link in self.cut:
                self._held.setdefault(link, []).append(arrive)
            else:
                arrive()

        self.sim.call_at(at_us, arrives)

    def mend(self, link: tuple[str, str]) -> None:
        self.cut.discard(link)
        for arrive in self._held.pop(link, ()):
            arrive()

    def connect(self, process: Process, host: str, port: int, within_s: float) -> "SimulatedSocket":
        """Connect as a blocking call does. Raises OSError."""
        process.check()
        sim = self.sim
        thread = sim.current
        assert thread is not None
        outcome: list[SimulatedSocket | None] = []

        def asked() -> None:
            if host in self.off:
                return
            listener = self.listeners.get((host, port))
            there = None if listener is None else listener.accepts(process)
            self.carry((host, process.host), sim.now_us + self.delay_us(), lambda: answered(there))

        def answered(there: SimulatedSocket | None) -> None:
            outcome.append(there)
            sim.wake(thread)

        self.carry((process.host, host), sim.now_us + self.delay_us(), asked)
        deadline_us = sim.now_us + int(within_s * 1e6)
        while not outcome and sim.now_us < deadline_us:
            sim.block((deadline_us - sim.now_us) / 1e6)
        if not outcome:
            raise TimeoutError("timed out")
        if outcome[0] is None:
            raise ConnectionRefusedError("Connection refused")
        return outcome[0]


class SimulatedSocket:
    """One end of a connection, with the part of `socket.socket` that is used here."""

    def __init__(self, network: Network, process: Process) -> None:
        self.network, self.process = network, process
        self.peer: SimulatedSocket | None = None
        self.fd = network.new_fd(self)
        self.inbox = bytearray()
        self.under_way_bytes = 0
        """Sent by this end and not arrived."""
        self.has_ended = self.is_reset = self.is_closed = False
        self.timeout_s: float | None = None
        self.poller: SimulatedPoller | None = None
        self._next_us = 0
        self._waiting: list[SimulatedThread] = []
        process.at_death.append(self._died)

    # -- as a socket -------------------------------------------------------------------------------

    def fileno(self) -> int:
        return self.fd

    def setblocking(self, is_blocking: bool) -> None:
        self.timeout_s = None if is_blocking else 0.0

    def settimeout(self, timeout_s: float | None) -> None:
        self.timeout_s = timeout_s

    def setsockopt(self, *_: object) -> None:
        pass

    def __enter__(self) -> "SimulatedSocket":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: Any, flags: int = 0) -> int:
        self.process.check()
        if self.is_closed or self.is_reset:
            raise BrokenPipeError("Broken pipe")
        view = memoryview(data)
        room = self._room()
        if room <= 0:
            raise BlockingIOError
        sent = bytes(view[:room])
        self._transmit(sent)
        return len(sent)

    def sendall(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            try:
                at += self.send(memoryview(data)[at:])
            except BlockingIOError:
                self._wait()

    def recv_into(self, buffer: memoryview) -> int:
        self._await_input()
        count = min(len(buffer), len(self.inbox))
        buffer[:count] = self.inbox[:count]
        self._took(count)
        return count

    def recvmsg_into(self, buffers: list[memoryview]) -> tuple[int, list[Any], int, None]:
        self._await_input()
        total = 0
        for buffer in buffers:
            count = min(len(buffer), len(self.inbox) - total)
            buffer[:count] = self.inbox[total : total + count]
            total += count
        self._took(total)
        return total, [], 0, None

    def recv(self, most: int) -> bytes:
        self._await_input()
        data = bytes(self.inbox[:most])
        self._took(len(data))
        return data

    def sendfile(self, fd: int, position: int, count: int, pread: Callable[[int, int, int], bytes]) -> int:
        self.process.check()
        if self.is_closed or self.is_reset:
            raise BrokenPipeError("Broken pipe")
        room = self._room()
        if room <= 0:
            raise BlockingIOError
        data = pread(fd, min(count, room), position)
        if data:
            self._transmit(data)
        return len(data)

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.network.sockets.pop(self.fd, None)
            self._tell_peer(SimulatedSocket._ends)

    # -- the wire ----------------------------------------------------------------------------------

    def events(self, wanted: int) -> int:
        """Return which of these events there are, and errors. Hot."""
        mask = 0
        if self.inbox:
            mask = EPOLLIN
        if self.has_ended:
            mask |= EPOLLIN | EPOLLRDHUP
        if self.is_reset:
            return (mask | EPOLLIN) & wanted | EPOLLHUP | EPOLLERR
        if wanted & EPOLLOUT and self._room() > 0:
            mask |= EPOLLOUT
        return mask & wanted

    def _room(self) -> int:
        peer = self.peer
        return 0 if peer is None else ROOM_BYTES - self.under_way_bytes - len(peer.inbox)

    def _link(self) -> tuple[str, str]:
        assert self.peer is not None
        return self.process.host, self.peer.process.host

    def _later(self) -> int:
        """Return when what is sent now arrives: behind what was sent before."""
        self._next_us = max(self._next_us + 1, self.network.sim.now_us + self.network.delay_us())
        return self._next_us

    def _transmit(self, data: bytes) -> None:
        self.under_way_bytes += len(data)
        peer = self.peer
        assert peer is not None
        self.network.carry(self._link(), self._later(), lambda: peer._arrived(data))

    def _tell_peer(self, what: Callable[["SimulatedSocket"], None]) -> None:
        peer = self.peer
        if peer is not None:
            self.network.carry(self._link(), self._later(), lambda: what(peer))

    def _arrived(self, data: bytes) -> None:
        peer = self.peer
        assert peer is not None
        peer.under_way_bytes -= len(data)
        if self.process.host in self.network.off:
            return
        if self.is_closed or self.process.is_dead:
            self._tell_peer(SimulatedSocket._resets)
            return
        self.inbox += data
        self._has_news()

    def _ends(self) -> None:
        self.has_ended = True
        self._has_news()

    def _resets(self) -> None:
        self.is_reset = True
        self._has_news()

    def _died(self) -> None:
        """The process is dead. The system closes the connection, unless it has no power."""
        if not self.is_closed:
            self.is_closed = True
            self.network.sockets.pop(self.fd, None)
            if self.process.host not in self.network.off:
                self._tell_peer(SimulatedSocket._ends)

    def _has_news(self) -> None:
        if self.poller is not None:
            self.poller.notify(self.fd)
        waiting, self._waiting = self._waiting, []
        for thread in waiting:
            self.network.sim.wake(thread)

    def _await_input(self) -> None:
        self.process.check()
        while not self.inbox:
            if self.is_closed:
                raise OSError(9, "Bad file descriptor")
            if self.is_reset:
                raise ConnectionResetError("Connection reset by peer")
            if self.has_ended:
                return
            if self.timeout_s == 0.0:
                raise BlockingIOError
            self._wait()

    def _wait(self) -> None:
        thread = self.network.sim.current
        assert thread is not None
        self._waiting.append(thread)
        if not self.network.sim.block(self.timeout_s):
            raise TimeoutError("timed out")

    def _took(self, count: int) -> None:
        del self.inbox[:count]
        peer = self.peer
        if count and peer is not None and not peer.process.is_dead:
            peer._has_news()


class SimulatedListener:
    """A listening socket. The system accepts for a process that is paused, too."""

    def __init__(self, network: Network, process: Process, host: str, port: int) -> None:
        self.network, self.process, self.address = network, process, (host, port)
        self.poller: SimulatedPoller | None = None
        self.fd = network.new_fd(self)
        self._queue: deque[SimulatedSocket] = deque()
        if self.address in network.listeners:
            raise OSError(98, "Address already in use")
        network.listeners[self.address] = self
        process.at_death.append(self.close)

    def accepts(self, process: Process) -> SimulatedSocket:
        """Return the end of `process` of a new connection."""
        theirs, ours = SimulatedSocket(self.network, process), SimulatedSocket(self.network, self.process)
        theirs.peer, ours.peer = ours, theirs
        self._queue.append(ours)
        if self.poller is not None:
            self.poller.notify(self.fd)
        return theirs

    def accept(self) -> tuple[SimulatedSocket, tuple[str, int]]:
        if not self._queue:
            raise BlockingIOError
        ours = self._queue.popleft()
        assert ours.peer is not None
        return ours, (ours.peer.process.host, ours.peer.fd)

    def events(self, wanted: int) -> int:
        return EPOLLIN if self._queue else 0

    def fileno(self) -> int:
        return self.fd

    def getsockname(self) -> tuple[str, int]:
        return self.address

    def close(self) -> None:
        if self.network.listeners.get(self.address) is self:
            del self.network.listeners[self.address]
        self.network.sockets.pop(self.fd, None)
