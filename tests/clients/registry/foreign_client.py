"""Run in the environment of python-schema-registry-client: everything that its two clients can ask of a registry."""

import asyncio
import sys

from schema_registry.client import AsyncSchemaRegistryClient, SchemaRegistryClient, schema
from schema_registry.serializers import AvroMessageSerializer

OLD = schema.AvroSchema({"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]})
NEW = schema.AvroSchema(
    {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int", "default": 0}]}
)
BROKEN = schema.AvroSchema({"type": "record", "name": "A", "fields": [{"name": "z", "type": "int"}]})
JSON = schema.JsonSchema({"type": "object", "properties": {"a": {"type": "integer"}}})


def sync(url: str) -> None:
    client = SchemaRegistryClient(url)
    first = client.register("sync-value", OLD)
    assert client.register("sync-value", OLD) == first
    assert client.get_by_id(first).raw_schema == OLD.raw_schema
    assert client.check_version("sync-value", OLD).version == 1
    assert client.test_compatibility("sync-value", NEW) is True
    assert client.test_compatibility("sync-value", BROKEN) is False
    second = client.register("sync-value", NEW)
    assert client.get_schema("sync-value").schema_id == second
    assert client.get_versions("sync-value") == [1, 2]
    assert "sync-value" in client.get_subjects()
    assert client.update_compatibility("FULL", "sync-value") is True
    assert client.get_compatibility("sync-value") == "FULL"
    client.update_compatibility("NONE", "json-value")
    json_id = client.register("json-value", JSON, schema_type="JSON")
    assert client.get_by_id(json_id).raw_schema == JSON.raw_schema
    serializer = AvroMessageSerializer(client)
    framed = serializer.encode_record_with_schema("sync", NEW, {"x": 1, "y": 2})
    assert framed[:5] == b"\x00" + second.to_bytes(4, "big")
    assert serializer.decode_message(framed) == {"x": 1, "y": 2}
    assert client.delete_version("sync-value", 1) == 1
    assert client.delete_subject("sync-value") == [2]
    assert client.get_schema("sync-value") is None


async def asynchronous(url: str) -> None:
    client = AsyncSchemaRegistryClient(url)
    ids = await asyncio.gather(*(client.register(f"async{n}-value", OLD) for n in range(20)))
    assert len(set(ids)) == 1
    assert (await client.get_by_id(ids[0])).raw_schema == OLD.raw_schema
    assert await client.test_compatibility("async0-value", BROKEN) is False
    assert await client.delete_subject("async0-value") == [1]


sync(sys.argv[1])
asyncio.run(asynchronous(sys.argv[1]))
print("all held")
