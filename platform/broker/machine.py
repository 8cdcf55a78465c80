"""What a broker takes from the machine that it runs on: loop, threads, disks' flushes, sockets, clocks, names, ZooKeeper.

`assembly` gets one and asks nothing else of the system, so that whole brokers also run in a simulation (decision 76). What has a
file below the data folder is used directly: a simulation records that.
"""

import os
from collections.abc import Callable
from typing import Any, Protocol

from ..coordination.session import Session
from ..coordination.surroundings import SYSTEM, Surroundings
from ..runtime.clock import Clock, SystemClock
from ..runtime.logs import get_logger
from .event_loop.loop import Loop
from .event_loop.worker import Worker
from .log.segment import boot_id
from .logins.other_brokers import connect_to_other
from .network.descriptors import share_out
from .network.send_queue import Sendfile
from .network.server import Bind, bound_to
from .partitions.cold_reads import Cache
from .partitions.flusher import FLUSHES_AT_ONCE, Flusher, ThreadFlush
from .partitions.kernel_flush import KernelFlush
from .partitions.open_logs import CLOSED_AT_ONCE
from .partitions.other_brokers import Connect
from .partitions.page_cache import PageCache
from .settings.broker_settings import BrokerSettings

log = get_logger(__name__)


class Machine(Protocol):
    """See the module. `SystemMachine` is the real one."""

    surroundings: Surroundings
    """Clocks, threads, events, names, and the client of ZooKeeper."""
    clock: Clock
    bind: Bind
    sendfile: Sendfile
    closed_at_once: int
    """Logs that are closed in parallel."""

    def share_out_descriptors(self) -> int:
        """Return the limit of descriptors. Raises: TooFewDescriptors."""
        ...

    def new_loop(self) -> Loop: ...

    def worker(
        self, name: str, post: Callable[[Callable[[], None]], None], *, capacity: int = ..., threads: int = ...
    ) -> Worker: ...

    def flusher(self, loop: Loop) -> Flusher:
        """Return what carries out the flushes that acknowledgements wait for."""
        ...

    def page_cache(self) -> Cache: ...

    def session(self, settings: BrokerSettings) -> Session:
        """Return the session with ZooKeeper, not started."""
        ...

    def connect(self, settings: BrokerSettings) -> Connect:
        """Return what connects to other brokers."""
        ...

    def boot_id(self) -> bytes:
        """Return 16 bytes that stay the same until the system restarts."""
        ...


class SystemMachine:
    """This process on its system."""

    def __init__(self) -> None:
        self.surroundings: Surroundings = SYSTEM
        self.clock: Clock = SystemClock()
        self.bind: Bind = bound_to
        self.sendfile: Sendfile = os.sendfile
        self.closed_at_once = CLOSED_AT_ONCE

    def share_out_descriptors(self) -> int:
        return share_out()

    def new_loop(self) -> Loop:
        return Loop()

    def worker(self, name: str, post: Callable[[Callable[[], None]], None], **bounds: Any) -> Worker:
        return Worker(name, post, **bounds)

    def flusher(self, loop: Loop) -> Flusher:
        """Return the kernel where it can flush, else threads of ours.

        Of a small flush that takes 144 us, the kernel makes 161 and a thread 232 (`docs/experiments/0002-durable-flushes.md`).
        """
        threads = ThreadFlush(self.worker("flush", loop.post, threads=FLUSHES_AT_ONCE))
        try:
            return KernelFlush(loop, FLUSHES_AT_ONCE, threads)
        except OSError as error:
            log.info("no_kernel_flush", why=str(error))
            return threads

    def page_cache(self) -> Cache:
        return PageCache()

    def session(self, settings: BrokerSettings) -> Session:
        return Session(
            settings.zookeeper,
            session_timeout_ms=settings.zookeeper_session_timeout_ms,
            name=f"broker-{settings.broker_id}",
            security=settings.zookeeper_security,
            surroundings=self.surroundings,
        )

    def connect(self, settings: BrokerSettings) -> Connect:
        return connect_to_other(settings)

    def boot_id(self) -> bytes:
        return boot_id.current()
