"""Modes over a real broker: the topic stores them, so they outlive the registry; and Confluent's own client imports with them."""

import json

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.read_range import read_range
from headrace.wire.batch.record_batch import iter_records
from tests.support.avro_schemas import field, record
from tests.support.broker import BrokerProcess
from tests.support.registry import RegistryProcess

V1 = record(field("a", "int"))
V2 = record(field("a", "int"), field("b", "int", 0))


def test_modes_and_imported_ids_survive_a_kill_of_the_registry(registry: RegistryProcess) -> None:
    assert registry.ask("PUT", "/mode", {"mode": "IMPORT"}) == (200, {"mode": "IMPORT"})
    assert registry.register("a-value", V1, id=70, version=4) == (200, {"id": 70})
    assert registry.register("b-value", V1, id=7) == (200, {"id": 7})
    assert registry.ask("PUT", "/mode/a-value", {"mode": "READONLY"}) == (200, {"mode": "READONLY"})
    assert registry.ask("DELETE", "/mode") == (200, {"mode": "IMPORT"})
    registry.process.kill()
    registry.start()
    assert registry.ask("GET", "/mode") == (200, {"mode": "READWRITE"})
    assert registry.ask("GET", "/mode/a-value") == (200, {"mode": "READONLY"})
    assert registry.register("a-value", V2)[1]["error_code"] == 42205
    assert registry.ask("GET", "/subjects/a-value/versions/4")[1]["id"] == 70
    assert registry.ask("GET", "/subjects/b-value/versions/1")[1]["id"] == 7
    assert registry.register("c-value", V2) == (200, {"id": 71})


def test_modes_are_in_the_topic_as_confluent_s_records(registry: RegistryProcess, broker: BrokerProcess) -> None:
    registry.ask("PUT", "/mode", {"mode": "READONLY"})
    registry.ask("DELETE", "/mode")
    cluster = Cluster(broker.address)
    try:
        found = [
            (json.loads(bytes(one.key or b"")), None if one.value is None else json.loads(bytes(one.value)))
            for _, batch in read_range(cluster, registry.topic, 0, 0, 1 << 40)
            for one in iter_records(batch)
        ]
    finally:
        cluster.close()
    key = {"keytype": "MODE", "subject": None, "magic": 0}
    assert found == [(key, {"subject": None, "mode": "READONLY"}), (key, None)]


def test_the_registry_tells_the_cluster_s_own_id(registry: RegistryProcess) -> None:
    clusters = registry.ask("GET", "/v1/metadata/id")[1]["scope"]["clusters"]
    assert clusters["schema-registry-cluster"] == "schema-registry"
    assert len(clusters["kafka-cluster"]) > 8
    assert registry.ask("GET", "/v1/metadata/id")[1]["scope"]["clusters"] == clusters


def test_a_path_that_is_no_utf_8_is_refused_over_a_real_socket(registry: RegistryProcess) -> None:
    assert registry.ask("GET", "/subjects/%FF/versions")[1]["error_code"] == 400
    assert registry.ask("GET", "/openapi.json")[1]["openapi"] == "3.1.0"


def test_confluent_s_client_sees_and_keeps_to_a_mode(registry: RegistryProcess) -> None:
    foreign = SchemaRegistryClient({"url": registry.url, "max.retries": 0})
    schema = Schema(json.dumps(V1), "AVRO")
    schema_id = foreign.register_schema("a-value", schema)
    registry.ask("PUT", "/mode/a-value", {"mode": "READONLY"})
    assert foreign.register_schema("a-value", schema) == schema_id
    assert foreign.get_latest_version("a-value").schema_id == schema_id
