"""A group on an ensemble of three whose leader is killed in a rebalance. What was handed out is read from a journal."""

import itertools
import threading
from pathlib import Path

from headrace.client.streams import Callbacks, ConnectorSettings, ConsumerConnector, KafkaStream
from tests.support.broker import BrokerProcess
from tests.support.filled_topics import create, produce
from tests.support.hand_outs import HandOut, Journal, out_of_order, owned_twice
from tests.support.processes import eventually
from tests.support.zookeeper_ensemble import ZooKeeperEnsemble

PARTITIONS = 8


def numbered(count: int, start: int) -> list[bytes]:
    return [f"{number:06d}".encode() for number in range(start, start + count)]


class Member:
    """A connector of two streams whose threads write what they get to the journal."""

    turns = itertools.count(1)

    def __init__(self, name: str, bootstrap: str, zookeeper: str, journal: Journal) -> None:
        self.name, self._journal = name, journal
        self._turn: dict[int, int] = {}
        settings = ConnectorSettings(session_timeout_ms=4_000, fetch_wait_ms=100, auto_commit_interval_ms=100, recheck_ms=1_000)
        self.connector = ConsumerConnector(
            bootstrap,
            zookeeper,
            "g",
            consumer_id=name,
            settings=settings,
            callbacks=Callbacks(on_assigned=lambda new: self._turn.update({one.partition: next(self.turns) for one in new})),
        )
        self.errors: list[Exception] = []

    def start(self) -> "Member":
        for stream in self.connector.create_message_streams({"t": 2}, timeout_ms=60_000)["t"]:
            threading.Thread(target=self._read, args=(stream,), daemon=True).start()
        return self

    def _read(self, stream: KafkaStream) -> None:
        try:
            for message in stream:
                at = message.partition
                self._journal.write(self.name, self._turn[at], at, message.offset, message.value or b"")
        except Exception as error:
            self.errors.append(error)


def test_no_partition_is_owned_twice_and_no_record_skipped_when_the_leader_dies_in_a_rebalance(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    with ZooKeeperEnsemble(tmp_path / "zookeeper") as ensemble:
        chroot = f"{ensemble.address}/c"
        with BrokerProcess(tmp_path / "broker", chroot) as broker:
            create(broker.address, "t", PARTITIONS)
            members = [Member(name, broker.address, chroot, journal).start() for name in ("a", "b")]

            def owned() -> int:
                return sum(len(member.connector.owned) for member in members)

            eventually(lambda: owned() == PARTITIONS, what="shared")
            produce(broker.address, "t", numbered(400, 0), partitions=PARTITIONS)
            members.append(Member("c", broker.address, chroot, journal).start())  # its registration begins a rebalance
            dead = ensemble.kill_leader()
            eventually(lambda: "leader" in ensemble.modes(), within_ms=40_000, what="another leader")
            produce(broker.address, "t", numbered(400, 400), partitions=PARTITIONS)
            eventually(
                lambda: all(member.connector.owned for member in members) and owned() == PARTITIONS,
                within_ms=60_000,
                what="all shared among the three",
            )
            produce(broker.address, "t", numbered(400, 800), partitions=PARTITIONS)
            wanted = {value.decode() for value in numbered(1_200, 0)}
            eventually(lambda: {line.value for line in journal.read()} >= wanted, within_ms=60_000, what="everything handed out")
            ensemble.restart(dead)
            for member in members:
                member.connector.close()
                assert member.errors == []
    lines = journal.read()
    assert {line.value for line in lines} == wanted
    assert owned_twice(lines) == []
    assert out_of_order(lines) == []


def test_the_journals_check_finds_a_partition_that_two_own_at_once() -> None:
    one, two = HandOut(1, "a", 1, 0, 10, "x"), HandOut(2, "b", 2, 0, 11, "y")
    assert owned_twice([one, two, HandOut(3, "a", 3, 0, 12, "z")]) == [], "a took it over again, in another turn"
    late = HandOut(3, "a", 1, 0, 12, "z")
    assert owned_twice([one, two, late]) == [(two, late)]
    assert out_of_order([one, late._replace(offset=10)]) != []
