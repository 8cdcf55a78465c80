"""The composition root of one broker: builds all parts by hand, starts them in order, stops them in reverse order.

Order: folder lock and identity, ZooKeeper session, logs (recovery), socket, loop and workers, registration. Ready means
listening and registered. Metrics and health are served all the time, so that a long recovery and a long stop can be watched.
After kill -9 a restarted broker finds the ZooKeeper node that it left behind, recognises it by the folder's id, and replaces it.
It does not replace another folder's node."""

import os
import threading
from collections.abc import Callable

from .. import __version__
from ..coordination.access_rules import AccessRules
from ..coordination.backup import export
from ..coordination.brokers import BrokerRegistry
from ..coordination.consumers import OffsetRegistry
from ..coordination.group_claims import GroupClaims
from ..coordination.group_directory import GroupDirectory
from ..coordination.group_progress import GroupProgress
from ..coordination.offset_expiry import OffsetExpiry
from ..coordination.producer_ids import ProducerIdBlocks, check_age, check_cluster_id, cluster_id, known_cluster_id
from ..coordination.replica_states import ReplicaStates
from ..coordination.session import Session
from ..coordination.topics import TopicRegistry
from ..coordination.users import UserRegistry
from ..runtime.clock import Clock, SystemClock
from ..runtime.collector import freeze_live_objects
from ..runtime.lifecycle import Lifecycle, StopSignal
from ..runtime.logs import get_logger
from ..runtime.monitoring.http_server import HttpServer
from ..runtime.rate_limited_log import RateLimitedLog
from ..runtime.status import StatusFile
from .errors import BrokerError, FolderUnusable
from .event_loop.loop import Loop
from .event_loop.worker import Worker
from .groups.group_service import GroupService
from .groups.offset_commits import OffsetCommits
from .groups.offset_retention import OffsetRetention
from .groups.stored_groups import StoredGroups
from .handlers.access.control import AccessControl, RuleStore
from .handlers.access.trail import Trail
from .handlers.access_topic import BROKER, AccessTopic
from .handlers.api_table import BETWEEN_BROKERS, SUPPORTED, TABLE
from .handlers.broker import Broker
from .handlers.request_template import RequestTemplate
from .handlers.router import Router
from .logins.other_brokers import connect_to_other
from .logins.users import Users
from .metrics import UNKNOWN_API
from .monitoring.group_lag import GroupLag
from .monitoring.monitoring_pages import MonitoringPages, Parts
from .network.descriptors import share_out
from .network.memory_return import MemoryReturn
from .network.server import NewGuard, Server
from .partitions.checkpoints import Checkpoints
from .partitions.cold_reads import ColdReads
from .partitions.flusher import FLUSHES_AT_ONCE, Flusher, ThreadFlush
from .partitions.identity import FolderLock, check_cluster, identify, note_cluster
from .partitions.issued_ids import IssuedIds
from .partitions.kernel_flush import KernelFlush
from .partitions.maintenance import Maintenance
from .partitions.other_brokers import OtherBrokers
from .partitions.partition import PartitionTable
from .partitions.producer_id_allocator import ProducerIdAllocator
from .partitions.replica_lives import ReplicaLives
from .partitions.topics import Topics
from .partitions.tree_copies import TreeCopies
from .replicas.asking import Peers
from .replicas.damage import ReplicaDamage
from .replicas.replicas import Replicas, Threads
from .replicas.scrub import ScrubSettings
from .settings.broker_settings import BrokerSettings
from .settings.listeners import advertised

log = get_logger(__name__)

WATCH_EVERY_MS = 500


class BrokerProcess:
    """One broker in this process. `start`, then `wait`, then `stop`."""

    def __init__(self, settings: BrokerSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self._lifecycle = Lifecycle()
        self._status = StatusFile(settings.status_file)
        self._loop = Loop()
        self._loop_thread = threading.Thread(target=self._loop.run, name="broker-loop", daemon=True)
        self._fatal: BaseException | None = None
        self._pages = MonitoringPages(settings, self._loop, self._loop_thread.is_alive)
        self._begun_ms = self._clock.monotonic_ms()
        self._is_stopped = False
        self.port = settings.listeners[0].port
        self.http_port = settings.http_port

    def start(self) -> None:
        """Start everything and return when the broker is ready. Raises: BrokerError, LogError, CoordinationError, after what was
        started has been stopped again.
        """
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def wait(self, stop: StopSignal) -> None:
        """Return when a stop is requested. Raises: BrokerError when the broker cannot continue."""
        while not stop.wait(WATCH_EVERY_MS):
            if not self._loop_thread.is_alive():
                raise BrokerError("the broker's loop has ended unexpectedly: see the log above; start the broker again")
            if self._fatal is not None:
                raise self._fatal

    def stop(self) -> None:
        """Stop everything in reverse order. Pending requests are answered, logs flushed and closed."""
        if self._is_stopped:
            return
        self._is_stopped = True
        begun_ms = self._clock.monotonic_ms()
        self._pages.phase = "stopping"
        self._status.write("stopping")
        self._lifecycle.stop()
        log.info("broker_stopped", broker_id=self.settings.broker_id, took_ms=self._clock.monotonic_ms() - begun_ms)

    @property
    def is_stopped(self) -> bool:
        """Whether a stop has begun: by `stop`, or by a start that failed."""
        return self._is_stopped

    @property
    def doing(self) -> str:
        """The present step of a start or a stop."""
        return self._lifecycle.stopping or self._pages.doing

    def _start(self) -> None:
        settings, loop, started, pages = self.settings, self._loop, self._lifecycle.started, self._pages
        self._status.write("starting")
        said = {one.name: f"{one.value} ({one.source})" for one in settings.effective if one.source != "default"}
        log.info("broker_starting", broker_id=settings.broker_id, version=__version__, pid=os.getpid(), settings=said)
        pages.doing = "taking the data folder"
        descriptors = share_out()
        lock = FolderLock(settings.data).take()
        started("folder lock", lock.release)
        identity = identify(settings.data, settings.broker_id)
        if settings.http_port is not None:
            http = HttpServer(settings.http_host, settings.http_port, pages.pages(), token_file=settings.http_token_file)
            http.start()
            started("metrics and health", http.stop)
            self.http_port = http.port

        pages.doing = f"asking ZooKeeper at {settings.zookeeper}"
        session = Session(
            settings.zookeeper, session_timeout_ms=settings.zookeeper_session_timeout_ms, name=f"broker-{settings.broker_id}"
        )
        session.start(settings.zookeeper_connection_timeout_ms)
        started("ZooKeeper session", session.close)
        known = known_cluster_id(session)
        check_cluster(settings.data, None if known is None else known.cluster_id)
        cluster = cluster_id(session)
        note_cluster(settings.data, cluster.cluster_id)
        issued = IssuedIds(settings.data)
        check_age(session, cluster, issued)

        def check_tree() -> None:
            check_cluster_id(session, cluster)
            check_age(session, cluster, issued)

        registry, brokers, user_registry = TopicRegistry(session), BrokerRegistry(session), UserRegistry(session)

        pages.doing = "raising the start number"
        states = ReplicaStates(session)
        lives = begin_lives(settings, states)
        zookeeper = Worker("zookeeper", loop.post)
        disk = Worker("disk", loop.post)
        maintenance = Maintenance(loop, disk, choose_flusher(loop), settings, self._clock.now_ms)
        table = PartitionTable()
        asking = Worker("other brokers", loop.post)
        others = OtherBrokers(
            asking,
            lambda: [one for one in topics.catalog.brokers.values() if one.broker_id != settings.broker_id],
            wait_ms=settings.topic_creation_wait_ms,
            connect=connect_to_other(settings),
        )
        peers = Peers(asking, lambda: topics.catalog.brokers, connect_to_other(settings))
        checkpoints = Checkpoints(loop, Worker("checkpoints", loop.post))
        threads = Threads(
            states=Worker("replica states", loop.post),
            notes=Worker("replica notes", loop.post, threads=4),
            connections=Worker("replica connections", loop.post, threads=2),
        )
        replicas = Replicas(
            loop=loop,
            broker_id=settings.broker_id,
            states=states,
            lives=lives,
            table=table,
            maintenance=maintenance,
            checkpoints=checkpoints,
            threads=threads,
            connect=connect_to_other(settings),
            catalog=lambda: topics.catalog,
            note_states=lambda changed: topics.note_states(changed),
            wall_ms=self._clock.now_ms,
            silent_ms=settings.replica_lag_time_max_ms,
        )
        scrub = ScrubSettings(interval_ms=settings.log_scrub_interval_ms, bytes_per_second=settings.log_scrub_bytes_per_second)
        damage = ReplicaDamage(loop, replicas, peers, scrub)
        topics = Topics(
            data=settings.data,
            broker_id=settings.broker_id,
            defaults=settings.topic_defaults,
            cluster_id=cluster.cluster_id,
            topics=registry,
            brokers=brokers,
            table=table,
            worker=zookeeper,
            now_ms=self._clock.now_ms,
            ask_flush=maintenance.flush,
            dispose=maintenance.dispose,
            check_cluster=check_tree,
            when_ready=others.when_ready,
            replication=replicas,
            delete_states=states.delete,
            has_lost_memory=lambda: lives.has_lost_memory,
        )
        users = Users(user_registry, zookeeper, lambda after_ms, call: loop.call_at(loop.now_ms + after_ms, call))
        users.load()
        pages.doing = "opening logs"
        topics.load()
        lives.logs_are_open()

        def close_logs() -> None:
            topics.close()
            lives.closed_cleanly()

        started("logs", close_logs)

        cold_reads = ColdReads(loop)
        producer_ids = ProducerIdAllocator(ProducerIdBlocks(session, issued=issued), zookeeper)
        claims = GroupClaims(session)
        stored_groups = StoredGroups(GroupDirectory(session), claims, zookeeper)
        groups = GroupService(loop, settings, lambda: topics.catalog.brokers, stored_groups.claim)
        retention = OffsetRetention(
            loop,
            zookeeper,
            groups,
            OffsetExpiry(session),
            retention_ms=settings.offsets_retention_minutes * 60_000,
            interval_ms=settings.offsets_retention_check_interval_ms,
            now_ms=self._clock.now_ms,
        )
        broker = Broker(
            settings=settings,
            loop=loop,
            now_ms=self._clock.now_ms,
            partitions=table,
            topics=topics,
            offsets=OffsetCommits(OffsetRegistry(session), claims, zookeeper),
            groups=groups,
            stored_groups=stored_groups,
            users=users,
            producer_ids=producer_ids,
            disk=disk,
            replicas=replicas,
            others=others,
            peers=peers,
            damage=damage,
            cold_reads=cold_reads,
            advertised={},
            supported=SUPPORTED,
        )
        access_rules = AccessRules(session)
        if settings.has_access_rules:
            pages.doing = "reading access rules"
            broker.access = access_control(broker, access_rules, zookeeper)
            broker.access.load()
        copies = TreeCopies(
            loop,
            Worker("tree copies", loop.post),
            lambda: export(session),
            data=settings.data,
            cluster_id=cluster.cluster_id,
            interval_ms=settings.zookeeper_copy_interval_ms,
        )
        logins = Worker("logins", loop.post)
        login_log = RateLimitedLog(log, lambda: loop.now_ms)
        guard = guards_of(settings, loop, users, logins, self._clock.now_ms, login_log, broker.access)
        server = Server(loop, Router(broker), settings, guard=guard)
        server.listen()
        started("connections", server.close)
        ports = server.ports
        self.port = ports[settings.listeners[0].name]
        broker.advertised = advertised(settings.listeners, ports)
        parts = Parts(
            metrics=broker.metrics,
            partitions=table,
            connections=server,
            accepted=lambda: server.accepted_count,
            rejections=lambda: server.rejections.counts | login_log.counts,
            flushes=lambda: (maintenance.flush_durations, maintenance.failed_flush_count),
            cold_reads=lambda: (cold_reads.count, cold_reads.bytes),
            groups=lambda: [(group.state.value, len(group.members)) for group in groups.all()],
            group_lag=GroupLag(loop, zookeeper, GroupProgress(session), table).take,
            tree_copied_at=copies.copied_at,
            session=session,
            api_names={UNKNOWN_API: "unknown", **{key: api.name for key, api in {**TABLE, **BETWEEN_BROKERS}.items()}},
            catalog=lambda: topics.catalog,
            damage=damage.book.counts,
        )
        pages.watch(parts)

        maintenance.start(table)
        started("disk worker", maintenance.stop)
        MemoryReturn(loop, server, maintenance.dispose).start()
        checkpoints.start(table)
        started("log worker", checkpoints.stop)
        for worker in (threads.states, threads.notes, threads.connections):
            worker.start()
            started(worker.name, worker.stop)
        zookeeper.start()
        started("ZooKeeper worker", zookeeper.stop)
        logins.start()
        started("logins", logins.stop)
        asking.start()
        started("questions to other brokers", asking.stop)
        cold_reads.start()
        started("cold reads", cold_reads.stop)
        copies.start()
        started("copies of the tree", copies.stop)
        loop.post(producer_ids.stock_up)
        loop.post(replicas.start)
        loop.post(damage.start)
        retention.start()
        freeze_live_objects()
        self._loop_thread.start()
        started("loop", lambda: self._stop_loop(server, replicas))

        pages.doing = "registering in ZooKeeper"
        brokers.register(
            settings.broker_id,
            *broker.advertised[settings.inter_broker_listener],
            identity.folder_id,
            endpoints=broker.advertised,
            start_number=lives.start_number,
            on_refused=self._refused,
        )
        started("registration", brokers.withdraw)

        def refresh(topic: str | None = None) -> None:
            copies.note_change()
            loop.post(lambda: topics.refresh(topic))

        def refresh_users(user: str | None = None) -> None:
            loop.post(lambda: users.refresh(user))

        watches = (
            registry.watch_each(refresh, refresh),
            brokers.watch(refresh),
            user_registry.watch_each(refresh_users, refresh_users),
        )
        for end in watches:
            started("watch", end)
        if (access := broker.access) is not None:
            started("access rules", access_rules.watch(lambda: loop.post(access.refresh)))
        pages.phase = "ready"
        self._status.write(
            "ready",
            port=self.port,
            ports=dict(ports),
            http_port=self.http_port,
            broker_id=settings.broker_id,
            folder_id=identity.folder_id,
        )
        took_ms = self._clock.monotonic_ms() - self._begun_ms
        log.info(
            "broker_ready",
            descriptors=descriptors,
            broker_id=settings.broker_id,
            listeners={name: f"{host}:{port}" for name, (host, port) in broker.advertised.items()},
            port=self.port,
            http_port=self.http_port,
            partitions=len(table),
            took_ms=took_ms,
        )

    def _stop_loop(self, server: Server[RequestTemplate], replicas: Replicas) -> None:
        finished = threading.Event()
        within_ms = self.settings.shutdown_timeout_ms // 2  # the other half is for the logs
        self._loop.post(replicas.end)
        self._loop.post(lambda: server.finish(finished.set, within_ms))
        if self._loop_thread.is_alive():
            finished.wait(within_ms / 1000 + 0.5)
        self._loop.stop()
        self._loop_thread.join(10)

    def _refused(self, error: BaseException) -> None:
        # Another folder's broker took the id while this one's session was lost: two brokers must not answer under one id.
        self._pages.fatal = str(error)
        self._fatal = error


def access_control(broker: Broker, store: RuleStore, zookeeper: Worker) -> AccessControl:
    """Return what holds requests to the rules in `store`."""
    settings, metrics = broker.settings, broker.metrics
    if not settings.super_users:
        log.warning(
            "no_super_users", why="super.users is empty: until rules allow a client to, none can read, write or administer"
        )
    return AccessControl(
        store,
        zookeeper,
        Trail(broker.loop, broker.now_ms, metrics, AccessTopic(broker).take),
        metrics,
        lambda after_ms, call: broker.loop.call_at(broker.loop.now_ms + after_ms, call),
        api_names={key: api.name for key, api in {**TABLE, **BETWEEN_BROKERS}.items()},
        super_users=(*settings.super_users, str(BROKER)),
        allow_if_no_rule=settings.allow_everyone_if_no_rule,
    )


def begin_lives(settings: BrokerSettings, states: ReplicaStates) -> ReplicaLives:
    """Raise the broker's start number, and return the lives of its folder. Raises CoordinationError, FolderUnusable."""
    try:
        return ReplicaLives(settings.data, settings.broker_id).begin(states)
    except OSError as error:
        raise FolderUnusable(settings.data, error) from error


def choose_flusher(loop: Loop) -> Flusher:
    """Return what carries out the flushes that acknowledgements wait for: the kernel where it can, else threads of ours.

    Of a small flush that takes 144 us, the kernel makes 161 and a thread 232 (`docs/experiments/0002-durable-flushes.md`).
    """
    threads = ThreadFlush(Worker("flush", loop.post, threads=FLUSHES_AT_ONCE))
    try:
        return KernelFlush(loop, FLUSHES_AT_ONCE, threads)
    except OSError as error:
        log.info("no_kernel_flush", why=str(error))
        return threads


def guards_of(
    settings: BrokerSettings,
    loop: Loop,
    users: Users,
    worker: Worker,
    now_ms: Callable[[], int],
    failures: RateLimitedLog,
    access: AccessControl | None = None,
) -> NewGuard | None:
    """Return what makes the guard of a connection that must log in; None where no listener has a login."""
    if settings.logins is None:
        return None
    # Here, so that a broker without logins does not load what checks certificates and tokens.
    from .logins.starting import logins_of

    note_failure = None if access is None else access.trail.login_failed
    return logins_of(settings, loop, users, worker, now_ms, failures, note_failure)
