"""The client's memory, its folder, and what it makes of answers and silences. The registry is a double on a real socket."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from headrace.runtime.clock import ManualClock
from headrace.schema_registry.client import (
    IncompatibleSchema,
    InvalidSchema,
    RegistryClient,
    RegistryError,
    RegistryUnavailable,
    UnknownSchemaId,
)
from headrace.schema_registry.client.cache_folder import CacheFolder, default_folder
from headrace.schema_registry.client.lru_cache import LruCache
from headrace.schema_registry.client.registry_client import RETRY_AFTER_MS, UNKNOWN_AFTER_MS
from tests.support.processes import free_port
from tests.unit.schema_registry.registry_double import RegistryDouble

ERRORS = {
    "incompatible": (409, 409, IncompatibleSchema, False),
    "invalid": (422, 42201, InvalidSchema, False),
    "other": (422, 42205, RegistryError, False),
    "store": (500, 50001, RegistryUnavailable, True),
    "timeout": (500, 50002, RegistryUnavailable, True),
}


REGISTER = "POST /subjects/a-value/versions"


def test_an_id_is_asked_for_once_and_then_remembered(registry: RegistryDouble) -> None:
    registry.answers[REGISTER] = (200, {"id": 7})
    client = RegistryClient(registry.url)
    assert [client.register("a-value", '"int"') for _ in range(3)] == [7, 7, 7]
    assert client.register("a-value", {"type": "string"}) == 7
    assert len(registry.asked) == 2
    assert registry.bodies[0] == {"schema": '"int"', "schemaType": "AVRO"}
    assert registry.bodies[1]["schema"] == '{"type": "string"}'


def test_a_schema_is_asked_for_once_and_then_remembered(registry: RegistryDouble) -> None:
    registry.answers["GET /schemas/ids/7"] = (200, {"schema": '"int"'})
    client = RegistryClient(registry.url)
    assert [client.schema(7) for _ in range(3)] == ['"int"'] * 3
    assert registry.asked == ["GET /schemas/ids/7"]


def test_the_memory_is_bounded_and_the_longest_unused_goes_first(registry: RegistryDouble) -> None:
    for number in range(5):
        registry.answers[f"GET /schemas/ids/{number}"] = (200, {"schema": f'"{number}"'})
    client = RegistryClient(registry.url, memory_entries=2)
    for number in (0, 1, 0, 2, 0, 1):
        client.schema(number)
    assert [asked.rpartition("/")[2] for asked in registry.asked] == ["0", "1", "2", "1"]
    remembered: LruCache[int, int] = LruCache(3)
    for number in range(10):
        remembered.put(number, number)
    assert len(remembered) == 3


def test_an_unknown_id_is_an_error_of_its_own_and_is_not_asked_for_again_at_once(registry: RegistryDouble) -> None:
    clock = ManualClock()
    client = RegistryClient(registry.url, clock=clock)
    for _ in range(3):
        with pytest.raises(UnknownSchemaId) as caught:
            client.schema(9)
        assert (caught.value.schema_id, caught.value.retriable) == (9, False)
    assert len(registry.asked) == 1
    clock.advance(UNKNOWN_AFTER_MS)
    registry.answers["GET /schemas/ids/9"] = (200, {"schema": '"int"'})
    assert client.schema(9) == '"int"'


def test_a_path_that_no_registry_serves_is_not_taken_for_an_unknown_id(registry: RegistryDouble) -> None:
    registry.answers["GET /schemas/ids/9"] = (404, {"detail": "Not Found"})
    with pytest.raises(RegistryError) as caught:
        RegistryClient(registry.url).schema(9)
    assert not isinstance(caught.value, UnknownSchemaId)


@pytest.mark.parametrize("name", ERRORS)
def test_each_refusal_is_an_error_of_its_class_with_the_registry_s_words(registry: RegistryDouble, name: str) -> None:
    status, code, kind, is_retriable = ERRORS[name]
    registry.answers[REGISTER] = (status, {"error_code": code, "message": "because of this"})
    with pytest.raises(kind, match="because of this") as caught:
        RegistryClient(registry.url).register("a-value", '"int"')
    assert (type(caught.value), caught.value.error_code, caught.value.retriable) == (kind, code, is_retriable)


@pytest.mark.parametrize("words", [b"<html>", b"", [], {"id": "7"}, {"id": True}, {}, None])
def test_an_answer_that_is_none_of_a_registry_is_a_clear_error(registry: RegistryDouble, words: Any) -> None:
    registry.answers[REGISTER] = (200, words)
    with pytest.raises(RegistryError, match="is this address a schema registry's"):
        RegistryClient(registry.url).register("a-value", '"int"')


def test_while_the_registry_is_silent_the_folder_answers(registry: RegistryDouble, tmp_path: Path) -> None:
    registry.answers[REGISTER] = (200, {"id": 7})
    registry.answers["GET /schemas/ids/7"] = (200, {"schema": '"int"'})
    first = RegistryClient(registry.url, cache_folder=tmp_path)
    first.register("a-value", '"int"')
    first.schema(7)
    registry.stop()
    second = RegistryClient(registry.url, cache_folder=tmp_path, clock=ManualClock())
    assert (second.register("a-value", '"int"'), second.schema(7)) == (7, '"int"')
    for ask in (lambda: second.register("a-value", '"long"'), lambda: second.schema(8)):
        with pytest.raises(RegistryUnavailable):
            ask()


def test_the_folder_of_another_registry_is_not_used(registry: RegistryDouble, tmp_path: Path) -> None:
    registry.answers["GET /schemas/ids/7"] = (200, {"schema": '"int"'})
    RegistryClient(registry.url, cache_folder=tmp_path).schema(7)
    with pytest.raises(RegistryUnavailable):
        RegistryClient(f"http://127.0.0.1:{free_port()}", cache_folder=tmp_path).schema(7)


def test_a_registry_that_answers_is_believed_before_the_folder(registry: RegistryDouble, tmp_path: Path) -> None:
    registry.answers[REGISTER] = (200, {"id": 7})
    RegistryClient(registry.url, cache_folder=tmp_path).register("a-value", '"int"')
    registry.answers[REGISTER] = (200, {"id": 8})
    assert RegistryClient(registry.url, cache_folder=tmp_path).register("a-value", '"int"') == 8


def test_after_an_outage_the_next_second_asks_nobody(registry: RegistryDouble) -> None:
    clock = ManualClock()
    client = RegistryClient(registry.url, clock=clock)
    registry.answers["GET /schemas/ids/7"] = (500, {"error_code": 50001, "message": "away"})
    for _ in range(3):
        with pytest.raises(RegistryUnavailable):
            client.schema(7)
    assert len(registry.asked) == 1
    registry.answers["GET /schemas/ids/7"] = (200, {"schema": '"int"'})
    clock.advance(RETRY_AFTER_MS)
    assert client.schema(7) == '"int"'


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff"])
def test_a_damaged_file_of_the_folder_counts_as_absent(registry: RegistryDouble, tmp_path: Path, damage: bytes) -> None:
    registry.answers["GET /schemas/ids/7"] = (200, {"schema": '"int"'})
    RegistryClient(registry.url, cache_folder=tmp_path).schema(7)
    kept = next(tmp_path.glob("*/schema-7.json"))
    kept.write_bytes(damage)
    assert RegistryClient(registry.url, cache_folder=tmp_path).schema(7) == '"int"'
    registry.stop()
    kept.write_bytes(damage)
    with pytest.raises(RegistryUnavailable):
        RegistryClient(registry.url, cache_folder=tmp_path).schema(7)


def test_a_folder_that_cannot_be_written_is_done_without(registry: RegistryDouble, tmp_path: Path) -> None:
    registry.answers["GET /schemas/ids/7"] = (200, {"schema": '"int"'})
    blocked = tmp_path / "file"
    blocked.touch()
    assert RegistryClient(registry.url, cache_folder=blocked).schema(7) == '"int"'


def test_the_folder_is_bounded(tmp_path: Path) -> None:
    folder = CacheFolder(tmp_path, "http://a", most_entries=3)
    for number in range(10):
        folder.put(f"schema-{number}", number)
        assert len(list(tmp_path.glob("*/*.json"))) <= 3
        assert folder.get(f"schema-{number}") == number
    assert folder.get("schema-0") is None


def test_the_folder_is_bounded_in_bytes(tmp_path: Path) -> None:
    folder = CacheFolder(tmp_path, "http://a", most_entries=50, most_bytes=3_000)
    for number in range(20):
        folder.put(f"schema-{number}", "x" * 800)
        assert sum(path.stat().st_size for path in tmp_path.glob("*/*.json")) <= 3_000
        assert folder.get(f"schema-{number}") is not None


def test_the_folder_is_for_its_user_alone_and_one_that_others_may_write_is_not_believed(tmp_path: Path) -> None:
    CacheFolder(tmp_path / "cache", "http://a").put("schema-1", '"int"')
    kept = next((tmp_path / "cache").iterdir())
    assert [stat.S_IMODE(path.stat().st_mode) for path in (kept.parent, kept, *kept.iterdir())] == [0o700, 0o700, 0o600]
    kept.chmod(0o770)
    assert CacheFolder(tmp_path / "cache", "http://a").get("schema-1") is None


def test_a_registry_made_anew_at_the_same_address_does_not_inherit_the_old_one_s_folder(
    registry: RegistryDouble, tmp_path: Path
) -> None:
    for number in (7, 8):
        registry.answers[f"GET /schemas/ids/{number}"] = (200, {"schema": '"int"'})
        RegistryClient(registry.url, cache_folder=tmp_path).schema(number)
    registry.answers["GET /schemas/ids/7"] = (200, {"schema": '"string"'})
    assert RegistryClient(registry.url, cache_folder=tmp_path).schema(7) == '"string"'
    registry.stop()
    anew = RegistryClient(registry.url, cache_folder=tmp_path)
    assert anew.schema(7) == '"string"'
    with pytest.raises(RegistryUnavailable):
        anew.schema(8)


def test_one_flipped_letter_in_the_folder_is_found(registry: RegistryDouble, tmp_path: Path) -> None:
    registry.answers["GET /schemas/ids/7"] = (200, {"schema": '"long"'})
    RegistryClient(registry.url, cache_folder=tmp_path).schema(7)
    kept = next(tmp_path.glob("*/schema-7.json"))
    kept.write_bytes(kept.read_bytes().replace(b"long", b"lonk"))
    registry.stop()
    with pytest.raises(RegistryUnavailable):
        RegistryClient(registry.url, cache_folder=tmp_path).schema(7)
    assert not kept.exists()


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"HEADRACE_SCHEMA_CACHE": "/a", "HEADRACE_HOME": "/b"}, "/a"),
        ({"HEADRACE_SCHEMA_CACHE": "off"}, None),
        ({"HEADRACE_HOME": "/b", "XDG_CACHE_HOME": "/c"}, "/b/schemas"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/headrace/schemas"),
        ({}, str(Path.home() / ".cache/headrace/schemas")),
    ],
)
def test_the_default_folder_is_where_the_environment_says(environment: dict[str, str], folder: str | None) -> None:
    assert default_folder(environment) == (None if folder is None else Path(folder))


def test_by_default_a_new_process_works_on_without_the_registry(
    registry: RegistryDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SCHEMA_CACHE", str(tmp_path))
    registry.answers["GET /subjects/a-value/versions"] = (200, [1, 2])
    for number in (1, 2):
        schema = {"subject": "a-value", "version": number, "id": number + 6, "schema": f'"{number}"'}
        registry.answers[f"GET /subjects/a-value/versions/{number}"] = (200, schema)
        registry.answers[f"GET /schemas/ids/{number + 6}"] = (200, {"schema": f'"{number}"'})
    read = RegistryClient(registry.url).schemas_of("a-value")
    registry.stop()
    assert RegistryClient(registry.url).schemas_of("a-value") == read == {7: '"1"', 8: '"2"'}
    with pytest.raises(RegistryUnavailable):
        RegistryClient(registry.url).schemas_of("b-value")


def test_references_are_read_and_written_into_the_schema(registry: RegistryDouble) -> None:
    money = '{"type":"record","name":"Money","namespace":"shop","fields":[{"name":"amount","type":"long"}]}'
    order = '{"type":"record","name":"Order","fields":[{"name":"price","type":"shop.Money"}]}'
    reference = {"name": "shop.Money", "subject": "money/x", "version": 1}
    registry.answers["GET /schemas/ids/7"] = (200, {"schema": order, "references": [reference]})
    version = {"subject": "money/x", "version": 1, "id": 1, "schema": money}
    registry.answers["GET /subjects/money%2Fx/versions/1?deleted=true"] = (200, version)
    text = RegistryClient(registry.url).schema(7)
    assert json.loads(text)["fields"][0]["type"]["fields"][0]["name"] == "amount"


def test_a_ring_of_references_ends(registry: RegistryDouble) -> None:
    reference = {"name": "A", "subject": "a", "version": 1}
    registry.answers["GET /schemas/ids/7"] = (200, {"schema": '"A"', "references": [reference]})
    fixed = '{"type":"fixed","name":"A","size":1}'
    version = {"subject": "a", "version": 1, "id": 1, "schema": fixed, "references": [reference]}
    registry.answers["GET /subjects/a/versions/1?deleted=true"] = (200, version)
    assert json.loads(RegistryClient(registry.url).schema(7))["size"] == 1


@pytest.mark.parametrize("url", ["", "localhost:8081", "ftp://a", "http://"])
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(RegistryError, match="not a registry's address"):
        RegistryClient(url)
