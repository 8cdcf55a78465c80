"""A broker in this process for tests: real loop, sockets, handlers and logs; ZooKeeper alone is played, by a dictionary."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from headrace.broker import settings as broker_settings
from headrace.broker import topic_settings
from headrace.broker.catalog import Catalog, TopicEntry
from headrace.broker.handlers.context import Context
from headrace.broker.log import PartitionLog
from headrace.broker.loop import Loop
from headrace.broker.offset_desk import OffsetDesk, Position
from headrace.broker.partitions import Partition, PartitionTable
from headrace.broker.producer_id_desk import ProducerIdDesk
from headrace.broker.router import SUPPORTED, Router
from headrace.broker.server import Server
from headrace.broker.topic_keeper import log_config
from headrace.broker.upkeep import Upkeep
from headrace.broker.worker import Worker
from tests.support.raw_kafka import RawClient

NOW_MS = 1_800_000_000_000


class MemoryTopics:
    """Topics that are there at once, unless `is_down`."""

    def __init__(self, folder: Path, table: PartitionTable, upkeep: Upkeep, defaults: Mapping[str, str]) -> None:
        self.catalog = Catalog(cluster_id="test")
        self.is_down = False
        self.never_answers = False
        self._folder, self._table, self._upkeep, self._defaults = folder, table, upkeep, defaults

    def create(
        self, topic: str, partition_count: int, config: Mapping[str, str], done: Callable[[bool | Exception], None]
    ) -> None:
        if self.never_answers:
            return
        if self.is_down:
            done(ConnectionError("ZooKeeper is away"))
            return
        if topic in self.catalog.topics:
            done(False)
            return
        entry = TopicEntry(name=topic, partitions={index: (1,) for index in range(partition_count)}, config=config)
        self.catalog = Catalog(cluster_id="test", topics={**self.catalog.topics, topic: entry})
        settings = topic_settings.settings_of(config, self._defaults)
        for index in range(partition_count):
            log = PartitionLog.open(
                self._folder / f"{topic}-{index}", topic=topic, partition=index, config=log_config(settings), now_ms=NOW_MS
            )
            self._table.add(Partition(topic, index, log, settings, self._upkeep.flush))
        done(True)

    def delete(self, topic: str, done: Callable[[bool | Exception], None]) -> None:
        existed = topic in self.catalog.topics
        topics = {name: entry for name, entry in self.catalog.topics.items() if name != topic}
        self.catalog = Catalog(cluster_id="test", topics=topics)
        self._table.remove_topic(topic)
        done(existed)


class MemoryOffsets:
    """An offset store that counts its writes and can be held back."""

    def __init__(self) -> None:
        self.offsets: dict[str, dict[Position, int]] = {}
        self.writes = 0
        self.gate = threading.Event()
        self.gate.set()

    def get_many(self, group: str, partitions: Any) -> dict[Position, int]:
        known = self.offsets.get(group, {})
        return {position: known[position] for position in partitions if position in known}

    def get_all(self, group: str) -> dict[Position, int]:
        return dict(self.offsets.get(group, {}))

    def put_many(self, group: str, offsets: Mapping[Position, int]) -> None:
        assert self.gate.wait(10)
        self.writes += 1
        self.offsets.setdefault(group, {}).update(offsets)


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
        self.loop = Loop()
        self.table = PartitionTable()
        self.offsets = MemoryOffsets()
        self.blocks = MemoryBlocks()
        self._desk = Worker("desk", self.loop.post)
        self._disk = Worker("disk", self.loop.post)
        self.upkeep = Upkeep(self.loop, self._disk, self.settings, lambda: NOW_MS)
        self.topics = MemoryTopics(folder, self.table, self.upkeep, self.settings.topic_defaults)
        self.context = Context(
            settings=self.settings,
            loop=self.loop,
            now_ms=lambda: NOW_MS,
            partitions=self.table,
            topics=self.topics,
            offsets=OffsetDesk(self.offsets, self._desk),
            producer_ids=ProducerIdDesk(self.blocks, self._desk),
            host="127.0.0.1",
            port=0,
            supported=SUPPORTED,
        )
        self.server = Server(self.loop, Router(self.context), self.settings)
        self._thread = threading.Thread(target=self.loop.run, daemon=True)
        for name, wanted in (topics or {}).items():
            count, config = (wanted, {}) if isinstance(wanted, int) else wanted
            self.topics.create(name, count, config, lambda outcome: None)

    def __enter__(self) -> "ServingBroker":
        self.server.listen()
        self.context.port = self.server.port
        self.upkeep.start(self.table)
        self._desk.start()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.loop.stop()
        self._thread.join(10)
        self.offsets.gate.set()
        self._desk.stop()
        self.upkeep.stop()
        self.server.close()
        self.loop.close()
        for partition in self.table:
            partition.log.close()

    @property
    def port(self) -> int:
        return self.context.port

    def client(self) -> RawClient:
        return RawClient(self.port)

    def partition(self, topic: str, index: int = 0) -> Partition:
        partition = self.table.get(topic, index)
        assert partition is not None
        return partition

    def on_loop(self, function: Callable[[], None]) -> None:
        """Run `function` on the loop thread and return when it has run."""
        ran = threading.Event()

        def run() -> None:
            function()
            ran.set()

        self.loop.post(run)
        assert ran.wait(10)
