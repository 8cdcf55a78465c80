"""Two registries of one topic: one leads, the other forwards. Leaders that die or freeze give no id twice and lose none."""

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from headrace.coordination.session import Session
from headrace.schema_registry.errors import RegistryError
from headrace.schema_registry.service.records import SchemaRecord
from headrace.schema_registry.service.topic_store import TopicStore
from tests.integration.schema_registry.topic_oracle import read_topic
from tests.support.avro_schemas import field as avro_field
from tests.support.avro_schemas import record
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually
from tests.support.registry import RegistryProcess

ROUNDS = int(os.environ.get("HEADRACE_REGISTRY_KILLS", "2"))
"""`make chaos-registry` plays more."""
WRITERS = 4


@dataclass
class Pair:
    """Two running registries and what their clients were told."""

    one: RegistryProcess
    other: RegistryProcess
    told: list[tuple[int, str, int]] = field(default_factory=list)
    """Number of the schema, subject, id."""

    def leader(self) -> RegistryProcess | None:
        for running in (self.one, self.other):
            if running.process.is_running() and running.ask("GET", "/readyz")[1].get("is_leader"):
                return running
        return None

    def follower_of(self, leader: RegistryProcess) -> RegistryProcess:
        return self.other if leader is self.one else self.one


@pytest.fixture
def pair(tmp_path: Path, broker: BrokerProcess, zookeeper_chroot: str) -> Iterator[Pair]:
    words = ("--zookeeper", zookeeper_chroot, "--session-timeout-ms", "1500")
    one, other = (RegistryProcess(tmp_path / name, broker.address, f"_schemas.{tmp_path.name}", *words) for name in ("a", "b"))
    try:
        one.start()
        eventually(lambda: one.ask("GET", "/readyz")[1].get("is_leader"), what="the first one leading")
        other.start()
        yield Pair(one, other)
    finally:
        one.process.kill()
        other.process.kill()


def test_one_leads_the_other_forwards_and_reads_its_own_write(pair: Pair) -> None:
    assert pair.leader() is pair.one
    facts = eventually(
        lambda: pair.other.ask("GET", "/readyz")[1].get("leader") and pair.other.ask("GET", "/readyz")[1], what="a leader"
    )
    assert (facts["is_leader"], facts["leader"]) == (False, pair.one.url)
    status, words = pair.other.register("a/b-value".replace("/", "%2F"), record(avro_field("x", "int")))
    assert status == 200
    assert pair.other.ask("GET", f"/schemas/ids/{words['id']}")[0] == 200
    assert pair.other.ask("GET", "/subjects/a%2Fb-value/versions") == (200, [1])
    assert pair.other.ask("PUT", "/config/a%2Fb-value", {"compatibility": "FULL"}) == (200, {"compatibility": "FULL"})
    refused = pair.other.register("a%2Fb-value", record(avro_field("x", "int"), avro_field("y", "int")))
    assert (refused[0], refused[1]["error_code"]) == (409, 409)
    assert pair.other.ask("DELETE", "/subjects/nobody-value")[1]["error_code"] == 40401


def test_a_leader_that_stops_hands_over_at_once(pair: Pair) -> None:
    pair.one.process.stop()
    eventually(lambda: pair.other.ask("GET", "/readyz")[1]["is_leader"], what="the other one leading", within_ms=3_000)
    assert pair.other.register("a-value", record(avro_field("x", "int")))[0] == 200


def test_a_leader_is_found_when_zookeeper_has_forgotten_the_epochs(pair: Pair, zookeeper_chroot: str) -> None:
    """Fault: epochs began with 1 again, every reader refused such a leader, and it held the seat for ever."""
    pair.one.process.stop()
    eventually(partial(leads, pair.other), what="the other one leading, of epoch 2")
    pair.other.process.stop()
    session = Session(zookeeper_chroot, name="forgets")
    session.start()
    try:
        (name,) = session.tree.children("/leaders")
        for path in (f"/leaders/{name}/epoch", f"/leaders/{name}", "/leaders"):
            assert session.tree.delete(path)
    finally:
        session.close()
    pair.one.start()
    eventually(partial(leads, pair.one), what="a leader again")
    assert pair.one.register("b-value", record(avro_field("x", "int")))[0] == 200


def test_leaders_killed_under_load_give_no_id_twice_and_lose_none(pair: Pair, broker: BrokerProcess) -> None:
    with load_on(pair):
        for number in range(ROUNDS):
            await_writes(pair)
            leader = eventually(pair.leader, what="a leader", within_ms=20_000)
            if number % 2:
                os.kill(leader.process.pid, signal.SIGSTOP)
                try:
                    follower = pair.follower_of(leader)
                    eventually(partial(leads, follower), what="the next leader", within_ms=30_000)
                finally:
                    os.kill(leader.process.pid, signal.SIGCONT)
                continue
            leader.process.kill()
            await_writes(pair)
            leader.start()
    judge(pair, broker)


def test_what_a_deposed_leader_writes_late_changes_nothing(broker: BrokerProcess) -> None:
    stores = [TopicStore(broker.address, "_schemas.fenced") for _ in range(2)]
    try:
        for store in stores:
            store.start()
        for epoch, store in enumerate(stores, start=1):
            eventually(lambda at=store: at.is_caught_up, what="the topic read")
            store.mark_epoch(epoch)
        deposed, leader = stores
        late = SchemaRecord(subject="a-value", version=1, schema_id=1, schema='"int"')
        refusal = deposed.write([late], 1)
        assert refusal is not None
        assert "epoch 1" in refusal
        assert leader.write([SchemaRecord(subject="a-value", version=1, schema_id=1, schema='"string"')], 2) is None
        for store in stores:
            eventually(lambda at=store: at.state.meaning(1) == ('"string"', (), "AVRO"), what="the leader's meaning alone")
        said = read_topic(broker.address, "_schemas.fenced")
        assert (said.fenced, said.meanings, said.epochs) == (1, {1: {'"string"'}}, [1, 2])
        with pytest.raises(RegistryError, match="epoch 1"):
            deposed.mark_epoch(1)
    finally:
        for store in stores:
            store.stop()


def leads(running: RegistryProcess) -> bool:
    return bool(running.ask("GET", "/readyz")[1]["is_leader"])


def await_writes(pair: Pair) -> None:
    reached = len(pair.told)
    eventually(lambda: len(pair.told) > reached + 20, what="further writes", within_ms=40_000)


def judge(pair: Pair, broker: BrokerProcess) -> None:
    said = read_topic(broker.address, pair.one.topic)
    assert len(said.epochs) >= 2
    assert {schema_id: texts for schema_id, texts in said.meanings.items() if len(texts) > 1} == {}
    assert {version: ids for version, ids in said.versions.items() if len(ids) > 1} == {}
    for number, subject, schema_id in pair.told:
        (text,) = said.meanings[schema_id]
        assert f'"f{number}"' in text
        assert any(name == subject and schema_id in ids for (name, _), ids in said.versions.items())
    by_number: dict[int, set[int]] = {}
    for number, _, schema_id in pair.told:
        by_number.setdefault(number, set()).add(schema_id)
    assert {number: ids for number, ids in by_number.items() if len(ids) > 1} == {}
    for running in (pair.one, pair.other):
        for number, _, schema_id in pair.told[-50:]:
            eventually(lambda at=running, of=schema_id: at.ask("GET", f"/schemas/ids/{of}")[0] == 200, what=f"schema {number}")


class load_on:
    """Clients of both registries that register schemas, some of them the same, until the block ends."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)]

    def __enter__(self) -> "load_on":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(60)

    def _write(self, writer: int) -> None:
        number = attempt = 0
        while not self._is_over.is_set():
            # Two writers share each schema, over different registries, under subjects of their own.
            schema = 1_000 * (writer // 2) + number
            subject = f"s{writer}-{number}-value"
            running = self._pair.one if (writer + attempt) % 2 else self._pair.other
            attempt += 1
            try:
                status, words = running.register(subject, record(avro_field(f"f{schema}", "int")))
            except OSError:
                self._is_over.wait(0.05)
                continue
            if status == 200:
                self._pair.told.append((schema, subject, words["id"]))
                number += 1
            else:
                assert status == 500, words
