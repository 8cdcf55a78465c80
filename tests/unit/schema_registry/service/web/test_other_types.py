"""JSON Schema and Protobuf: stored and served as they are. From the second version on they need compatibility NONE."""

from typing import Any

import pytest

from headrace.schema_registry.service.records import decode
from tests.unit.schema_registry.conftest import Api

TEXTS = {
    "JSON": '{"type": "object", "properties": {"a": {"type": "integer"}}}',
    "PROTOBUF": 'syntax = "proto3"; message A { int32 a = 1; }',
}


def ask(api: Api, method: str, path: str, body: Any = None) -> Any:
    return api.client.request(method, path, json=body).json()


@pytest.mark.parametrize("kind", sorted(TEXTS))
def test_it_is_kept_and_served_with_its_type(api: Api, kind: str) -> None:
    body = {"schema": TEXTS[kind], "schemaType": kind}
    (schema_id,) = ask(api, "POST", "/subjects/a/versions", body).values()
    assert ask(api, "POST", "/subjects/a/versions", body) == {"id": schema_id}
    assert ask(api, "GET", f"/schemas/ids/{schema_id}") == {"schemaType": kind, "schema": TEXTS[kind]}
    assert ask(api, "GET", "/subjects/a/versions/1")["schemaType"] == kind
    assert ask(api, "POST", "/subjects/a", body)["id"] == schema_id
    ask(api, "PUT", "/config/a", {"compatibility": "NONE"})
    assert ask(api, "POST", "/compatibility/subjects/a/versions/latest", body) == {"is_compatible": True}
    for level in ("BACKWARD", "FULL_TRANSITIVE"):
        assert ask(api, "PUT", "/config/a", {"compatibility": level})["error_code"] == 42205


@pytest.mark.parametrize("kind", sorted(TEXTS))
def test_the_first_version_needs_no_comparison_and_the_second_needs_none(api: Api, kind: str) -> None:
    """Fault: `POST` of a JSON Schema to a new subject was refused with 42205 at the default level."""
    first, second = ({"schema": TEXTS[kind] + space, "schemaType": kind} for space in ("", " "))
    (schema_id,) = ask(api, "POST", "/subjects/a/versions", first).values()
    assert ask(api, "POST", "/subjects/a/versions", first) == {"id": schema_id}
    refused = ask(api, "POST", "/subjects/a/versions", second)
    assert refused["error_code"] == 42205
    assert f"does not compare schemas of type {kind}" in refused["message"]
    assert "PUT /config/a with NONE first" in refused["message"]
    assert ask(api, "POST", "/compatibility/subjects/a/versions/latest", second)["error_code"] == 42205
    ask(api, "PUT", "/config/a", {"compatibility": "NONE"})
    assert ask(api, "POST", "/subjects/a/versions", second)["id"] != schema_id


def test_one_text_as_two_types_has_two_ids(api: Api) -> None:
    ask(api, "PUT", "/config", {"compatibility": "NONE"})
    text = '{"type": "string"}'
    ids = [
        ask(api, "POST", "/subjects/a/versions", {"schema": text, "schemaType": kind})["id"]
        for kind in ("AVRO", "JSON", "PROTOBUF")
    ]
    assert ids == [1, 2, 3]


def test_avro_does_not_follow_another_type_under_a_level(api: Api) -> None:
    ask(api, "PUT", "/config/a", {"compatibility": "NONE"})
    ask(api, "POST", "/subjects/a/versions", {"schema": TEXTS["JSON"], "schemaType": "JSON"})
    ask(api, "DELETE", "/config/a")
    refused = ask(api, "POST", "/subjects/a/versions", {"schema": '"int"'})
    assert refused["error_code"] == 409
    assert "version 1 is of type JSON" in refused["message"]


@pytest.mark.parametrize("text", ["{", "3", '"a"', "[]"])
def test_what_is_no_json_schema_is_refused(api: Api, text: str) -> None:
    ask(api, "PUT", "/config", {"compatibility": "NONE"})
    assert ask(api, "POST", "/subjects/a/versions", {"schema": text, "schemaType": "JSON"})["error_code"] == 42201


def test_a_record_of_a_registry_that_leaves_the_type_out_is_avro() -> None:
    key = b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}'
    found = decode(key, b'{"subject":"a","version":1,"id":1,"schema":"\\"int\\""}')
    assert found is not None
    assert found.schema_type == "AVRO"  # type: ignore[union-attr]
