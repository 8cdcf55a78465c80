"""`python -m tests.integration.reader.kill_rounds`: members of a group that store with positions are killed with -9, and frozen
until their partitions have moved, at random; every record is looked for in the application's table after each round.

A fourth of the rounds each runs over SQLite and PostgreSQL, in a group of Kafka's protocol and in one of ZooKeeper's. PostgreSQL
is behind a proxy that drops and delays, most of all commits and their answers; sometimes the server itself is killed. The
table has no key, so a record that is stored twice is two rows. At the end the audit must know of each record once.
"""

import argparse
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

from headrace.audit.model.codec import decode
from headrace.audit.model.messages import RangeReport
from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.log_offsets import LATEST, log_offsets
from headrace.client.fetch.read_range import read_range
from headrace.runtime.layout import AUDIT_TOPIC
from headrace.wire.batch.record_batch import iter_records
from tests.support.broker import BrokerProcess
from tests.support.live_side import LiveSide
from tests.support.postgresql import PostgresqlServer, installed
from tests.support.processes import Process, eventually
from tests.support.registry import RegistryProcess
from tests.support.told_by_ranges import ToldByRanges
from tests.support.unruly_proxy import PostgresqlProxy
from tests.support.zookeeper import ZooKeeperProcess

from .topics import Topic

SETTINGS = {"group.min.session.timeout.ms": 1_000, "group.initial.rebalance.delay.ms": 0}
PARTITIONS = 4
ROUND_MS = 120_000
STOPPED = (0, -15)
"""Exit codes after SIGTERM: in order, and before the reader has begun."""
FATES = ("killed", "killed", "frozen", "frozen", "frozen briefly", "stopped in order")
NOTED = ("partitions_let_go", "partitions_lost", "reader_waits", "reader_ahead_of_log", "topic_made_anew", "position_moved_back")


class World:
    """One topic, one group, one database, and the members."""

    def __init__(self, live: LiveSide, zookeeper: str, protocol: str, kind: str, folder: Path, stack: ExitStack) -> None:
        self.kind, self.protocol, self.sent = kind, protocol, 0
        self.topic = Topic(live, PARTITIONS)
        self.server: PostgresqlServer | None = None
        self.proxy: PostgresqlProxy | None = None
        self._folder = folder
        folder.mkdir()
        if kind == "sqlite":
            address = self._direct = str(folder / "own.sqlite")
        else:
            self.server = PostgresqlServer()
            stack.callback(self.server.remove)
            self._direct = self.server.start().new_database()
            self.proxy = PostgresqlProxy(self.server.port)
            # Not the answer that comes twice: TCP repeats nothing, and libpq would take it for the next statement's.
            self.proxy.chances.kinds = ("drop", "cut", "late", "late answer")
            stack.callback(self.proxy.close)
            address = self._direct.replace(f":{self.server.port}/", f":{self.proxy.port}/")
        self.rows("CREATE TABLE stored (part INTEGER, at BIGINT, number INTEGER)")
        words = [self.topic.name, self.topic.group, live.bootstrap, live.registry_url]
        words += [zookeeper if protocol == "zookeeper" else "", kind, address, "1500"]
        self.members = [
            Process([sys.executable, "-m", f"{__package__}.killed_member", *words], folder / f"member-{number}.log")
            for number in range(3)
        ]
        for member in self.members:
            stack.callback(member.kill)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        if self.kind == "sqlite":
            with sqlite3.connect(self._direct, timeout=60) as connection:
                return connection.execute(statement).fetchall()
        import psycopg

        with psycopg.connect(self._direct, autocommit=True) as found:
            cursor = found.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def send(self, number: int) -> None:
        self.topic.send(range(self.sent, self.sent + number))
        self.sent += number

    def play(self, seed: int) -> str:
        """Play a round; return what happened in it. Raises AssertionError."""
        chance = random.Random(seed)
        is_unruly = self.proxy is not None and chance.random() < 0.6
        if self.proxy is not None and is_unruly:
            self.proxy.chances.trouble(seed, of_all=0.01, of_commits=0.2)
        for member in self.members[: chance.choice((2, 3))]:
            if not member.is_running():
                member.start()
        possible = FATES if self.server is None else (*FATES, "server killed")
        fates = [chance.choice(possible) for _ in range(chance.choice((1, 1, 2)))]
        for fate in fates:
            before = self._stored()
            self.send(chance.choice((100, 300, 900)))
            # The members are at work now; what they do next is hit.
            self._await(lambda before=before: self._stored() > before, "a start")  # type: ignore[misc]
            time.sleep(chance.uniform(0, 0.5))
            self._strike(fate, chance)
        if self.proxy is not None:
            time.sleep(chance.uniform(0, 1))
            self.proxy.chances.calm()
        if not any(member.is_running() for member in self.members):
            self.members[0].start()
        began = time.monotonic()
        self._await(self._is_whole, f"all stored, after {fates}")
        return f"{', '.join(fates)}{' over an unruly network' if is_unruly else ''}; whole after {time.monotonic() - began:.1f} s"

    def _await(self, ask: Callable[[], bool], what: str) -> None:
        try:
            eventually(ask, what=what, within_ms=ROUND_MS, every_ms=200)
        except AssertionError as error:
            stacks = [member.stacks() for member in self.members if member.is_running()]
            raise AssertionError("\n".join([str(error), *stacks])) from error

    def _strike(self, fate: str, chance: random.Random) -> None:
        running = [member for member in self.members if member.is_running()]
        if fate == "server killed":
            assert self.server is not None
            self.server.kill()
            time.sleep(chance.uniform(0, 1))
            self.server.start()
            return
        if not running:
            return
        victim = chance.choice(running)
        if fate == "stopped in order":
            assert victim.stop(60_000) in STOPPED, victim.output()[-3_000:]
        elif fate.startswith("frozen"):
            os.killpg(victim.pid, signal.SIGSTOP)
            try:
                time.sleep(chance.uniform(0.1, 0.9) if fate == "frozen briefly" else chance.uniform(1.6, 3.5))
                self.send(chance.choice((10, 100)))  # for those that have its partitions now
            finally:
                os.killpg(victim.pid, signal.SIGCONT)
        else:
            victim.kill()

    def _is_whole(self) -> bool:
        ended = [
            member for member in self.members if member._child is not None and member._child.poll() not in (None, -9, *STOPPED)
        ]
        if ended:
            raise RuntimeError(f"a member ended: {ended[0].output()[-4_000:]}")
        twice = self.rows("SELECT number, count(*) FROM stored GROUP BY number HAVING count(*) > 1")
        if twice:
            raise RuntimeError(f"doubled: {twice[:3]} and {len(twice)} in all")
        return self._stored() == self.sent

    def _stored(self) -> int:
        ((rows,),) = self.rows("SELECT count(*) FROM stored")
        return int(rows)

    def end(self) -> None:
        """Stop the members in order, and compare table and audit with what was sent."""
        # What a killed member stored and did not report is reported by the one that takes its partitions over.
        self._await(lambda: self._known() == self._kept(), "each record known to the audit once")
        for member in filter(Process.is_running, self.members):
            assert member.stop(60_000) in STOPPED, member.output()[-4_000:]
        assert sorted(number for (number,) in self.rows("SELECT number FROM stored")) == [*range(self.sent)]
        assert self._known() == self._kept(), f"the audit knows {len(self._known())} of {len(self._kept())} records"

    def _kept(self) -> dict[tuple[int, int], list[str]]:
        """Return (partition, offset) of each stored record → how the audit is to know it."""
        return {place: ["held"] for place in sorted(self.rows("SELECT part, at FROM stored"))}

    def _known(self) -> dict[tuple[int, int], list[str]]:
        """Return (partition, offset) → as what the audit knows it, once for each time."""
        told = self._told().records
        return {(part, at): [kind for _, kind, _ in words] for part, found in told.items() for at, words in found.items()}

    def _told(self) -> ToldByRanges:
        cluster = Cluster(self.topic.live.bootstrap)
        end = log_offsets(cluster, {TopicPartition(AUDIT_TOPIC, 0): LATEST})[TopicPartition(AUDIT_TOPIC, 0)]
        found = [
            decode(bytes(record.value or b""))
            for _, batch in read_range(cluster, AUDIT_TOPIC, 0, 0, end)
            for record in iter_records(batch)
        ]
        cluster.close()
        return ToldByRanges(one for one in found if isinstance(one, RangeReport) and one.topic == self.topic.name)

    def noted(self) -> Counter[str]:
        """Return how often the members logged what shows that a fault has hit."""
        text = "".join(member.output() for member in self.members if member.log.exists())
        return Counter({word: text.count(word) for word in NOTED if word in text})


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.integration.reader.kill_rounds", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--only", choices=("sqlite", "postgresql"))
    words = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left running
    kinds = [kind for kind in ("sqlite", "postgresql") if words.only in (None, kind) and (kind == "sqlite" or installed())]
    worlds = [(kind, protocol) for kind in kinds for protocol in ("kafka", "zookeeper")]
    fates, noted, numbers, sent = Counter[str](), Counter[str](), count(), 0
    with tempfile.TemporaryDirectory(prefix="headrace-readers-") as name, ExitStack() as stack:
        folder = Path(name)
        zookeeper = stack.enter_context(ZooKeeperProcess(folder / "zookeeper")).address
        broker = stack.enter_context(BrokerProcess(folder / "broker", f"{zookeeper}/readers", settings=SETTINGS))
        live = LiveSide(broker, stack.enter_context(RegistryProcess(folder / "registry", broker.address)))
        for at, (kind, protocol) in enumerate(worlds):
            with ExitStack() as ending:
                world = World(live, f"{zookeeper}/readers", protocol, kind, folder / f"{kind}-{protocol}", ending)
                for _ in range(words.rounds // len(worlds) + (at < words.rounds % len(worlds))):
                    number = next(numbers)
                    said = world.play(words.seed + number)
                    fates.update(said.partition(";")[0].partition(" over")[0].split(", "))
                    print(f"round {number + 1}, seed {words.seed + number}, {kind}, {protocol}: {said}", flush=True)
                world.end()
                sent += world.sent
                noted.update(world.noted())
                if world.proxy is not None:
                    noted.update({f"answer: {fault}": times for fault, times in world.proxy.chances.done.items()})
    print(f"{words.rounds} rounds from seed {words.seed}: {dict(fates)}; noted: {dict(noted)}")
    print(f"{sent} records: 0 lost, 0 doubled, each known to the audit once")
    return 0


if __name__ == "__main__":
    sys.exit(main())
