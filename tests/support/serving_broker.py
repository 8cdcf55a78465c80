"""A broker in this process for tests: real loop, sockets, handlers and logs. Only ZooKeeper is replaced, by a dictionary."""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from uuid import UUID, uuid4

from headrace.broker.assembly import access_control, guards_of
from headrace.broker.errors import NotMorePartitions
from headrace.broker.event_loop.loop import Loop
from headrace.broker.event_loop.worker import Worker
from headrace.broker.groups.group_service import GroupService
from headrace.broker.groups.offset_commits import OffsetCommits, Position
from headrace.broker.groups.stored_groups import StoredGroups
from headrace.broker.handlers.api_table import SUPPORTED
from headrace.broker.handlers.broker import Broker
from headrace.broker.handlers.router import Router
from headrace.broker.log import PartitionLog
from headrace.broker.logins.users import Config, Users
from headrace.broker.network.server import Server
from headrace.broker.partitions.catalog import Catalog, ReplicaAssignment, TopicEntry, assignment, extension
from headrace.broker.partitions.cold_reads import ColdReads
from headrace.broker.partitions.flusher import FLUSHES_AT_ONCE, ThreadFlush
from headrace.broker.partitions.maintenance import Maintenance
from headrace.broker.partitions.open_logs import log_config
from headrace.broker.partitions.partition import Partition, PartitionTable
from headrace.broker.partitions.producer_id_allocator import ProducerIdAllocator
from headrace.broker.quotas.quotas import Quotas
from headrace.broker.rights.rule import Rule, written
from headrace.broker.settings import broker_settings as broker_settings
from headrace.broker.settings.broker_settings import topic_settings
from headrace.coordination.committed_offset import CommittedOffset
from headrace.coordination.errors import NotClaimed
from headrace.coordination.group_claims import GroupCommit
from headrace.coordination.group_directory import Deletion, GroupTrace, PaperMember
from headrace.coordination.quotas import Changed, Entity
from headrace.runtime.logs import get_logger
from headrace.runtime.rate_limited_log import RateLimitedLog
from tests.support.raw_kafka import RawClient

NOW_MS = 1_800_000_000_000


class MemoryTopics:
    """Topics that exist immediately, unless `is_down`."""

    def __init__(self, folder: Path, table: PartitionTable, maintenance: Maintenance, defaults: Mapping[str, str]) -> None:
        self.catalog = Catalog(cluster_id="test")
        self.is_down = False
        self.never_answers = False
        self._folder, self._table, self._upkeep, self._defaults = folder, table, maintenance, defaults

    def create(
        self,
        topic: str,
        partition_count: int,
        config: Mapping[str, str],
        done: Callable[[bool | Exception], None],
        replicas: ReplicaAssignment | None = None,
        replication_factor: int = 1,
    ) -> None:
        if self._is_away(done):
            return
        if topic in self.catalog.topics:
            done(False)
            return
        live = {1, *self.catalog.brokers}
        self._put(topic, replicas or assignment(partition_count, live, replication_factor=replication_factor), config)
        done(True)

    def extend(
        self,
        topic: str,
        partition_count: int,
        replicas: Sequence[tuple[int, ...]] | None,
        done: Callable[[bool | Exception], None],
    ) -> None:
        if self._is_away(done):
            return
        entry = self.catalog.topics.get(topic)
        if entry is None:
            done(False)
            return
        try:
            more = extension(topic, entry.partitions, partition_count, {1, *self.catalog.brokers}, replicas)
        except NotMorePartitions as error:
            done(error)
            return
        self._put(topic, {**entry.partitions, **more}, entry.config)
        done(True)

    def configure(
        self,
        topic: str,
        change: Callable[[Mapping[str, str]], Mapping[str, str]],
        done: Callable[[bool | Exception], None],
    ) -> None:
        if self._is_away(done):
            return
        entry = self.catalog.topics.get(topic)
        if entry is None:
            done(False)
            return
        self._put(topic, entry.partitions, change(entry.config))
        done(True)

    def _is_away(self, done: Callable[[bool | Exception], None]) -> bool:
        if self.is_down:
            done(ConnectionError("ZooKeeper is away"))
        return self.never_answers or self.is_down

    def _put(self, topic: str, replicas: ReplicaAssignment, config: Mapping[str, str]) -> None:
        present = self.catalog.topics.get(topic)
        topic_id = uuid4() if present is None else present.topic_id
        entry = TopicEntry(name=topic, partitions=replicas, config=config, topic_id=topic_id)
        self.catalog = replace(self.catalog, topics={**self.catalog.topics, topic: entry})
        settings = topic_settings.settings_of(config, self._defaults)
        for index in replicas:
            present = self._table.get(topic, index)
            if present is not None:
                present.log.config = log_config(settings)
                present.configure(settings)
                continue
            log = PartitionLog.open(
                self._folder / f"{topic}-{index}", topic=topic, partition=index, config=log_config(settings), now_ms=NOW_MS
            )
            self._table.add(Partition(topic, index, log, settings, self._upkeep.flush))

    def delete(self, topic: str, done: Callable[[bool | Exception], None], topic_id: UUID | None = None) -> None:
        if self._is_away(done):
            return
        present = self.catalog.topics.get(topic)
        existed = present is not None and topic_id in (None, present.topic_id)
        if not existed:
            done(False)
            return
        topics = {name: entry for name, entry in self.catalog.topics.items() if name != topic}
        self.catalog = Catalog(cluster_id="test", topics=topics)
        self._table.remove_topic(topic)
        done(existed)


class MemoryOffsets:
    """An offset store and group directory that counts its writes and can be held back."""

    def __init__(self) -> None:
        self.offsets: dict[str, dict[Position, CommittedOffset]] = {}
        self.paper_members: dict[str, dict[str, PaperMember]] = {}
        self.claims: dict[str, str] = {}
        self.is_away = False
        self.writes = 0
        self.gate = threading.Event()
        self.gate.set()

    def read(self, group: str, partitions: Sequence[Position] | None) -> dict[Position, CommittedOffset]:
        self._check()
        known = self.offsets.get(group, {})
        return dict(known) if partitions is None else {one: known[one] for one in partitions if one in known}

    def claim(self, group: str) -> str:
        self._check()
        return self.claims.setdefault(group, "first")

    def commit(self, commits: Sequence[GroupCommit]) -> list[Exception | None]:
        assert self.gate.wait(10)
        self._check()
        self.writes += 1
        return [self._commit(one) for one in commits]

    def _commit(self, one: GroupCommit) -> Exception | None:
        if one.claim not in (None, self.claims.get(one.group)):
            return NotClaimed(one.group)
        self.offsets.setdefault(one.group, {}).update(one.offsets)
        return None

    def forget(self, group: str, partitions: Collection[Position]) -> set[Position]:
        self._check()
        known = self.offsets.get(group, {})
        return {one for one in partitions if known.pop(one, None) is not None}

    def forget_topics(self, topics: Collection[str]) -> None:
        self._check()
        for known in self.offsets.values():
            for position in [one for one in known if one[0] in topics]:
                del known[position]

    def groups(self) -> dict[str, bool]:
        self._check()
        return {name: name in self.paper_members for name in sorted({*self.offsets, *self.paper_members})}

    def describe(self, groups: Iterable[str]) -> dict[str, GroupTrace]:
        self._check()
        members = self.paper_members
        return {name: GroupTrace(has_offsets=bool(self.offsets.get(name)), members=members.get(name, {})) for name in groups}

    def has_members(self, group: str) -> bool:
        self._check()
        return group in self.paper_members

    def delete(self, group: str) -> Deletion:
        self._check()
        if group in self.paper_members:
            return Deletion.HAS_MEMBERS
        return Deletion.DONE if self.offsets.pop(group, None) else Deletion.ABSENT

    def _check(self) -> None:
        if self.is_away:
            raise ConnectionError("ZooKeeper is away")


class MemoryBlocks:
    """Blocks of ten producer ids; `fails` makes the next one fail."""

    def __init__(self) -> None:
        self.next = 7_000
        self.fails = False

    def next_block(self) -> range:
        if self.fails:
            raise ConnectionError("ZooKeeper is away")
        self.next += 10
        return range(self.next - 10, self.next)


class MemoryRules:
    """A store of access rules; `is_away` makes its calls fail."""

    def __init__(self) -> None:
        self.rows: Sequence[Sequence[str]] = []
        self.is_away = False

    def read(self) -> Sequence[Sequence[str]]:
        if self.is_away:
            raise ConnectionError("ZooKeeper is away")
        return self.rows

    def change(self, change: Callable[[Sequence[Sequence[str]]], Sequence[Sequence[str]]]) -> Sequence[Sequence[str]]:
        self.rows = change(self.read())
        return self.rows


class MemoryUsers:
    """Users' settings in a dictionary."""

    def __init__(self) -> None:
        self.users: dict[str, Config] = {}
        self.is_away = False

    def secret(self) -> bytes:
        return b"secret of the test's brokers"

    def list(self) -> list[str]:
        return sorted(self.users)

    def read_each(self, users: Sequence[str]) -> Mapping[str, Config]:
        if self.is_away:
            raise ConnectionError("ZooKeeper is away")
        return {name: self.users[name] for name in users if name in self.users}

    def change(self, user: str, change: Callable[[Config], Config]) -> None:
        if self.is_away:
            raise ConnectionError("ZooKeeper is away")
        self.users[user] = change(self.users.get(user, {}))
        if not self.users[user]:
            del self.users[user]


class MemoryQuotas:
    """Quotas in a dictionary."""

    def __init__(self) -> None:
        self.configs: dict[Entity, Config] = {}
        self.is_away = False
        self._number = 0

    def read(self, known: int | None = None) -> Changed:
        if self.is_away:
            raise ConnectionError("ZooKeeper is away")
        return Changed(self._number, dict(self.configs), is_all=True)

    def change(self, entity: Entity, change: Callable[[Config], Config]) -> None:
        if self.is_away:
            raise ConnectionError("ZooKeeper is away")
        self._number += 1
        self.configs[entity] = change(self.configs.get(entity, {}))


class ServingBroker:
    """Serves on a free port while entered. `topics` are created first: name to (partitions, settings)."""

    def __init__(
        self,
        folder: Path,
        *,
        topics: Mapping[str, int | tuple[int, dict[str, str]]] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        words = [f"{name}={value}" for name, value in (settings or {}).items()]
        self.settings = broker_settings.from_words(data=folder, zookeeper="played", port=0, words=words)
        self.wall_ms = NOW_MS
        self.loop = Loop()
        self.table = PartitionTable()
        self.offsets = MemoryOffsets()
        self.blocks = MemoryBlocks()
        self._worker = Worker("worker", self.loop.post)
        self._disk = Worker("disk", self.loop.post)
        self.cold_reads = ColdReads(self.loop)
        flusher = ThreadFlush(Worker("flushers", self.loop.post, threads=FLUSHES_AT_ONCE))
        self.maintenance = Maintenance(self.loop, self._disk, flusher, self.settings, lambda: NOW_MS)
        self.topics = MemoryTopics(folder, self.table, self.maintenance, self.settings.topic_defaults)
        self.user_registry = MemoryUsers()
        self.users = Users(self.user_registry, self._worker, lambda after_ms, call: None)
        self.users.load()
        self.quota_registry = MemoryQuotas()
        self.quotas = Quotas(self.quota_registry, self._worker, lambda after_ms, call: None)
        self._logins = Worker("logins", self.loop.post)
        traces = StoredGroups(self.offsets, self.offsets, self._worker)
        self.context = Broker(
            settings=self.settings,
            loop=self.loop,
            now_ms=lambda: NOW_MS,
            partitions=self.table,
            topics=self.topics,
            offsets=OffsetCommits(self.offsets, self.offsets, self._worker),
            groups=GroupService(self.loop, self.settings, lambda: self.topics.catalog.brokers, traces.claim),
            stored_groups=traces,
            users=self.users,
            quotas=self.quotas,
            producer_ids=ProducerIdAllocator(self.blocks, self._worker),
            disk=self._disk,
            cold_reads=self.cold_reads,
            advertised={"PLAINTEXT": ("127.0.0.1", 0)},
            supported=SUPPORTED,
        )
        self.rules = MemoryRules()
        if self.settings.has_access_rules:
            self.context.access = access_control(self.context, self.rules, self._worker)
        self.login_log = RateLimitedLog(get_logger(__name__), lambda: self.loop.now_ms)
        guard = guards_of(
            self.settings, self.loop, self.users, self._logins, lambda: self.wall_ms, self.login_log, self.context.access
        )
        self.server = Server(self.loop, Router(self.context), self.settings, guard=guard)
        self._thread = threading.Thread(target=self.loop.run, daemon=True)
        for name, wanted in (topics or {}).items():
            count, config = (wanted, {}) if isinstance(wanted, int) else wanted
            self.topics.create(name, count, config, lambda outcome: None)

    def __enter__(self) -> "ServingBroker":
        self.server.listen()
        ports = self.server.ports
        self.context.advertised = {name: ("127.0.0.1", port) for name, port in ports.items()}
        self.maintenance.start(self.table)
        self._worker.start()
        self._logins.start()
        self.cold_reads.start()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.loop.stop()
        self._thread.join(10)
        self.offsets.gate.set()
        self._worker.stop()
        self._logins.stop()
        self.cold_reads.stop()
        self.maintenance.stop()
        self.server.close()
        self.loop.close()
        for partition in self.table:
            partition.log.close()

    @property
    def port(self) -> int:
        return self.context.advertised[self.settings.listeners[0].name][1]

    def client(self) -> RawClient:
        return RawClient(self.port)

    def partition(self, topic: str, index: int = 0) -> Partition:
        partition = self.table.get(topic, index)
        assert partition is not None
        return partition

    def set_rules(self, rules: Iterable[Rule]) -> None:
        """Put these access rules in the place of all."""
        access = self.context.access
        assert access is not None
        self.rules.rows = written(rules)
        self.on_loop(access.load)

    def on_loop(self, function: Callable[[], None]) -> None:
        """Run `function` on the loop thread and return when it has run."""
        ran = threading.Event()

        def run() -> None:
            function()
            ran.set()

        self.loop.post(run)
        assert ran.wait(10)
