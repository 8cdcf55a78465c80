"""A broker that is killed at random moments under load, and what must hold after each restart.

`kill -9` ends the process and leaves the page cache. So everything acknowledged or seen must be there, durable topic or not: byte
for byte, at the acknowledged offset; from an idempotent producer once, and in order.
"""

import os
import random
import time
from collections.abc import Mapping
from pathlib import Path

from headrace.broker.log.tools.check import check
from headrace.broker.log.tools.problem import ProblemKind
from tests.crash.load import Reader, Sender, create_topic, first_value, new_producer_id, read_all
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually

DURABLE = {"flush.ack": "always", "segment.bytes": "20000"}
PLAIN = {"segment.bytes": "20000"}
AFTER_A_KILL = {ProblemKind.TORN_TAIL, *(kind for kind in ProblemKind if kind.is_harmless)}
"""What a killed broker may leave for the next start to repair."""
AFTER_A_STOP = {ProblemKind.SIDECAR_UNUSABLE}


def seed_of(episode: int) -> int:
    """Return the seed of an episode: another one in every run but CI's, or the given one, to replay a failure."""
    given = os.environ.get("HEADRACE_CRASH_SEED")
    chosen = int(given) if given else 20_261_121 if os.environ.get("CI") else random.randrange(1 << 32)
    print(f"HEADRACE_CRASH_SEED={chosen}, episode {episode}")
    return chosen + episode


class Episode:
    """The many runs of one broker on one folder."""

    def __init__(self, broker: BrokerProcess, seed: int) -> None:
        self.broker = broker
        self.chance = random.Random(seed)
        self.seed = seed
        self.senders: list[Sender] = []
        self.readers: list[Reader] = []
        self.lowest_start: dict[tuple[str, int], int] = {}
        """The lowest possible start of a log: what DeleteRecords has acknowledged."""
        self.starts: dict[tuple[str, int], int] = {}
        """The start that was last seen."""
        self._checked: dict[Sender, dict[int, bytes]] = {}
        """The batches already verified in a sender's partition."""
        self._read_to: dict[Sender, int] = {}

    def add_topic(self, name: str, partitions: int, settings: Mapping[str, str], *, idempotent: bool = True) -> None:
        """Create a topic with a sender for each of its partitions, and a reader for the first."""
        port = self.broker.port
        create_topic(port, name, partitions, dict(settings))
        for partition in range(partitions):
            producer_id = new_producer_id(port) if idempotent else None
            acks = -1 if idempotent else 1
            self.senders.append(Sender(port, name, partition, acks=acks, producer_id=producer_id, seed=self.seed))
        self.readers.append(Reader(port, name, 0))

    def begin(self) -> None:
        for thread in (*self.senders, *self.readers):
            thread.start()

    def some_more_is_acknowledged(self, batches: int) -> None:
        """Return when every sender has had a few more batches acknowledged."""
        wanted = {sender: len(sender.acknowledged) + batches for sender in self.senders}
        eventually(
            lambda: all(sender.faults or len(sender.acknowledged) >= count for sender, count in wanted.items()),
            within_ms=30_000,
            every_ms=5,
            what="every sender answered",
        )
        self.nobody_was_refused()

    def kill(self) -> None:
        """Kill the broker at a random time from now, and check its files."""
        time.sleep(self.chance.random() ** 2 * 0.1)
        self.broker.kill()
        self.folders_are_sound(AFTER_A_KILL)

    def nobody_was_refused(self) -> None:
        faults = [fault for sender in self.senders for fault in sender.faults]
        assert not faults, faults

    def folders_are_sound(self, tolerated: set[ProblemKind]) -> None:
        for folder in sorted(path for path in self.broker.data.iterdir() if path.is_dir()):
            problems = [str(problem) for problem in check(folder) if problem.kind not in tolerated]
            assert not problems, problems

    def everything_is_there(self) -> None:
        """Read what was added to every partition since the last time, and compare. Senders repeat what was in flight at the
        kill meanwhile.
        """
        for sender in self.senders:
            sender.may_send.clear()
        self._compare()
        for sender in self.senders:
            sender.may_send.set()

    def _compare(self) -> None:
        for sender in self.senders:
            acknowledged = dict(sender.acknowledged)
            # Before the reading: the deleter continues meanwhile.
            lowest = self.lowest_start.get((sender.topic, sender.partition), 0)
            start, found = read_all(self.broker.port, sender.topic, sender.partition, self._read_to.get(sender, 0))
            self.starts[sender.topic, sender.partition] = start
            known = self._checked.setdefault(sender, {})
            assert known.keys().isdisjoint(found) or all(known[offset] == found[offset] for offset in known.keys() & found)
            known.update(found)
            self._read_to[sender] = max(found, default=0)
            assert start >= lowest, f"{sender.topic}-{sender.partition}: deleted records are back"
            self._holds(sender, acknowledged, start, known)
        for reader in self.readers:
            (known,) = (
                known
                for sender, known in self._checked.items()
                if (sender.topic, sender.partition) == (reader.topic, reader.partition)
            )
            for offset, data in dict(reader.seen).items():
                assert known.get(offset, data) == data, f"{reader.topic}: what was seen at offset {offset} is another now"

    def _holds(self, sender: Sender, acknowledged: dict[int, bytes], start: int, known: dict[int, bytes]) -> None:
        name = f"{sender.topic}-{sender.partition}"
        for offset, data in acknowledged.items():
            if offset >= start:
                assert known.get(offset) == data, f"{name}: what was acknowledged at offset {offset} is not there"
        if sender.is_idempotent:
            # Batches before the start may have been deleted before they were read.
            values = [first_value(data) for offset, data in sorted(known.items()) if offset >= start]
            at = sender.sent.index(values[0]) if values else 0
            assert values == sender.sent[at : at + len(values)], f"{name}: each batch once and in order"
        else:
            assert {first_value(data) for data in known.values()} <= set(sender.sent), f"{name}: nothing that nobody sent"

    def end(self) -> None:
        """Wait until everything is answered, read it all again from the start, stop the broker cleanly."""
        for sender in self.senders:
            sender.finish()
        for reader in self.readers:
            reader.finish()
        self.nobody_was_refused()
        self._read_to.clear()
        self._checked.clear()
        self.everything_is_there()
        assert self.broker.stop() == 0, self.broker.log[-2_000:]
        self.folders_are_sound(AFTER_A_STOP)
        assert "Traceback" not in self.broker.log


def new_broker(folder: Path, zookeeper: str, **settings: object) -> BrokerProcess:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return BrokerProcess(folder, zookeeper, settings=named)
