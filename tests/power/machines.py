"""Three brokers, each with its data on a recorded block device of its own: the power of all is cut at one instant."""

import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kazoo.client import KazooClient

from tests.power.block_disk import BlockDisk, PowerCuts, mounted
from tests.power.boots import in_another_boot
from tests.support.broker import BrokerProcess
from tests.support.cluster import BrokerCluster
from tests.support.processes import eventually, free_port

IDS = (1, 2, 3)
READY_MS = 90_000
SETTINGS = {"zookeeper.session.timeout.ms": 4_000}
MOST_LOOKS = 100_000
Counts = Mapping[int, int]
"""By broker, how many operations its disk had received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """A moment of the recording at which the power may be cut."""

    counts: Counts
    told: Mapping[str, int]
    """So many acknowledgements of each topic had reached clients before."""
    states: Mapping[str, int]
    """What ZooKeeper said: see `states_of`."""


class Machines(BrokerCluster):
    """Brokers whose power can be cut and comes back: `on` starts them on what their disks hold."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lives = 0
        self._ports = {one: free_port() for one in IDS}
        self._cuts: dict[int, PowerCuts] = {}
        self.brokers: dict[int, BrokerProcess] = {}
        self.disks: dict[int, BlockDisk] = {}

    @contextmanager
    def recorded(self, zookeeper: str) -> Iterator[None]:
        """Run the brokers on blank disks that are recorded."""
        with ExitStack() as stack:
            self._new_life(zookeeper)
            for one, broker in self.brokers.items():
                folder = self._folder / f"disk-{one}"
                folder.mkdir()
                self.disks[one] = stack.enter_context(BlockDisk(folder, broker.data))
            stack.callback(self._kill)
            self._start()
            yield

    @contextmanager
    def on(self, counts: Counts, chances: Mapping[int, random.Random | None], zookeeper: str) -> Iterator[None]:
        """Run the brokers in another boot, on what a cut behind so many operations leaves of their disks."""
        with ExitStack() as stack:
            self._new_life(zookeeper)
            for one, broker in self.brokers.items():
                image = self._folder / f"image-{one}"
                PowerCuts(self.disks[one], image).cut(counts[one], chances[one])
                stack.enter_context(mounted(image, broker.data))
            stack.callback(self._kill)
            self._start()
            yield

    def counts(self) -> Counts:
        """Return how many operations all disks had received at one moment."""
        before: Counts = {}
        for _ in range(MOST_LOOKS):
            now = {one: disk.received for one, disk in self.disks.items()}
            if now == before:
                return now
            before = now
        raise AssertionError(f"the disks are written to all the time: {before}")

    def cut(self) -> Counts:
        """Cut the power of all: they stop at once, and what the kernel still writes to the disks does not count."""
        for broker in self.brokers.values():
            os.killpg(broker.pid, signal.SIGSTOP)
        for broker in self.brokers.values():
            eventually(lambda broker=broker: _is_stopped(broker.pid), what="the broker has stopped")  # type: ignore[misc]
        counts = self.counts()
        self._kill()
        return counts

    def write_back(self, broker_id: int) -> None:
        """Have the kernel write what it holds of one disk, as it does every half a minute."""
        subprocess.run(["sync", "--file-system", str(self.brokers[broker_id].data)], check=True, timeout=60)

    def _new_life(self, zookeeper: str) -> None:
        self._lives += 1
        self.brokers.clear()
        for one, port in self._ports.items():
            home = self._folder / f"life-{self._lives}" / f"broker-{one}"
            home.mkdir(parents=True)
            within = in_another_boot(home / "boot-id")
            self.brokers[one] = BrokerProcess(home, zookeeper, port=port, broker_id=one, settings=SETTINGS, within=within)

    def _start(self) -> None:
        for broker in self.brokers.values():
            broker.launch()
        for broker in self.brokers.values():
            broker.await_ready(READY_MS)

    def _kill(self) -> None:
        for broker in self.brokers.values():
            broker.kill()


@contextmanager
def states_of(zookeeper: str) -> Iterator[Callable[[], dict[str, int]]]:
    """Yield what returns the versions of the nodes that decide who may lead a partition."""
    client = KazooClient(zookeeper)
    client.start(60)

    def ask() -> dict[str, int]:
        paths = [
            f"/replicas/{topic}/{partition}"
            for topic in client.get_children("/replicas")
            for partition in client.get_children(f"/replicas/{topic}")
        ]
        return {path: client.get(path)[1].version for path in paths}

    try:
        yield ask
    finally:
        client.stop()
        client.close()


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
