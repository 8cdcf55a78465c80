"""The OpenAPI document names what is served, no more and no less; and the faults of the service that were found with it, each by
its name. Every other test of the API holds its answers against the document, too.
"""

import json
from typing import Any

import jsonschema
import pytest

from headrace.schema_registry.service import refusals
from headrace.schema_registry.service.registry import SchemaRegistry
from headrace.schema_registry.service.web.application import table
from headrace.schema_registry.service.web.openapi import OPERATIONS, document
from tests.support.avro_schemas import field, record
from tests.unit.schema_registry.conftest import Api
from tests.unit.schema_registry.memory_store import MemoryStore

V1 = record(field("a", "int"))


def test_the_document_names_every_endpoint_and_no_other(store: MemoryStore) -> None:
    served = {(method, path) for method, path, _ in table(SchemaRegistry(store), store)}  # type: ignore[arg-type]
    assert served == set(OPERATIONS)


def test_the_document_is_served_and_its_schemas_are_schemas(api: Api) -> None:
    status, words = api.ask("GET", "/openapi.json")
    assert (status, words["openapi"]) == (200, "3.1.0")
    assert words == json.loads(json.dumps(document()))
    for schema in words["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    names = [operation["operationId"] for path in words["paths"].values() for operation in path.values()]
    assert len(set(names)) == len(names)
    linked = words["paths"]["/subjects/{subject}/versions"]["post"]["responses"]["200"]["links"]
    assert set(linked) <= set(names)


def test_contexts_identity_and_version_are_told(api: Api) -> None:
    assert api.ask("GET", "/contexts") == (200, ["."])
    assert api.ask("GET", "/contexts?contextPrefix=x") == api.ask("GET", "/contexts?offset=1") == (200, [])
    assert api.ask("GET", "/v1/metadata/id")[1]["scope"]["clusters"]["kafka-cluster"] == "memory"
    assert set(api.ask("GET", "/v1/metadata/version")[1]) == {"version", "commitId"}
    assert api.ask("GET", "/") == api.ask("POST", "/", {}) == (200, {})
    api.store.failure = refusals.store_failed("no broker answers")
    assert api.ask("GET", "/v1/metadata/id") == (500, 50001)


def test_health_and_readiness_are_told_as_the_document_says(api: Api) -> None:
    assert api.ask("GET", "/healthz")[1]["status"] == "healthy"
    assert api.ask("GET", "/readyz")[1]["ready"] is True
    api.store.trouble = api.store.damage = "records were lost"
    assert api.client.get("/readyz").status_code == 503
    assert api.ask("GET", "/healthz")[1]["status"] == "degraded"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/subjects", "GET, HEAD"), ("/mode/a", "DELETE, GET, HEAD, PUT"), ("/subjects/a/versions/1", "DELETE, GET, HEAD")],
)
def test_a_method_that_is_not_served_is_answered_with_all_that_are(api: Api, path: str, allowed: str) -> None:
    for method in ("TRACE", "PATCH", "OPTIONS"):
        answer = api.client.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
        assert answer.json()["error_code"] == 405


@pytest.mark.parametrize(
    "path",
    [
        "/subjects?deleted=yes",
        "/subjects?deletedOnly=1",
        "/schemas?latestOnly=",
        "/subjects/a/versions?deleted=null",
        "/config/a?defaultToGlobal=ja",
        "/schemas/ids/1?fetchMaxId=t",
        "/subjects?offset=2147483648",
        "/subjects?offset=-1",
        "/subjects?limit=",
        "/subjects?limit=1.0",
        "/subjects?limit=%D9%A3",
        "/contexts?limit=-2147483649",
    ],
)
def test_a_word_of_the_query_that_means_nothing_is_refused_and_not_taken_for_false_or_none(api: Api, path: str) -> None:
    api.register("a", V1)
    assert api.ask("GET", path) == (422, 422)


def test_a_misspelt_permanent_deletes_nothing(api: Api) -> None:
    api.register("a", V1)
    assert api.ask("DELETE", "/subjects/a?permanent=yes") == (422, 422)
    assert api.ask("DELETE", "/subjects/a/versions/1?permanent=1") == (422, 422)
    assert api.ask("GET", "/subjects/a/versions") == (200, [1])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/subjects/%FF/versions"),
        ("POST", "/subjects/%FF/versions"),
        ("GET", "/schemas/ids/%C3"),
        ("GET", "/subjects?subjectPrefix=%FF"),
        ("GET", "/subjects?" + "&".join("a=b" for _ in range(101))),
    ],
)
def test_a_path_or_query_that_is_no_utf_8_is_refused_and_names_nothing_else(api: Api, method: str, path: str) -> None:
    assert api.ask(method, path, {"schema": '"int"'}) == (400, 400)
    assert api.ask("GET", "/subjects") == (200, [])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b'{"schema": NaN}',
        b'{"schema": "\xff"}',
        '{"schema": "\\"int\\""}'.encode("utf-16"),
        b"[" * 100_000,
        b'{"id": ' + b"1" * 5_000 + b"}",
        b'{"schema": "\\"int\\"", "id": 2147483648}',
        b'{"schema": "\\"int\\"", "id": "7"}',
        b'{"schema": "\\"int\\"", "id": true}',
        b'{"schema": "\\"int\\"", "version": 1.5}',
        b'{"schema": "\\"int\\"", "version": -2}',
    ],
)
def test_a_body_that_cannot_be_read_is_400_and_registers_nothing(api: Api, body: bytes) -> None:
    answer = api.client.post("/subjects/a/versions", content=body)
    assert (answer.status_code, answer.json()["error_code"]) == (400, 400)
    assert api.ask("GET", "/subjects") == (200, [])


def test_references_that_are_no_list_are_refused_also_where_they_are_empty(api: Api) -> None:
    for references in (0, "", False, {}):
        assert api.ask("POST", "/subjects/a/versions", {"schema": '"int"', "references": references}) == (422, 42201)
    assert api.ask("POST", "/subjects/a/versions", {"schema": '"int"', "schemaType": ""}) == (422, 42201)
    assert api.ask("POST", "/subjects/a/versions", {"schema": '"int"', "references": None, "schemaType": None})[0] == 200


@pytest.mark.parametrize("subject", ["x" * 250, "%00", "__GLOBAL", ":.ctx:a"])
def test_a_name_that_no_subject_may_have_is_not_answered_as_if_it_were_only_new(api: Api, subject: str) -> None:
    asked: dict[str, Any] = {"schema": '"int"'}
    assert api.ask("POST", f"/compatibility/subjects/{subject}/versions", asked) == (422, 42208)
    assert api.ask("POST", f"/compatibility/subjects/{subject}/versions/latest", asked) == (422, 42208)
    for path in (f"/config/{subject}?defaultToGlobal=true", f"/mode/{subject}?defaultToGlobal=true"):
        assert api.ask("GET", path) == (422, 42208)
    assert api.ask("DELETE", f"/mode/{subject}?recursive=true") == (422, 42208)


def test_half_a_surrogate_pair_in_a_schema_is_no_text(api: Api) -> None:
    for text in (
        '"\ud800"',
        '{"type": "int", "doc": "\\ud800"}',
        '{"type": "enum", "name": "E", "symbols": ["A"], "doc": "\ud800"}',
    ):
        status, code = api.ask("POST", "/subjects/a/versions", {"schema": text})
        assert (status, code) == (422, 42201), text
