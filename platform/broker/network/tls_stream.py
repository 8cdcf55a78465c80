"""A TLS connection with the calls of a socket, for the loop: it never blocks.

OpenSSL works in memory, and this class moves its bytes to and from the socket. So one read serves many TLS records: librdkafka
makes one of each message, and with OpenSSL on the socket itself each record costs two system calls. Traps: decrypted bytes may
wait here while epoll sees nothing (`has_more`). Bytes that are encrypted cannot be taken back: a call that found the socket full
counts them when it is repeated with the same bytes, as the send queue does."""

import os
import socket
import ssl
from collections.abc import Callable, Sequence

PIECE_BYTES = 128 * 1024
"""So much is encrypted at once."""
MOST_ANSWERS_BYTES = 16 * 1024
"""Answers of TLS itself (to key updates) that the peer may leave unread."""
HANDSHAKE_BYTES = 16 * 1024


class TlsStream:
    """The server's side. Owns the socket."""

    __slots__ = ("_committed", "_incoming", "_may_have_more", "_outgoing", "_raw", "_saw_end", "_socket", "_tls", "_unsent")

    def __init__(self, connected: socket.socket, context: ssl.SSLContext, raw: memoryview) -> None:
        """`connected` must not block. `raw` is for encrypted bytes; streams of one thread may share it."""
        self._socket = connected
        self._raw = raw
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._unsent = memoryview(b"")
        """Encrypted bytes that the socket has not taken."""
        self._committed = 0
        """How many bytes of the next `send` are in `_unsent` already."""
        self._may_have_more = False
        """Whether the last read left bytes here: its buffer was full."""
        self._saw_end = False

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def has_unsent(self) -> bool:
        """Whether encrypted bytes wait until the socket takes more."""
        return bool(self._unsent)

    @property
    def has_more(self) -> bool:
        """Whether a read would return at once, whatever epoll says."""
        return self._may_have_more or self._saw_end

    @property
    def certificate(self) -> bytes | None:
        """The client's own certificate (DER) after the handshake, None when it showed none."""
        return self._tls.getpeercert(binary_form=True)

    def handshake(self) -> bool:
        """Go on with the handshake as far as the socket allows. Return whether it has ended. Raises: OSError, ssl.SSLError."""
        while True:
            try:
                self._tls.do_handshake()
                has_ended = True
            except ssl.SSLWantReadError:
                has_ended = False
            except ssl.SSLError:
                self._flush()  # the alert that tells the peer why
                raise
            if not self._flush():
                return False
            if has_ended:
                self._may_have_more = self._incoming.pending > 0  # the first request, behind the handshake's last message
                return True
            try:
                received = self._socket.recv(HANDSHAKE_BYTES)
            except BlockingIOError:
                return False
            if not received:
                raise ConnectionResetError("the client closed the connection during the handshake")
            self._incoming.write(received)

    def recv_into(self, buffer: memoryview) -> int:
        """Fill the buffer as far as bytes are there. Return 0 at the end. Raises: BlockingIOError, OSError. Hot: once a read."""
        size, received, is_drained = len(buffer), 0, False
        # With a buffer it returns a length.
        read: Callable[[int, memoryview], int] = self._tls.read  # type: ignore[assignment]
        raw = self._raw
        while True:
            try:
                while received < size:
                    more = read(size - received, buffer[received:])
                    if not more:
                        raise ssl.SSLZeroReturnError
                    received += more
                self._may_have_more = True
                return received
            except ssl.SSLWantReadError:
                self._may_have_more = False
            except ssl.SSLZeroReturnError:
                self._saw_end = True
                return received
            if is_drained:
                break
            try:
                encrypted = self._socket.recv_into(raw)
            except BlockingIOError:
                break
            if not encrypted:
                self._saw_end = True
                return received
            self._incoming.write(raw[:encrypted])
            is_drained = encrypted < len(raw)
        self._send_answers()
        if not received:
            raise BlockingIOError
        return received

    def recvmsg_into(self, buffers: Sequence[memoryview]) -> tuple[int]:
        """Fill the buffers one after the other. Raises as `recv_into`."""
        total = 0
        for buffer in buffers:
            if total and not self._may_have_more:
                break
            try:
                received = self.recv_into(buffer)
            except BlockingIOError:
                if not total:
                    raise
                break
            total += received
        return (total,)

    def send(self, data: bytes | memoryview, flags: int = 0) -> int:
        """Encrypt and send; return how much of `data` has gone. `flags` is ignored. Raises: BlockingIOError, OSError."""
        if not self._committed:
            piece = data if len(data) <= PIECE_BYTES else memoryview(data)[:PIECE_BYTES]
            self._committed = self._tls.write(piece)
        if not self._flush():
            raise BlockingIOError
        sent, self._committed = self._committed, 0
        return sent

    def sendfile(self, out_fd: int, in_fd: int, offset: int, count: int) -> int:
        """Encrypt and send a region of a file, with the arguments of `os.sendfile` (the first is not used). Return how much has
        gone; 0 at the file's end. Raises as `send`."""
        sent = 0
        try:
            while sent < count:
                at_once = self._committed or min(PIECE_BYTES, count - sent)
                piece = b"" if self._committed else os.pread(in_fd, at_once, offset + sent)
                if not piece and not self._committed:
                    break
                sent += self.send(piece)
        except BlockingIOError:
            if not sent:
                raise
        return sent

    def close(self) -> None:
        """Tell the peer that this is the end, as far as the socket takes it, and close."""
        try:
            self._tls.unwrap()
        except (OSError, ValueError):
            pass  # it waits for the peer's own word, or the handshake has not ended
        try:
            self._flush()
        except OSError:
            pass
        self._socket.close()
        # 40 KB, which a closed connection would hold until the next garbage collection.
        del self._tls, self._incoming, self._outgoing

    def _flush(self) -> bool:
        """Send encrypted bytes. Return whether the socket took all. Raises: OSError."""
        if self._outgoing.pending:
            made = self._outgoing.read()
            self._unsent = memoryview(bytes(self._unsent) + made if self._unsent else made)
        while self._unsent:
            try:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            except BlockingIOError:
                return False
        return True

    def _send_answers(self) -> None:
        """Send what TLS itself has to say after a read. Raises: ConnectionResetError when the peer does not read it."""
        if self._outgoing.pending and not self._flush() and len(self._unsent) > PIECE_BYTES + MOST_ANSWERS_BYTES:
            raise ConnectionResetError("the peer asks for new keys again and again, and does not read the answers")
