"""The registry's API over a topic in memory, and a double of the registry for its client."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from headrace.schema_registry.service.registry import SchemaRegistry
from headrace.schema_registry.service.web.application import application
from tests.unit.schema_registry.document import check_answer
from tests.unit.schema_registry.memory_store import MemoryStore
from tests.unit.schema_registry.registry_double import RegistryDouble

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class Api:
    """The REST API, asked without a socket; every answer is held against the OpenAPI document."""

    def __init__(self, client: TestClient, store: MemoryStore) -> None:
        self.client = client
        self.store = store

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the status and the JSON; for an error its code instead of the body."""
        answer = self.client.request(
            method, path, content=None if body is None else json.dumps(body), headers={"Content-Type": MEDIA_TYPE}
        )
        words = answer.json()
        check_answer(method, path, answer.status_code, answer.headers["content-type"], words)
        if answer.status_code >= 400:
            assert words["message"], words
            assert str(words["error_code"]).startswith(str(answer.status_code)), words
            return answer.status_code, words["error_code"]
        return answer.status_code, words

    def register(self, subject: str, schema: Any, **more: Any) -> tuple[int, Any]:
        return self.ask("POST", f"/subjects/{subject}/versions", {"schema": json.dumps(schema), **more})

    def message(self, method: str, path: str, body: Any = None) -> str:
        answer = self.client.request(method, path, json=body)
        text: str = answer.json()["message"]
        return text


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def api(store: MemoryStore) -> Iterator[Api]:
    with TestClient(application(SchemaRegistry(store), store), raise_server_exceptions=False) as client:  # type: ignore[arg-type]
        yield Api(client, store)


@pytest.fixture
def registry() -> Iterator[RegistryDouble]:
    double = RegistryDouble()
    try:
        yield double
    finally:
        double.stop()
