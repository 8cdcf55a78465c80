"""kazoo's threads and waits, with a cheaper wait for its socket.

kazoo waits three times for each request and each response, and its own wait makes and closes an epoll descriptor: a third
of a broker's processor time when a thousand topics are created. `poll` needs no descriptor of its own.
"""

import select
import ssl
from collections.abc import Callable, Iterable
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.handlers.utils import fileobj_to_fd

from .greeting import connected

_FAULTY = select.POLLERR | select.POLLHUP


class PollingHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's handler, with another `select`, and connections with TLS as we have them everywhere."""

    _tls: Callable[[], ssl.SSLContext] | None = None

    def use_tls(self, tls: Callable[[], ssl.SSLContext]) -> None:
        """Have connections from now on speak TLS. `tls` returns the context of a new one."""
        self._tls = tls

    def create_connection(self, *arguments: Any, **options: Any) -> Any:
        """Return a connection, with TLS if there is a context. kazoo's own TLS reads the system's CAs besides the one given."""
        if self._tls is None:
            return super().create_connection(*arguments, **options)
        return connected(options["address"], options["hostname"], self._tls(), options["timeout"])

    def select(
        self, rlist: Iterable[Any], wlist: Iterable[Any], xlist: Iterable[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Return which of them can be read and which can be written, as `select.select` does; none of `xlist`. Hot."""
        rlist = list(rlist)
        # What OpenSSL has decrypted and we have not read yet makes no descriptor readable.
        if self._tls is not None and (pending := [one for one in rlist if isinstance(one, ssl.SSLSocket) and one.pending()]):
            return pending, [], []
        reads = [(fileobj_to_fd(one), one) for one in rlist]
        writes = [(fileobj_to_fd(one), one) for one in wlist]
        wanted: dict[int, int] = {}
        for fd, _ in reads:
            wanted[fd] = select.POLLIN
        for fd, _ in writes:
            wanted[fd] = wanted.get(fd, 0) | select.POLLOUT
        waits = select.poll()
        for fd, events in wanted.items():
            waits.register(fd, events)
        found = dict(waits.poll(None if timeout is None else -(-timeout * 1000 // 1)))
        if any(events & select.POLLNVAL for events in found.values()):
            raise ValueError("a descriptor was closed while it was waited for")
        readable = [one for fd, one in reads if found.get(fd, 0) & (select.POLLIN | _FAULTY)]
        writable = [one for fd, one in writes if found.get(fd, 0) & (select.POLLOUT | _FAULTY)]
        return readable, writable, []
