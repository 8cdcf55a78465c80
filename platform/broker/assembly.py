"""Builds all parts of one broker by hand, starts them in order, and has them stopped in reverse order.

Order: ZooKeeper session, logs (recovery), socket, workers and loop, registration. After kill -9 a restarted broker finds the
ZooKeeper node that it left behind, recognises it by the folder's id, and replaces it. It does not replace another folder's node.
What it needs of the system comes from a `Machine`, so that a simulation can run whole brokers (decision 76)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ..coordination.access_rules import AccessRules
from ..coordination.backup import export
from ..coordination.brokers import BrokerRegistry
from ..coordination.consumers import OffsetRegistry
from ..coordination.group_claims import GroupClaims
from ..coordination.group_directory import GroupDirectory
from ..coordination.group_progress import GroupProgress
from ..coordination.offset_expiry import OffsetExpiry
from ..coordination.producer_ids import ProducerIdBlocks, check_age, check_cluster_id, cluster_id, known_cluster_id
from ..coordination.quotas import QuotaRegistry
from ..coordination.replica_states import ReplicaStates
from ..coordination.session import Session
from ..coordination.topics import TopicRegistry
from ..coordination.users import UserRegistry
from ..runtime.logs import get_logger
from ..runtime.rate_limited_log import RateLimitedLog
from .errors import FolderUnusable
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
from .logins.users import Users
from .machine import Machine
from .metrics import UNKNOWN_API
from .monitoring.group_lag import GroupLag
from .monitoring.monitoring_pages import Parts
from .network.memory_return import MemoryReturn
from .network.server import NewGuard, Server
from .partitions.checkpoints import Checkpoints
from .partitions.cold_reads import MOST_WAITING, THREADS, ColdReads
from .partitions.identity import check_cluster, note_cluster
from .partitions.issued_ids import IssuedIds
from .partitions.maintenance import Maintenance
from .partitions.other_brokers import OtherBrokers
from .partitions.partition import PartitionTable
from .partitions.producer_id_allocator import ProducerIdAllocator
from .partitions.replica_lives import ReplicaLives
from .partitions.topics import Topics
from .partitions.tree_copies import TreeCopies
from .quotas.quotas import Quotas
from .replicas.asking import Peers
from .replicas.damage import ReplicaDamage
from .replicas.moves import Moves
from .replicas.old_folders import OldFolders
from .replicas.replicas import Replicas, Threads
from .replicas.scrub import ScrubSettings
from .settings.broker_settings import BrokerSettings
from .settings.listeners import advertised

log = get_logger(__name__)

MOST_REPLICAS = 100_000
"""Jobs on the disk that may wait: each replica waits for one at most, and stops where it is refused."""


class Host(Protocol):
    """The process around a broker."""

    doing: str
    """The present step, for who watches a start."""

    def started(self, name: str, stop: Callable[[], None]) -> None:
        """Note that a part runs and how it is stopped."""
        ...

    def watch(self, parts: Parts) -> None:
        """Show these numbers."""
        ...

    def run_loop(self) -> None:
        """Begin to run the loop, on a thread of its own."""
        ...

    def has_loop_ended(self) -> bool: ...

    def join_loop(self) -> None: ...

    def refused(self, error: BaseException) -> None:
        """This broker's id is in use by another one: end."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """A broker that runs."""

    ports: Mapping[str, int]
    advertised: Mapping[str, tuple[str, int]]
    broker: Broker
    table: PartitionTable
    replicas: Replicas
    session: Session
    server: Server[RequestTemplate]


def assemble(settings: BrokerSettings, machine: Machine, loop: Loop, host: Host, folder_id: str) -> Assembled:
    """Build and start everything of a broker whose data folder is locked and has this id. Return when it is registered.

    Raises: BrokerError, LogError, CoordinationError; `host` has what was started until then.
    """
    started, worker, around, now_ms = host.started, machine.worker, machine.surroundings, machine.clock.now_ms
    host.doing = f"asking ZooKeeper at {settings.zookeeper}"
    session = machine.session(settings)
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

    host.doing = "raising the start number"
    states = ReplicaStates(session)
    lives = begin_lives(settings, states, machine)
    zookeeper = worker("zookeeper", loop.post)
    disk = worker("disk", loop.post)
    maintenance = Maintenance(loop, disk, machine.flusher(loop), settings, now_ms)
    table = PartitionTable()
    asking = worker("other brokers", loop.post)
    others = OtherBrokers(
        asking,
        lambda: [one for one in topics.catalog.brokers.values() if one.broker_id != settings.broker_id],
        wait_ms=settings.topic_creation_wait_ms,
        connect=machine.connect(settings),
        clock=machine.clock,
    )
    peers = Peers(asking, lambda: topics.catalog.brokers, machine.connect(settings), machine.clock)
    checkpoints = Checkpoints(loop, worker("checkpoints", loop.post, capacity=MOST_REPLICAS))
    threads = Threads(
        states=worker("replica states", loop.post),
        notes=worker("replica notes", loop.post, threads=4, capacity=MOST_REPLICAS),
        connections=worker("replica connections", loop.post, threads=2),
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
        connect=machine.connect(settings),
        catalog=lambda: topics.catalog,
        note_states=lambda changed: topics.note_states(changed),
        wall_ms=now_ms,
        silent_ms=settings.replica_lag_time_max_ms,
        peers=peers,
    )
    moves = Moves(
        loop,
        replicas,
        threads.states,
        states,
        lambda: topics.catalog,
        registry.assign,
        lambda topic, topic_id, index: topics.drop_replica(topic, topic_id, index),
    )
    old_folders = OldFolders(
        loop,
        settings.broker_id,
        threads.states,
        states,
        lambda: topics.catalog,
        lambda found: topics.find_old_replicas(found),
        lambda topic, topic_id, index: topics.drop_replica(topic, topic_id, index, is_open=False),
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
        now_ms=now_ms,
        ask_flush=maintenance.flush,
        dispose=maintenance.dispose,
        check_cluster=check_tree,
        when_ready=others.when_ready,
        replication=replicas,
        delete_states=states.delete,
        has_lost_memory=lambda: lives.has_lost_memory,
        new_token=around.new_id,
        closed_at_once=machine.closed_at_once,
    )
    users = Users(user_registry, zookeeper, lambda after_ms, call: loop.call_at(loop.now_ms + after_ms, call))
    users.load()
    quota_registry = QuotaRegistry(session)
    quotas = Quotas(quota_registry, zookeeper, lambda after_ms, call: loop.call_at(loop.now_ms + after_ms, call))
    quotas.load()
    host.doing = "opening logs"
    topics.load()
    lives.logs_are_open()

    def close_logs() -> None:
        topics.close()
        lives.closed_cleanly()

    started("logs", close_logs)

    cold_reads = ColdReads(loop, worker("cold-reads", loop.post, capacity=MOST_WAITING, threads=THREADS), machine.page_cache())
    producer_ids = ProducerIdAllocator(ProducerIdBlocks(session, issued=issued), zookeeper)
    claims = GroupClaims(session)
    stored_groups = StoredGroups(GroupDirectory(session), claims, zookeeper)
    groups = GroupService(loop, settings, lambda: topics.catalog.brokers, stored_groups.claim, around.new_id)
    retention = OffsetRetention(
        loop,
        zookeeper,
        groups,
        OffsetExpiry(session),
        retention_ms=settings.offsets_retention_minutes * 60_000,
        interval_ms=settings.offsets_retention_check_interval_ms,
        now_ms=now_ms,
    )
    broker = Broker(
        settings=settings,
        loop=loop,
        now_ms=now_ms,
        partitions=table,
        topics=topics,
        offsets=OffsetCommits(OffsetRegistry(session), claims, zookeeper),
        groups=groups,
        stored_groups=stored_groups,
        users=users,
        quotas=quotas,
        producer_ids=producer_ids,
        disk=disk,
        replicas=replicas,
        moves=moves,
        others=others,
        peers=peers,
        damage=damage,
        cold_reads=cold_reads,
        advertised={},
        supported=SUPPORTED,
        random_below=around.random_below,
    )
    access_rules = AccessRules(session)
    if settings.has_access_rules:
        host.doing = "reading access rules"
        broker.access = access_control(broker, access_rules, zookeeper)
        broker.access.load()
        started("trail of access", broker.access.trail.close)
    copies = TreeCopies(
        loop,
        worker("tree copies", loop.post),
        lambda: export(session),
        data=settings.data,
        cluster_id=cluster.cluster_id,
        interval_ms=settings.zookeeper_copy_interval_ms,
    )
    logins = worker("logins", loop.post)
    login_log = RateLimitedLog(log, lambda: loop.now_ms)
    guard = guards_of(settings, loop, users, logins, now_ms, login_log, broker.access)
    server = Server(loop, Router(broker), settings, guard=guard, bind=machine.bind, sendfile=machine.sendfile)
    server.listen()
    started("connections", server.close)
    ports = server.ports
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
        stopped_replicas=replicas.count_stopped,
    )
    host.watch(parts)

    maintenance.start(table)
    started("disk worker", maintenance.stop)
    MemoryReturn(loop, server, maintenance.dispose).start()
    checkpoints.start(table)
    started("log worker", checkpoints.stop)
    for one in (threads.states, threads.notes, threads.connections):
        one.start()
        started(one.name, one.stop)
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
    loop.post(old_folders.start)
    loop.post(moves.start)
    retention.start()
    host.run_loop()
    started("loop", lambda: stop_loop(settings, machine, loop, host, server, replicas))

    host.doing = "registering in ZooKeeper"
    brokers.register(
        settings.broker_id,
        *broker.advertised[settings.inter_broker_listener],
        folder_id,
        endpoints=broker.advertised,
        start_number=lives.start_number,
        on_refused=host.refused,
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
        quota_registry.watch(lambda: loop.post(quotas.refresh)),
    )
    for end in watches:
        started("watch", end)
    if (access := broker.access) is not None:
        started("access rules", access_rules.watch(lambda: loop.post(access.refresh)))
    started("leaderships", lambda: hand_over(settings, machine, loop, host, replicas))
    return Assembled(
        ports=ports,
        advertised=broker.advertised,
        broker=broker,
        table=table,
        replicas=replicas,
        session=session,
        server=server,
    )


def hand_over(settings: BrokerSettings, machine: Machine, loop: Loop, host: Host, replicas: Replicas) -> None:
    """Let other brokers lead what this one leads, within a quarter of the time that a stop may take."""
    finished = machine.surroundings.event()

    def done(left: int) -> None:
        log.info("leaderships_handed_over", left=left)
        finished.set()

    within_ms = settings.shutdown_timeout_ms // 4
    loop.post(lambda: replicas.leave(done, within_ms))
    if not host.has_loop_ended():
        finished.wait(within_ms / 1000 + 0.5)


def stop_loop(
    settings: BrokerSettings, machine: Machine, loop: Loop, host: Host, server: Server[RequestTemplate], replicas: Replicas
) -> None:
    """Answer what waits, within half of the time that a stop may take, and end the loop."""
    finished = machine.surroundings.event()
    within_ms = settings.shutdown_timeout_ms // 2  # the other half is for the logs
    loop.post(replicas.end)
    loop.post(lambda: server.finish(finished.set, within_ms))
    if not host.has_loop_ended():
        finished.wait(within_ms / 1000 + 0.5)
    loop.stop()
    host.join_loop()


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


def begin_lives(settings: BrokerSettings, states: ReplicaStates, machine: Machine) -> ReplicaLives:
    """Raise the broker's start number, and return the lives of its folder. Raises CoordinationError, FolderUnusable."""
    try:
        lives = ReplicaLives(settings.data, settings.broker_id, machine.boot_id, machine.surroundings.new_id)
        return lives.begin(states)
    except OSError as error:
        raise FolderUnusable(settings.data, error) from error


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
