"""One `[[syslog]]` section: datagrams, connections (in the clear and over TLS) and a local socket, read on one thread, journaled.

What the kernel drops of datagrams is counted: each datagram brings the socket's total (SO_RXQ_OVFL), and once in a while, and at
the end, the socket is asked for it (SO_MEMINFO), so that drops without a datagram behind them are seen too. With a full journal
datagrams are lost, and counted; connections and the local socket are not read until there is room, and their senders wait.
"""

import os
import selectors
import socket
import struct
import threading
from contextlib import suppress

from ...runtime.clock import Clock
from ...runtime.logs import get_logger
from ...runtime.rate_limited_log import RateLimitedLog
from ...sdk.errors import EventRefused
from ...sdk.journal import JournalNotDurable
from ..errors import AgentError
from ..parsers.parser import UnparsableLine
from ..parsers.syslog import parse_syslog
from .counts import Counts
from .inbox import DROPPED_AT_SOCKET, Inbox, Taken
from .server_tls import ServerTls, tls_of
from .settings import Address, SyslogSettings
from .syslog_connection import HandshakeFailed, SyslogConnection
from .syslog_framing import TOO_LONG, Framed

log = get_logger(__name__)

SO_RXQ_OVFL = 40
SO_MEMINFO = 55
_DROPS_AT = 8
_MEMINFO = struct.Struct("9I")
_DROPPED = struct.Struct("I")
_LARGEST_DATAGRAM = 65_536
_DATAGRAMS_AT_ONCE = 256
_TICK_MS = 200
_RETRY_MS = 20
"""How often a full journal is asked whether there is room again."""
_LOOK_MS = 1_000
_FUTURE_MS = 300_000


class SyslogReceiver:
    """The sockets and the thread of one section. It owns the inbox."""

    def __init__(self, settings: SyslogSettings, inbox: Inbox, counts: Counts, clock: Clock) -> None:
        self.settings = settings
        self._inbox = inbox
        self._counts = counts
        self._clock = clock
        self._zone = settings.time_format.zone
        self._selector = selectors.DefaultSelector()
        self._udp: socket.socket | None = None
        self._tcp: socket.socket | None = None
        self._tls: socket.socket | None = None
        self._server_tls: ServerTls | None = None
        self._unix: socket.socket | None = None
        self._drops_seen: dict[socket.socket, int] = {}
        self._connections: dict[socket.socket, SyslogConnection] = {}
        self._waiting: list[Taken] = []
        """Of connections and the local socket: what the full journal did not take yet. Nothing is read meanwhile."""
        self._look_at_ms = 0
        self._stopping = threading.Event()
        self._log = RateLimitedLog(log, clock.monotonic_ms)
        self._thread = threading.Thread(target=self._run, name=f"headrace-syslog-{settings.name}", daemon=True)

    def start(self) -> None:
        """Listen. Raises AgentError for an address or a certificate that cannot be used, JournalRefused."""
        try:
            if self.settings.udp is not None:
                self._udp = self._bound("udp", self.settings.udp, socket.SOCK_DGRAM)
                self._watch_drops(self._udp)
            if self.settings.tcp is not None:
                self._tcp = self._bound("tcp", self.settings.tcp, socket.SOCK_STREAM)
                self._tcp.listen(128)
            if self.settings.tls is not None:
                self._server_tls = tls_of(self.settings.access, only_listens=True)
                self._tls = self._bound("tls", self.settings.tls, socket.SOCK_STREAM)
                self._tls.listen(128)
            if self.settings.unix:
                self._unix = self._local(self.settings.unix)
            self._inbox.open()
        except BaseException:
            self._close_sockets()
            raise
        for one in (self._udp, self._tcp, self._tls, self._unix):
            if one is not None:
                one.setblocking(False)
                self._selector.register(one, selectors.EVENT_READ)
        self._thread.start()

    def stop(self) -> None:
        """Read what the kernel holds, journal it, and end."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(30)
        self._close_sockets()

    @property
    def udp_port(self) -> int:
        assert self._udp is not None
        return int(self._udp.getsockname()[1])

    @property
    def tcp_port(self) -> int:
        assert self._tcp is not None
        return int(self._tcp.getsockname()[1])

    @property
    def tls_port(self) -> int:
        assert self._tls is not None
        return int(self._tls.getsockname()[1])

    # -- the thread ------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._turn()
            except Exception:
                # One message or one connection must not end the others.
                log.error("syslog_turn_failed", section=self.settings.name, exc_info=True)
                self._stopping.wait(1)
        with suppress(Exception):
            self._last_turn()
        with suppress(JournalNotDurable):
            self._inbox.close()

    def _turn(self) -> None:
        if self._waiting:
            self._retry()
        if self._waiting:
            # What is not read now stays readable, so that the selector would not wait.
            self._stopping.wait(_RETRY_MS / 1000)
        for key, _ in self._selector.select(0 if self._waiting else _TICK_MS / 1000):
            one = key.fileobj
            assert isinstance(one, socket.socket)
            connection = self._connections.get(one)
            if one is self._udp:
                self._datagrams(one, "udp")
            elif one is self._tcp or one is self._tls:
                self._accept(one)
            elif connection is not None and connection.is_shaking_hands:
                self._shake_hands(connection)
            elif self._waiting:
                continue
            elif one is self._unix:
                self._datagrams(one, "unix")
            elif connection is not None:
                self._read(connection)
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._look_at_ms:
            self._look_at_ms = now_ms + _LOOK_MS
            self._look_at_drops()
            self._look_at_connections(now_ms)

    def _look_at_connections(self, now_ms: int) -> None:
        for connection in list(self._connections.values()):
            if connection.is_shaking_hands:
                if now_ms - connection.began_ms >= self.settings.handshake_ms:
                    self._counts.add("handshakes_too_slow")
                    self._end(connection)
            elif self._waiting:
                # It is not silent: we do not read it.
                connection.heard_ms = now_ms
            elif now_ms - connection.heard_ms >= self.settings.idle_ms:
                self._counts.add("connections_idle")
                self._end(connection)

    def _last_turn(self) -> None:
        for one, transport in ((self._udp, "udp"), (self._unix, "unix")):
            while one is not None and self._datagrams(one, transport):
                pass
        for connection in list(self._connections.values()):
            self._end(connection)
        self._look_at_drops()
        lost = self._waiting[self._inbox.take_or_lose(self._waiting) :]
        self._counts.add("messages_lost", len(lost))

    def _datagrams(self, one: socket.socket, transport: str) -> int:
        """Read and journal what is there, at most so many at once; return how many there were."""
        records: list[Taken] = []
        count = 0
        while count < _DATAGRAMS_AT_ONCE:
            try:
                data, ancillary, _, peer = one.recvmsg(_LARGEST_DATAGRAM, socket.CMSG_SPACE(_DROPPED.size))
            except (BlockingIOError, InterruptedError):
                break
            count += 1
            for level, kind, content in ancillary:
                if level == socket.SOL_SOCKET and kind == SO_RXQ_OVFL:
                    self._note_drops(one, _DROPPED.unpack(content[: _DROPPED.size])[0])
            framed = Framed(data)
            if len(data) > self.settings.most_message_bytes:
                limit = self.settings.most_message_bytes
                framed = Framed(
                    data[:limit], f"it has {len(data)} bytes, more than {limit}: only its beginning is kept", TOO_LONG
                )
            self._add(framed, transport, _name_of(peer), records)
        if transport == "udp":
            taken = self._inbox.take_or_lose(records)
            self._counts.add("messages_lost", len(records) - taken)
        else:
            self._take(records)
        return count

    def _accept(self, one: socket.socket) -> None:
        with suppress(OSError, ValueError):
            raw, address = one.accept()
            if len(self._connections) >= self.settings.most_connections:
                self._counts.add("connections_refused")
                raw.close()
                return
            self._counts.add("connections")
            tls = self._server_tls.context() if one is self._tls and self._server_tls is not None else None
            try:
                connection = SyslogConnection(
                    raw,
                    _name_of(address),
                    limit_bytes=self.settings.most_message_bytes,
                    now_ms=self._clock.monotonic_ms(),
                    tls=tls,
                )
            except (OSError, ValueError):
                raw.close()
                raise
            self._connections[connection.socket] = connection
            self._selector.register(connection.socket, connection.waits_for)

    def _shake_hands(self, connection: SyslogConnection) -> None:
        waited_for = connection.waits_for
        try:
            connection.shake_hands(self._clock.monotonic_ms())
        except HandshakeFailed as error:
            self._counts.add("handshakes_failed")
            self._log.warning("handshake_failed", section=self.settings.name, peer=connection.peer, why=str(error))
            self._end(connection)
            return
        if connection.waits_for != waited_for:
            self._selector.modify(connection.socket, connection.waits_for)

    def _read(self, connection: SyslogConnection) -> None:
        framed = connection.read(self._clock.monotonic_ms())
        if framed is None:
            self._end(connection)
            return
        self._take_framed(connection, framed)
        if connection.is_broken:
            self._end(connection)

    def _end(self, connection: SyslogConnection) -> None:
        del self._connections[connection.socket]
        self._selector.unregister(connection.socket)
        self._take_framed(connection, connection.end())

    def _take_framed(self, connection: SyslogConnection, framed: list[Framed]) -> None:
        records: list[Taken] = []
        for one in framed:
            self._add(one, connection.transport, connection.peer, records)
        self._take(records)

    def _take(self, records: list[Taken]) -> None:
        taken = self._inbox.take(records) if not self._waiting else 0
        self._waiting += records[taken:]

    def _retry(self) -> None:
        taken = self._inbox.take(self._waiting)
        del self._waiting[:taken]

    def _add(self, framed: Framed, transport: str, peer: str | None, records: list[Taken]) -> None:
        """Add a message to the records, or put it into quarantine."""
        if not framed.content and not framed.fault:
            return
        now_ms = self._clock.now_ms()
        self._counts.add("messages")
        try:
            if framed.fault:
                raise _Framing(framed)
            message = parse_syslog(framed.content, received_ms=now_ms, zone=self._zone)
            own_ms = message.time_ms
            is_near = own_ms is not None and now_ms - self.settings.lateness_ms <= own_ms <= now_ms + _FUTURE_MS
            time_ms = own_ms if own_ms is not None and is_near else now_ms
            event = {**message.event, "transport": transport, "peer": peer}
            records.append((self._inbox.encoder.encode(event, time_ms), time_ms, None))
        except (UnparsableLine, EventRefused) as error:
            self._counts.add("messages_refused")
            code = error.code if isinstance(error, UnparsableLine) else "schema_mismatch"
            where = f"{transport} from {peer}" if peer else transport
            self._inbox.quarantine(framed.content, code=code, reason=f"{where}: {error}")

    # -- drops -----------------------------------------------------------------------------------------------------------

    def _watch_drops(self, one: socket.socket) -> None:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.settings.receive_buffer_bytes)
        with suppress(OSError):
            one.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 1)
        self._drops_seen[one] = 0

    def _look_at_drops(self) -> None:
        for one in self._drops_seen:
            with suppress(OSError, struct.error):
                found = one.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, _MEMINFO.size)
                self._note_drops(one, _MEMINFO.unpack(found)[_DROPS_AT])

    def _note_drops(self, one: socket.socket, total: int) -> None:
        """`total`: of the socket, modulo 2^32."""
        more = (total - self._drops_seen[one]) & 0xFFFFFFFF
        if not 0 < more < 1 << 31:  # an older total, of a datagram that was queued before the last look
            return
        self._drops_seen[one] = total
        self._counts.add("datagrams_dropped", more)
        self._inbox.lost(DROPPED_AT_SOCKET, more)
        log.warning("datagrams_dropped", section=self.settings.name, dropped=more, advice="raise receive_buffer_bytes")

    # -- sockets ---------------------------------------------------------------------------------------------------------

    def _bound(self, name: str, address: Address, kind: socket.SocketKind) -> socket.socket:
        one = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET, kind)
        try:
            if kind == socket.SOCK_STREAM:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(address)
        except OSError as error:
            one.close()
            raise AgentError(
                f"[[syslog]] {self.settings.name!r}: {name}: cannot listen on {address}: {error.strerror or error}"
            ) from error
        return one

    def _local(self, path: str) -> socket.socket:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            # What an agent left that was killed. One that still reads it answers.
            with suppress(FileNotFoundError, ConnectionRefusedError):
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
                    probe.connect(path)
                    raise OSError(0, "another process reads this socket")
            with suppress(FileNotFoundError):
                os.unlink(path)
            one.bind(path)
            os.chmod(path, self.settings.unix_mode)
        except OSError as error:
            one.close()
            raise AgentError(
                f"[[syslog]] {self.settings.name!r}: unix: cannot listen on {path}: {error.strerror or error}"
            ) from error
        return one

    def _close_sockets(self) -> None:
        self._selector.close()
        for one in (self._udp, self._tcp, self._tls, self._unix):
            if one is not None:
                one.close()
        if self._unix is not None:
            with suppress(OSError):
                os.unlink(self.settings.unix)


class _Framing(UnparsableLine):
    def __init__(self, framed: Framed) -> None:
        self.code = framed.code
        super().__init__(framed.fault)


def _name_of(address: object) -> str | None:
    """Return a peer's address as text; a local socket's are mostly nameless."""
    if isinstance(address, tuple):
        return str(address[0])
    return address or None if isinstance(address, str) else None
