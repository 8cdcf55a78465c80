"""Payloads to events: by the writer's schema, or a reason."""

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.reader.decoding import event_decoder as decoding
from headrace.reader.decoding.event_decoder import EventDecoder, Undecodable
from headrace.schema_registry.client import RegistryUnavailable, UnknownSchemaId
from headrace.wire.schema_id import frame

SCHEMA = {
    "type": "record",
    "name": "Hit",
    "fields": [{"name": "path", "type": "string"}, {"name": "status", "type": ["null", "int"]}],
}


class Registry:
    """Knows id 1; id 2 is not a schema; everything else is unknown."""

    def __init__(self) -> None:
        self.asked = 0

    def schema(self, schema_id: int, /) -> str:
        self.asked += 1
        if schema_id == 1:
            return json.dumps(SCHEMA)
        if schema_id == 2:
            return '{"type": "nonsense"}'
        if schema_id >= 1_000:
            return json.dumps("long")
        raise UnknownSchemaId(f"schema id {schema_id} is unknown", schema_id=schema_id)


def written(event: dict[str, Any]) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(SCHEMA), event)
    return frame(1, body.getvalue())


@settings(max_examples=100)
@given(st.text(), st.none() | st.integers(-(2**31), 2**31 - 1))
def test_an_event_comes_out_as_it_went_in(path: str, status: int | None) -> None:
    event = {"path": path, "status": status}
    assert EventDecoder(Registry()).decode(written(event)) == event


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (None, "no_payload"),
        (b"", "not_framed"),
        (b"\x01\x00\x00\x00\x01x", "not_framed"),
        (frame(9, b"x"), "unknown_schema_id"),
        (frame(2, b"x"), "unusable_schema"),
        (frame(1, b""), "schema_mismatch"),
        (frame(1, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "schema_mismatch"),
        (written({"path": "/", "status": 1}) + b"x", "schema_mismatch"),
        (written({"path": "/long/enough", "status": 1})[:-3], "schema_mismatch"),
    ],
)
def test_what_is_no_event_has_a_code_and_a_reason(payload: bytes | None, code: str) -> None:
    with pytest.raises(Undecodable) as caught:
        EventDecoder(Registry()).decode(payload)
    assert caught.value.code == code
    assert str(caught.value)


@settings(max_examples=200)
@given(st.binary(max_size=40))
def test_no_bytes_whatever_raise_anything_else(body: bytes) -> None:
    try:
        EventDecoder(Registry()).decode(frame(1, body))
    except Undecodable:
        pass


def test_a_silent_registry_is_not_the_datas_fault() -> None:
    class Silent:
        def schema(self, schema_id: int, /) -> str:
            raise RegistryUnavailable("no answer")

    with pytest.raises(RegistryUnavailable):
        EventDecoder(Silent()).decode(frame(1, b"x"))


def test_schemas_are_asked_for_once_and_remembered_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry()
    decoder = EventDecoder(registry)
    decoder.decode(written({"path": "/", "status": 1}))
    decoder.decode(written({"path": "/", "status": 2}))
    assert registry.asked == 1
    monkeypatch.setattr(decoding, "MOST_SCHEMAS", 10)
    for schema_id in range(1_000, 1_050):
        decoder.decode(frame(schema_id, b"\x02"))
    assert len(decoder._used) == 10
