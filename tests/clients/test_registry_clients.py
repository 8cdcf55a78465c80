"""Registry clients of others: python-schema-registry-client in an environment of its own, confluent-kafka's with asyncio."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import AsyncSchemaRegistryClient, Schema
from confluent_kafka.schema_registry.avro import AsyncAvroDeserializer, AsyncAvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.clients.building import HERE, run
from tests.support.avro_schemas import field, record
from tests.support.broker import BrokerProcess
from tests.support.registry import RegistryProcess

PYTHON_CLIENT = "python-schema-registry-client==2.6.1"


@pytest.fixture
def registry(tmp_path: Path, broker: BrokerProcess) -> Iterator[RegistryProcess]:
    with RegistryProcess(tmp_path / "registry", broker.address, f"_schemas.{tmp_path.name}") as running:
        yield running


def test_python_schema_registry_client(registry: RegistryProcess, tmp_path: Path) -> None:
    folder = tmp_path / "environment"
    run([sys.executable, "-m", "venv", str(folder)])
    run([str(folder / "bin/pip"), "install", "--quiet", PYTHON_CLIENT])
    program = str(HERE / "registry" / "foreign_client.py")
    run([str(folder / "bin/python"), program, registry.url], within_s=120, environment={"PYTHONPATH": "", **_plain()})


def _plain() -> dict[str, str]:
    return {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "HOME": os.environ.get("HOME", "/")}


def test_confluent_s_asynchronous_client(registry: RegistryProcess) -> None:
    old, new = record(field("x", "int")), record(field("x", "int"), field("y", "int", 0))

    async def ask() -> None:
        client = AsyncSchemaRegistryClient({"url": registry.url, "max.retries": 0})
        ids = await asyncio.gather(*(client.register_schema(f"s{n}-value", Schema(json.dumps(old), "AVRO")) for n in range(20)))
        assert len(set(ids)) == 1
        assert await client.test_compatibility("s0-value", Schema(json.dumps(new), "AVRO"))
        assert json.loads((await client.get_schema(ids[0])).schema_str) == old
        with pytest.raises(SchemaRegistryError) as refused:
            await client.register_schema("s0-value", Schema('"string"', "AVRO"))
        assert refused.value.http_status_code == 409
        context = SerializationContext("s1", MessageField.VALUE)
        serializer = await AsyncAvroSerializer(client, json.dumps(new))
        framed = await serializer({"x": 1, "y": 2}, context)
        deserializer = await AsyncAvroDeserializer(client)
        assert await deserializer(framed, context) == {"x": 1, "y": 2}
        proto, more = (Schema(f'syntax = "proto3"; message A {{ int32 {name} = 1; }}', "PROTOBUF") for name in "ab")
        assert (await client.get_schema(await client.register_schema("proto-value", proto))).schema_type == "PROTOBUF"
        with pytest.raises(SchemaRegistryError, match="does not compare schemas of type PROTOBUF"):
            await client.register_schema("proto-value", more)
        await client.set_compatibility(subject_name="proto-value", level="NONE")
        assert await client.register_schema("proto-value", more)

    asyncio.run(ask())
