"""Other projects' clients: `confluent_kafka.schema_registry` uses the registry, and its serializers exchange our payloads."""

import io
import json
from collections.abc import Iterator

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from headrace.schema_registry.client import (
    IncompatibleSchema,
    InvalidSchema,
    Reference,
    RegistryClient,
    RegistryError,
    UnknownSchemaId,
)
from headrace.wire.schema_id import frame, unframe
from tests.support.avro_schemas import field, record
from tests.support.broker import BrokerProcess
from tests.support.registry import RegistryProcess

CLICK = record(field("url", "string"), field("count", "int", 0), name="Click", namespace="shop")
MONEY = record(field("amount", "long"), name="Money", namespace="shop")
ORDER = record(field("price", "shop.Money"), name="Order", namespace="shop")
CONTEXT = SerializationContext("clicks", MessageField.VALUE)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, broker: BrokerProcess) -> Iterator[RegistryProcess]:
    """One for all tests here: each uses its own subjects."""
    registry = RegistryProcess(tmp_path_factory.mktemp("foreign"), broker.address).start()
    try:
        yield registry
    finally:
        registry.process.kill()


@pytest.fixture
def foreign(running: RegistryProcess) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": running.url, "max.retries": 0})


def test_confluent_s_client_registers_looks_up_and_lists(foreign: SchemaRegistryClient) -> None:
    schema = Schema(json.dumps(CLICK), "AVRO")
    schema_id = foreign.register_schema("lists-value", schema)
    assert foreign.register_schema("lists-too-value", schema, normalize_schemas=True) == schema_id
    assert json.loads(foreign.get_schema(schema_id).schema_str) == CLICK
    assert foreign.lookup_schema("lists-value", schema).version == 1
    assert foreign.get_latest_version("lists-value").schema_id == schema_id
    assert foreign.get_version("lists-value", 1).version == 1
    assert foreign.get_versions("lists-value") == [1]
    assert {"lists-value", "lists-too-value"} <= set(foreign.get_subjects())
    assert "AVRO" in foreign.get_schema_types()
    assert set(foreign.get_subjects_by_schema_id(schema_id)) >= {"lists-value", "lists-too-value"}


def test_confluent_s_client_sets_levels_and_is_refused_what_breaks_them(foreign: SchemaRegistryClient) -> None:
    foreign.register_schema("levels-value", Schema(json.dumps(CLICK), "AVRO"))
    foreign.set_compatibility("levels-value", "FULL_TRANSITIVE")
    assert foreign.get_compatibility("levels-value") == "FULL_TRANSITIVE"
    breaking = Schema(json.dumps(record(field("uri", "string"), name="Click", namespace="shop")), "AVRO")
    assert foreign.test_compatibility("levels-value", breaking) is False
    with pytest.raises(SchemaRegistryError) as caught:
        foreign.register_schema("levels-value", breaking)
    assert (caught.value.http_status_code, caught.value.error_code) == (409, 409)
    with pytest.raises(SchemaRegistryError) as caught:
        foreign.register_schema("levels-value", Schema("{", "AVRO"))
    assert caught.value.error_code == 42201


def test_confluent_s_client_deletes_versions_and_subjects(foreign: SchemaRegistryClient) -> None:
    foreign.register_schema("gone-value", Schema(json.dumps(CLICK), "AVRO"))
    assert foreign.delete_version("gone-value", 1) == 1
    foreign.register_schema("gone-value", Schema('"int"', "AVRO"))
    assert foreign.delete_subject("gone-value") == [2]
    assert sorted(foreign.delete_subject("gone-value", permanent=True)) == [1, 2]
    with pytest.raises(SchemaRegistryError) as caught:
        foreign.get_versions("gone-value")
    assert caught.value.error_code == 40401


def test_confluent_s_serializer_writes_what_we_decode_and_reads_what_we_frame(
    foreign: SchemaRegistryClient, running: RegistryProcess
) -> None:
    client = RegistryClient(running.url)
    payload = AvroSerializer(foreign, json.dumps(CLICK))({"url": "/a", "count": 3}, CONTEXT)
    schema_id, body = unframe(payload)
    assert client.register("clicks-value", CLICK) == schema_id
    assert fastavro.schemaless_reader(io.BytesIO(bytes(body)), json.loads(client.schema(schema_id))) == {"url": "/a", "count": 3}

    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(CLICK), {"url": "/b", "count": 4})
    assert AvroDeserializer(foreign)(frame(schema_id, written.getvalue()), CONTEXT) == {"url": "/b", "count": 4}


def test_confluent_s_deserializer_reads_old_data_with_the_new_schema(foreign: SchemaRegistryClient) -> None:
    context = SerializationContext("evolving", MessageField.VALUE)
    old = AvroSerializer(foreign, json.dumps(record(field("url", "string"), name="E")))({"url": "/a"}, context)
    newer = record(field("url", "string"), field("count", "int", 7), name="E")
    AvroSerializer(foreign, json.dumps(newer))({"url": "/b", "count": 1}, context)
    assert AvroDeserializer(foreign, json.dumps(newer))(old, context) == {"url": "/a", "count": 7}


def test_a_schema_with_references_is_exchanged(foreign: SchemaRegistryClient, running: RegistryProcess) -> None:
    client = RegistryClient(running.url)
    client.register("money-value", MONEY)
    schema = Schema(json.dumps(ORDER), "AVRO", [SchemaReference("shop.Money", "money-value", 1)])
    context = SerializationContext("orders", MessageField.VALUE)
    payload = AvroSerializer(foreign, schema)({"price": {"amount": 5}}, context)
    schema_id, body = unframe(payload)
    reference = Reference(name="shop.Money", subject="money-value", version=1)
    assert client.register("orders-value", ORDER, [reference]) == schema_id
    assert client.latest("orders-value").references == (reference,)
    text = client.schema(schema_id)
    assert fastavro.schemaless_reader(io.BytesIO(bytes(body)), json.loads(text)) == {"price": {"amount": 5}}
    assert AvroDeserializer(foreign)(payload, context) == {"price": {"amount": 5}}


def test_our_client_tells_refusals_apart(running: RegistryProcess) -> None:
    client = RegistryClient(running.url)
    client.register("ours-value", CLICK)
    with pytest.raises(IncompatibleSchema, match="/fields/uri") as incompatible:
        client.register("ours-value", record(field("uri", "string"), name="Click", namespace="shop"))
    assert incompatible.value.error_code == 409
    answer = client.compatible("ours-value", record(field("uri", "string"), name="Click", namespace="shop"))
    assert not answer.is_compatible
    assert "/fields/uri" in answer.messages[0]
    with pytest.raises(InvalidSchema):
        client.register("ours-value", "{")
    with pytest.raises(UnknownSchemaId) as unknown:
        client.schema(999_999)
    assert unknown.value.schema_id == 999_999
    with pytest.raises(RegistryError) as missing:
        client.latest("no-such-value")
    assert (missing.value.error_code, missing.value.retriable) == (40401, False)
    client.set_compatibility("NONE", "ours-value")
    assert client.compatible("ours-value", '"int"').is_compatible
    assert client.versions("ours-value") == [1]
    assert "ours-value" in client.subjects()
