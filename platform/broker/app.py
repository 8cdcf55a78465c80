"""The composition root of one broker: builds everything by hand, starts it in order, stops it in reverse.

Order: folder lock and identity, ZooKeeper session, logs (recovery), socket, loop and workers, registration. Ready means
listening and registered. A restart after kill -9 meets its own ZooKeeper node and replaces it, known by the folder's id; a
stranger's is refused."""

import gc
import threading

from ..coordination.brokers import BrokerRegistry
from ..coordination.consumers import OffsetRegistry
from ..coordination.producer_ids import ProducerIdBlocks, cluster_id
from ..coordination.session import Session
from ..coordination.topics import TopicRegistry
from ..runtime.clock import Clock, SystemClock
from ..runtime.lifecycle import Lifecycle, StopSignal
from ..runtime.logs import get_logger
from ..runtime.status import StatusFile
from .errors import BrokerError
from .handlers.context import Context
from .identity import FolderLock, identify
from .loop import Loop
from .offset_desk import OffsetDesk
from .partitions import PartitionTable
from .producer_id_desk import ProducerIdDesk
from .router import SUPPORTED, Router
from .server import FINISH_MS, Server
from .settings import BrokerSettings
from .topic_keeper import TopicKeeper
from .upkeep import Upkeep
from .worker import Worker

log = get_logger(__name__)

WATCH_EVERY_MS = 500


class Broker:
    """One broker in this process. `start`, then `wait`, then `stop`."""

    def __init__(self, settings: BrokerSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self._lifecycle = Lifecycle()
        self._status = StatusFile(settings.status_file)
        self._loop = Loop()
        self._loop_thread = threading.Thread(target=self._loop.run, name="broker-loop", daemon=True)
        self._fatal: BaseException | None = None
        self.port = settings.port

    def start(self) -> None:
        """Start everything and return when the broker is ready. Raises: BrokerError, LogError, CoordinationError; it is then
        stopped again.
        """
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def wait(self, stop: StopSignal) -> None:
        """Return when a stop is asked for. Raises: BrokerError when the broker cannot go on."""
        while not stop.wait(WATCH_EVERY_MS):
            if not self._loop_thread.is_alive():
                raise BrokerError("the broker's loop has ended by itself: see the log above; start the broker again")
            if self._fatal is not None:
                raise self._fatal

    def stop(self) -> None:
        """Stop everything, last started first; logs are flushed and closed."""
        self._status.write("stopping")
        self._lifecycle.stop()

    def _start(self) -> None:
        settings, loop, started = self.settings, self._loop, self._lifecycle.started
        self._status.write("starting")
        lock = FolderLock(settings.data).take()
        started("folder lock", lock.release)
        identity = identify(settings.data, settings.broker_id)

        session = Session(
            settings.zookeeper, session_timeout_ms=settings.zookeeper_session_timeout_ms, name=f"broker-{settings.broker_id}"
        )
        session.start(settings.zookeeper_connection_timeout_ms)
        started("ZooKeeper session", session.close)
        topics, brokers = TopicRegistry(session), BrokerRegistry(session)

        desk = Worker("zookeeper-desk", loop.post)
        upkeep = Upkeep(loop, Worker("disk-desk", loop.post), settings, self._clock.now_ms)
        table = PartitionTable()
        keeper = TopicKeeper(
            data=settings.data,
            broker_id=settings.broker_id,
            defaults=settings.topic_defaults,
            cluster_id=cluster_id(session).cluster_id,
            topics=topics,
            brokers=brokers,
            table=table,
            worker=desk,
            now_ms=self._clock.now_ms,
            ask_flush=upkeep.flush,
            dispose=upkeep.dispose,
        )
        keeper.load()
        started("logs", keeper.close)

        producer_ids = ProducerIdDesk(ProducerIdBlocks(session), desk)
        context = Context(
            settings=settings,
            loop=loop,
            now_ms=self._clock.now_ms,
            partitions=table,
            topics=keeper,
            offsets=OffsetDesk(OffsetRegistry(session), desk),
            producer_ids=producer_ids,
            host=settings.advertised_host,
            port=settings.port,
            supported=SUPPORTED,
        )
        server = Server(loop, Router(context), settings)
        server.listen()
        started("connections", server.close)
        self.port = context.port = server.port

        upkeep.start(table)
        started("disk worker", upkeep.stop)
        desk.start()
        started("ZooKeeper worker", desk.stop)
        loop.post(producer_ids.stock_up)
        _spare_the_collector()
        self._loop_thread.start()
        started("loop", lambda: self._stop_loop(server))

        brokers.register(settings.broker_id, settings.advertised_host, self.port, identity.folder_id, on_refused=self._refused)
        started("registration", brokers.withdraw)
        for end in (topics.watch(lambda: loop.post(keeper.refresh)), brokers.watch(lambda: loop.post(keeper.refresh))):
            started("watch", end)
        self._status.write("ready", port=self.port, broker_id=settings.broker_id, folder_id=identity.folder_id)
        log.info("broker_ready", broker_id=settings.broker_id, host=settings.host, port=self.port, partitions=len(table))

    def _stop_loop(self, server: Server) -> None:
        finished = threading.Event()
        self._loop.post(lambda: server.finish(finished.set))
        if self._loop_thread.is_alive():
            finished.wait(FINISH_MS / 1000 + 1)
        self._loop.stop()
        self._loop_thread.join(10)

    def _refused(self, error: BaseException) -> None:
        # Another folder's broker took the id while this one's session was lost: two must not answer under one id.
        self._fatal = error


def _spare_the_collector() -> None:
    """What is there now stays; and requests make no cycles, so that looking for some more seldom costs nothing."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
