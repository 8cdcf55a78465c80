"""The registry over a real broker: its answers survive kills of either, and two registries never give one id two meanings."""

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.read_range import read_range
from headrace.runtime.status import read_status
from headrace.schema_registry.client import RegistryClient, RegistryUnavailable
from headrace.wire.batch.record_batch import iter_records
from tests.support.avro_schemas import field, record
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually
from tests.support.registry import RegistryProcess


def numbered(number: int) -> dict[str, Any]:
    return record(field(f"f{number}", "int", 0))


def test_ids_versions_and_levels_survive_a_kill_of_the_registry(registry: RegistryProcess) -> None:
    ids = [registry.register("a-value", numbered(n))[1]["id"] for n in range(3)]
    other = registry.register("b-value", numbered(1))[1]["id"]
    assert registry.ask("PUT", "/config/a-value", {"compatibility": "FULL"}) == (200, {"compatibility": "FULL"})
    registry.ask("DELETE", "/subjects/a-value/versions/2")
    registry.process.kill()
    registry.start()
    assert other == ids[1]
    assert registry.ask("GET", "/subjects/a-value/versions") == (200, [1, 3])
    assert [registry.register("a-value", numbered(n))[1]["id"] for n in (0, 2)] == [ids[0], ids[2]]
    assert registry.ask("GET", "/config/a-value") == (200, {"compatibilityLevel": "FULL"})
    assert registry.register("c-value", numbered(9))[1]["id"] == max(ids) + 1


def test_ids_survive_a_kill_of_broker_and_registry_at_once(registry: RegistryProcess, broker: BrokerProcess) -> None:
    ids = [registry.register("a-value", numbered(n))[1]["id"] for n in range(5)]
    broker.kill()
    registry.process.kill()
    broker.restart()
    registry.start()
    assert [registry.register("a-value", numbered(n))[1]["id"] for n in range(5)] == ids


def test_while_the_broker_is_away_schemas_are_read_writes_fail_in_time_and_all_recovers(
    registry: RegistryProcess, broker: BrokerProcess
) -> None:
    schema_id = registry.register("a-value", numbered(0))[1]["id"]
    broker.kill()
    assert registry.ask("GET", f"/schemas/ids/{schema_id}")[0] == 200
    assert registry.register("a-value", numbered(0)) == (200, {"id": schema_id})
    status, words = registry.register("a-value", numbered(1))
    assert (status, words["error_code"]) in [(500, 50001), (500, 50002)]
    eventually(lambda: registry.ask("GET", "/healthz")[1]["status"] == "degraded", what="the outage told")
    assert registry.ask("GET", "/readyz")[0] == 200
    broker.restart()
    found = eventually(
        lambda: registry.register("a-value", numbered(1))[1].get("id"), what="registering after the broker's return"
    )
    assert found == schema_id + 1
    eventually(lambda: registry.ask("GET", "/healthz")[1]["status"] == "healthy", what="healthy again")


def test_a_broker_that_hangs_makes_writes_fail_in_bounded_time_and_no_id_is_given_twice(
    tmp_path: Path, broker: BrokerProcess
) -> None:
    hasty = RegistryProcess(tmp_path / "hasty", broker.address, "_schemas.hang", "--request-timeout-ms", "400").start()
    try:
        first = hasty.register("a-value", numbered(0))[1]["id"]
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            status, words = hasty.register("a-value", numbered(1))
            assert (status, words["error_code"]) in [(500, 50001), (500, 50002)]
            assert hasty.ask("GET", f"/schemas/ids/{first}")[0] == 200
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        again = eventually(lambda: hasty.register("b-value", numbered(2))[1].get("id"), what="registering after the hang")
        late = eventually(lambda: hasty.register("a-value", numbered(1))[1].get("id"), what="the write that had failed")
        assert len({first, again, late}) == 3
    finally:
        hasty.process.kill()


def test_a_registry_started_before_its_broker_becomes_ready_by_itself(tmp_path: Path, zookeeper_chroot: str) -> None:
    broker = BrokerProcess(tmp_path / "broker", zookeeper_chroot)
    registry = RegistryProcess(tmp_path / "registry", broker.address).launch()
    try:
        status, words = eventually(lambda: registry.ask("GET", "/readyz"), what="an answer")
        assert (status, words["is_caught_up"]) == (503, False)
        assert registry.ask("GET", "/schemas/ids/1")[1]["error_code"] == 50001
        broker.start()
        eventually(registry.is_ready, what="ready after the broker came")
        eventually(lambda: (read_status(registry.status) or {}).get("state") == "ready", what="the status file says ready")
        assert registry.process.stop() == 0
    finally:
        registry.process.kill()
        broker.kill()


def test_the_topic_never_expires_and_holds_confluent_s_records(registry: RegistryProcess, broker: BrokerProcess) -> None:
    registry.register("a-value", numbered(0))
    cluster = Cluster(broker.address)
    try:
        assert cluster.partitions(registry.topic) == [0]
        found = [
            (json.loads(bytes(one.key or b"")), json.loads(bytes(one.value or b"")))
            for _, batch in read_range(cluster, registry.topic, 0, 0, 1 << 40)
            for one in iter_records(batch)
        ]
    finally:
        cluster.close()
    assert found[0][0] == {"keytype": "SCHEMA", "subject": "a-value", "version": 1, "magic": 1}
    assert (found[0][1]["id"], found[0][1]["version"], found[0][1]["deleted"]) == (1, 1, False)


def test_two_registries_on_one_topic_never_give_one_id_two_meanings(
    registry: RegistryProcess, broker: BrokerProcess, tmp_path: Path
) -> None:
    second = RegistryProcess(tmp_path / "second", broker.address, registry.topic).start()
    given: dict[int, set[int]] = {}
    lock = threading.Lock()

    def register(asked: RegistryProcess, numbers: range) -> None:
        for number in numbers:
            status, words = asked.register(f"s{number}-value", numbered(number))
            if status == 200:
                with lock:
                    given.setdefault(words["id"], set()).add(number)
            else:
                assert words["error_code"] in (50001, 50002)

    threads = [
        threading.Thread(target=register, args=(registry, range(0, 20))),
        threading.Thread(target=register, args=(second, range(20, 40))),
        threading.Thread(target=register, args=(second, range(0, 40, 3))),
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        assert len(given) >= 20
        assert all(len(numbers) == 1 for numbers in given.values())
        for schema_id, numbers in given.items():
            for asked in (registry, second):
                text = asked.ask("GET", f"/schemas/ids/{schema_id}")[1]["schema"]
                assert f'"f{next(iter(numbers))}"' in text
    finally:
        second.process.kill()


def test_the_client_goes_on_from_its_folder_while_the_registry_is_down(registry: RegistryProcess, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    client = RegistryClient(registry.url, cache_folder=folder)
    money = record(field("amount", "long"), name="Money", namespace="shop")
    client.register("money-value", money)
    reference = {"name": "shop.Money", "subject": "money-value", "version": 1}
    schema_id = client.register("order-value", record(field("price", "shop.Money"), name="Order"), [reference])
    text = client.schema(schema_id)
    assert '"amount"' in text
    registry.process.kill()
    anew = RegistryClient(registry.url, cache_folder=folder)
    assert anew.schema(schema_id) == text
    assert anew.register("money-value", money) == 1
    with pytest.raises(RegistryUnavailable):
        RegistryClient(registry.url).schema(schema_id)


def test_a_topic_that_lost_records_is_never_written_to_again_and_still_read(
    registry: RegistryProcess, broker: BrokerProcess
) -> None:
    schema_id = registry.register("a-value", numbered(0))[1]["id"]
    broker.stop()
    for segment in broker.data.rglob(f"{registry.topic}-0/*"):
        segment.unlink()
    broker.restart()
    status, words = eventually(lambda: registry.register("a-value", numbered(1)), what="an answer")
    assert (status, words["error_code"]) == (500, 50001)
    eventually(lambda: registry.ask("GET", "/readyz")[0] == 503, what="no longer ready")
    assert "lost" in registry.ask("GET", "/readyz")[1]["trouble"]
    assert registry.register("a-value", numbered(1))[1]["error_code"] == 50001
    assert registry.ask("GET", f"/schemas/ids/{schema_id}")[0] == 200


def test_a_topic_with_several_partitions_is_refused(tmp_path: Path, broker: BrokerProcess) -> None:
    cluster = Cluster(broker.address)
    try:
        create_topic(cluster, "_schemas.three", 3)
    finally:
        cluster.close()
    registry = RegistryProcess(tmp_path / "registry", broker.address, "_schemas.three").launch()
    try:
        told = eventually(lambda: trouble_of(registry), what="the trouble named")
        assert "has 3 partitions" in told
        assert registry.register("a-value", numbered(0))[1]["error_code"] == 50001
    finally:
        registry.process.kill()


def trouble_of(registry: RegistryProcess) -> str:
    told = registry.ask("GET", "/readyz")[1]["trouble"]
    return told if told and "partitions" in told else ""
