"""Members of a group of the other kind, which coordinates through ZooKeeper alone: our own client's consumer."""

import threading
from collections.abc import Mapping
from contextlib import suppress

from headrace.client.consumer.zk_consumer import ZooKeeperConsumer
from headrace.client.fetch.fetched import TopicPartition
from headrace.errors import HeadraceError

from .clients import COMMIT_EVERY
from .cluster import SESSION_MS, TOPIC, Cluster
from .history import History, Row

GROUP = "zookeeper"


class ZooKeeperGroupReading:
    """Reads and commits while entered, with two members. Where a member begins is never before what another one has committed."""

    def __init__(self, cluster: Cluster, history: History, *, members: int = 2) -> None:
        self._cluster = cluster
        self._parts = history.groups.setdefault(GROUP, [])
        self._committed: dict[int, int] = {}
        """By partition, the furthest commit that was answered, or begin that was read."""
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._run, name=f"{GROUP} {number}") for number in range(members)]
        self.errors: list[str] = []
        self.restarts: list[str] = []
        """Why a member ended that was then made again, as an application would be started again."""

    def __enter__(self) -> "ZooKeeperGroupReading":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(60)

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                self._be_member()
            except HeadraceError as error:
                self.restarts.append(str(error))
                self._is_over.wait(0.5)

    def _be_member(self) -> None:
        part: list[Row] = []
        done: dict[int, int] = {}

        def assigned(begins: Mapping[TopicPartition, int]) -> None:
            nonlocal part
            part = []
            self._parts.append(part)
            done.clear()
            self.begin({one.partition: begin for one, begin in begins.items()})

        hosts = ",".join(f"127.0.0.1:{port}" for port in self._cluster.keepers.ports)
        addresses = self._cluster.addresses
        with ZooKeeperConsumer(addresses, hosts, GROUP, [TOPIC], session_timeout_ms=SESSION_MS, on_assigned=assigned) as consumer:
            uncommitted = 0
            while not self._is_over.is_set():
                message = consumer.poll(200)
                if message is not None:
                    part.append((message.partition, message.offset, bytes(message.value or b"").decode()))
                    done[message.partition] = message.next_offset
                    uncommitted += 1
                if uncommitted >= COMMIT_EVERY or (uncommitted and message is None):
                    with suppress(HeadraceError):  # what was not committed is read again
                        consumer.commit()
                        self.note(done)
                        uncommitted = 0

    def begin(self, begins: Mapping[int, int]) -> None:
        """A member begins to read partitions there."""
        with self._lock:
            back = {one: at for one, at in begins.items() if at < self._committed.get(one, 0)}
            self.errors += [f"group {GROUP}: partition {one} begins at {at}: {self._committed}" for one, at in back.items()]
        self.note(begins)

    def note(self, offsets: Mapping[int, int]) -> None:
        """So far is certainly committed."""
        with self._lock:
            for partition, offset in offsets.items():
                self._committed[partition] = max(offset, self._committed.get(partition, 0))
