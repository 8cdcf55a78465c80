"""One client's connection over TLS: it also reads when decrypted bytes wait that epoll does not show."""

from select import EPOLLIN

from .connection import Connection, Shared
from .frame_runner import Template
from .peer import Peer
from .tls_stream import TlsStream


class TlsConnection(Connection[Template]):
    """Lives on the loop thread."""

    __slots__ = ("_reads_on", "_tls")

    def __init__(self, stream: TlsStream, peer: Peer, shared: Shared[Template]) -> None:
        super().__init__(stream, peer, shared, sendfile=stream.sendfile)
        self._tls = stream
        self._reads_on = False
        """Whether `_read_on` will be called in the next turn."""

    def start(self) -> None:
        super().start()
        self._look()

    def _on_event(self, mask: int) -> None:
        super()._on_event(mask)
        self._look()

    def _go_on(self) -> None:
        super()._go_on()
        self._look()

    def _look(self) -> None:
        if not self._reads_on and not self.is_closed and self._mask & EPOLLIN and self._tls.has_more:
            self._reads_on = True
            self._shared.loop.post(self._read_on)

    def _read_on(self) -> None:
        self._reads_on = False
        if not self.is_closed:
            self._on_event(EPOLLIN)
