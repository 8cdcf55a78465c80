"""What the loop asks of the system: which descriptors have something, and a way for other threads to end its wait."""

import os
import select
from typing import Protocol


class Poller(Protocol):
    """Descriptors that are watched, and one, `wake_fd`, that becomes readable when a thread calls `wake`."""

    @property
    def wake_fd(self) -> int: ...

    def register(self, fd: int, mask: int, /) -> None: ...

    def modify(self, fd: int, mask: int, /) -> None: ...

    def unregister(self, fd: int, /) -> None: ...

    def poll(self, within_s: float, most: int, /) -> list[tuple[int, int]]:
        """Return descriptors with the events of each, after `within_s` at the latest."""
        ...

    def wake(self) -> None:
        """End the present wait or the next one. Any thread may call this."""
        ...

    def drain(self) -> None:
        """Take note of all wakes until now."""
        ...

    def close(self) -> None: ...


class EpollPoller:
    """Linux's own. The calls of epoll are its attributes, so that none costs a call more."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self.wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.register, self.modify, self.unregister = self._epoll.register, self._epoll.modify, self._epoll.unregister
        self.poll = self._epoll.poll
        self.register(self.wake_fd, select.EPOLLIN)

    def wake(self) -> None:
        os.eventfd_write(self.wake_fd, 1)

    def drain(self) -> None:
        try:
            os.eventfd_read(self.wake_fd)
        except BlockingIOError:
            pass

    def close(self) -> None:
        self._epoll.close()
        os.close(self.wake_fd)
