"""What a session needs besides ZooKeeper's answers: threads, events, clocks, unique names, and kazoo's client."""

import secrets
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Protocol

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

from .polling import PollingHandler


class Event(Protocol):
    """As `threading.Event`."""

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool: ...


class Thread(Protocol):
    """As `threading.Thread`."""

    def start(self) -> None: ...

    def join(self, timeout: float | None = None) -> None: ...


class Surroundings(Protocol):
    """The system's own are `SystemSurroundings`; a simulation has others."""

    def monotonic_ms(self) -> int: ...

    def wall_ms(self) -> int: ...

    def new_id(self) -> str:
        """Return 32 hexadecimal digits that no other call anywhere returns."""
        ...

    def random_below(self, end: int) -> int: ...

    def event(self) -> Event: ...

    def thread(self, target: Callable[[], None], name: str) -> Thread: ...

    def is_current(self, thread: Thread) -> bool: ...

    def client(self, hosts: str, session_timeout_ms: int) -> KazooClient: ...


class SystemSurroundings:
    """Threads and clocks of this process, and kazoo on the network."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def new_id(self) -> str:
        return uuid.uuid4().hex

    def random_below(self, end: int) -> int:
        return secrets.randbelow(end)

    def event(self) -> Event:
        return threading.Event()

    def thread(self, target: Callable[[], None], name: str) -> Thread:
        return threading.Thread(target=target, name=name, daemon=True)

    def is_current(self, thread: Thread) -> bool:
        return thread is threading.current_thread()

    def client(self, hosts: str, session_timeout_ms: int) -> KazooClient:
        retry: Any = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=1.0)
        return KazooClient(hosts, timeout=session_timeout_ms / 1000, connection_retry=retry, handler=PollingHandler())


SYSTEM: Surroundings = SystemSurroundings()
