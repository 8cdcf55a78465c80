"""Modes: what each allows, how they are set and taken back, and that the topic carries them. Source: Confluent's registry."""

import json
from typing import Any

import pytest

from headrace.schema_registry.model.mode import Mode
from headrace.schema_registry.service.records import ModeRecord, SchemaRecord, decode, encode
from headrace.schema_registry.service.registry import SchemaRegistry
from headrace.schema_registry.service.state import RegistryState
from tests.support.avro_schemas import field, record
from tests.unit.schema_registry.conftest import Api
from tests.unit.schema_registry.memory_store import MemoryStore

V1 = record(field("a", "int"))
V2 = record(field("a", "int"), field("b", "int", 0))
BROKEN = record(field("a", "int"), field("c", "string"))


def imported(schema: Any, **more: Any) -> dict[str, Any]:
    return {"schema": json.dumps(schema), **more}


def test_a_mode_is_set_read_and_taken_back_by_subject_and_globally(api: Api) -> None:
    assert api.ask("GET", "/mode") == (200, {"mode": "READWRITE"})
    assert api.ask("PUT", "/mode", {"mode": "readonly"}) == (200, {"mode": "READONLY"})
    assert api.ask("GET", "/mode") == (200, {"mode": "READONLY"})
    assert api.ask("GET", "/mode/a") == (404, 40409)
    assert api.ask("GET", "/mode/a?defaultToGlobal=true") == (200, {"mode": "READONLY"})
    assert api.ask("PUT", "/mode/a", {"mode": "READWRITE"}) == (200, {"mode": "READWRITE"})
    assert api.ask("GET", "/mode/a") == api.ask("GET", "/mode/a?defaultToGlobal=true") == (200, {"mode": "READWRITE"})
    assert api.ask("DELETE", "/mode/a") == (200, {"mode": "READWRITE"})
    assert api.ask("DELETE", "/mode/a") == (404, 40401)
    assert api.ask("DELETE", "/mode/a?recursive=true") == (200, {"mode": None})
    assert api.ask("PUT", "/mode", {"mode": None}) == (200, {"mode": None})
    assert api.ask("DELETE", "/mode") == (200, {"mode": "READWRITE"})


def test_taking_the_global_mode_back_recursively_takes_every_subject_s(api: Api) -> None:
    for path in ("/mode", "/mode/a", "/mode/b"):
        api.ask("PUT", path, {"mode": "READONLY"})
    assert api.ask("DELETE", "/mode") == (200, {"mode": "READONLY"})
    assert api.ask("GET", "/mode/a") == (200, {"mode": "READONLY"})
    assert api.ask("DELETE", "/mode?recursive=true") == (200, {"mode": "READWRITE"})
    assert api.ask("GET", "/mode/a") == api.ask("GET", "/mode/b") == (404, 40409)


@pytest.mark.parametrize("mode", ["READONLY", "READONLY_OVERRIDE"])
@pytest.mark.parametrize("path", ["/mode", "/mode/a"])
def test_what_is_read_only_refuses_every_change_and_is_still_read(api: Api, mode: str, path: str) -> None:
    api.register("a", V1)
    api.ask("PUT", "/config/a", {"compatibility": "FULL"})
    assert api.ask("PUT", path, {"mode": mode}) == (200, {"mode": mode})
    for method, asked, body in [
        ("POST", "/subjects/a/versions", imported(V2)),
        ("POST", "/subjects/a/versions", imported(V2, id=9)),
        ("DELETE", "/subjects/a", None),
        ("DELETE", "/subjects/a/versions/1", None),
        ("PUT", "/config/a", {"compatibility": "NONE"}),
        ("DELETE", "/config/a", None),
    ]:
        assert api.ask(method, asked, body) == (422, 42205), (method, asked)
    # Registered already: nothing is changed by telling its id.
    assert api.register("a", V1) == (200, {"id": 1})
    assert api.ask("GET", "/subjects/a/versions") == (200, [1])
    assert api.ask("POST", "/compatibility/subjects/a/versions", imported(V2)) == (200, {"is_compatible": True})
    assert api.ask("DELETE", "/subjects/no") == (404, 40401)
    other = api.register("b", V2)
    assert other == ((422, 42205) if path == "/mode" else (200, {"id": 2}))


def test_a_subject_s_own_mode_stands_before_the_global_one(api: Api) -> None:
    api.ask("PUT", "/mode", {"mode": "READONLY"})
    api.ask("PUT", "/mode/a", {"mode": "READWRITE"})
    assert api.register("a", V1) == (200, {"id": 1})
    assert api.register("b", V1) == (422, 42205)


def test_import_takes_the_caller_s_ids_and_versions_and_compares_nothing(api: Api) -> None:
    assert api.ask("PUT", "/mode/a", {"mode": "IMPORT"}) == (200, {"mode": "IMPORT"})
    assert api.register("a", V1) == (422, 42205)
    assert api.register("a", V1, id=70, version=4) == (200, {"id": 70})
    assert api.register("a", BROKEN, id=20, version=2) == (200, {"id": 20})
    assert api.register("a", V2, id=71) == (200, {"id": 71})
    assert api.ask("GET", "/subjects/a/versions") == (200, [2, 4, 5])
    assert api.register("a", V1, id=70, version=4) == api.register("a", V1, id=70) == (200, {"id": 70})
    assert api.ask("PUT", "/mode/a", {"mode": "READWRITE"})[0] == 200
    # Given ids continue above the highest that was imported.
    assert api.register("a", record(field("a", "int"), field("b", "int", 0), field("d", "int", 0))) == (200, {"id": 72})


def test_an_id_of_one_s_choice_is_refused_outside_import(api: Api) -> None:
    assert api.register("a", V1, id=70) == (422, 42205)
    assert api.register("a", V1, id=-1, version=-1) == (200, {"id": 1})
    assert api.register("a", V1, id=0, version=0) == (200, {"id": 1})


def test_import_gives_neither_an_id_nor_a_version_a_second_meaning(api: Api) -> None:
    api.ask("PUT", "/mode", {"mode": "IMPORT"})
    assert api.register("a", V1, id=5, version=1) == (200, {"id": 5})
    assert api.register("b", V2, id=5) == (422, 42205)
    assert api.register("a", V2, id=6, version=1) == (422, 42205)
    api.ask("DELETE", "/subjects/a")
    api.ask("DELETE", "/subjects/a?permanent=true")
    # Records that were written with it may still be read.
    assert api.register("b", V2, id=5) == (422, 42205)
    assert api.register("b", V1, id=5, version=1) == (200, {"id": 5})


def test_one_schema_may_be_imported_under_several_ids_and_is_given_the_first(api: Api) -> None:
    api.ask("PUT", "/mode", {"mode": "IMPORT"})
    assert api.register("a", V1, id=8) == (200, {"id": 8})
    assert api.register("b", V1, id=3) == (200, {"id": 3})
    assert api.ask("GET", "/schemas/ids/3")[1] == api.ask("GET", "/schemas/ids/8")[1]
    assert api.ask("POST", "/subjects/b", imported(V1))[1]["id"] == 3
    api.ask("DELETE", "/mode")
    assert api.register("b", V1) == (200, {"id": 3})
    assert api.register("c", V1) == (200, {"id": 8})


def test_import_begins_with_nothing_there_unless_it_is_forced(api: Api) -> None:
    api.register("a", V1)
    assert api.ask("PUT", "/mode", {"mode": "IMPORT"}) == (422, 42205)
    assert api.ask("PUT", "/mode/a", {"mode": "IMPORT"}) == (422, 42205)
    assert api.ask("PUT", "/mode/b", {"mode": "IMPORT"}) == (200, {"mode": "IMPORT"})
    assert api.ask("PUT", "/mode/a?force=true", {"mode": "IMPORT"}) == (200, {"mode": "IMPORT"})
    assert api.register("a", V2, id=7) == (200, {"id": 7})
    # In IMPORT already: setting it again changes nothing.
    assert api.ask("PUT", "/mode/a", {"mode": "IMPORT"}) == (200, {"mode": "IMPORT"})


def test_import_removes_what_was_soft_deleted_but_not_what_others_reference(api: Api) -> None:
    money = record(field("amount", "long"), name="Money", namespace="shop")
    order = record(field("price", "shop.Money"), name="Order", namespace="shop")
    api.register("money", money)
    api.register("order", order, references=[{"name": "shop.Money", "subject": "money", "version": 1}])
    api.ask("DELETE", "/subjects/order")
    api.ask("DELETE", "/subjects/money")
    assert api.ask("PUT", "/mode/money", {"mode": "IMPORT"}) == (422, 42206)
    assert api.ask("PUT", "/mode", {"mode": "IMPORT"}) == (200, {"mode": "IMPORT"})
    assert api.ask("GET", "/subjects?deleted=true") == (200, [])


def test_a_subject_s_mode_goes_with_its_last_version_deleted_for_good(api: Api) -> None:
    for subject, words in (("a", "/subjects/a"), ("b", "/subjects/b/versions/1")):
        api.register(subject, V1)
        api.ask("PUT", f"/mode/{subject}", {"mode": "READWRITE"})
        api.ask("DELETE", words)
        assert api.ask("GET", f"/mode/{subject}") == (200, {"mode": "READWRITE"})
        assert api.ask("DELETE", f"{words}?permanent=true")[0] == 200
        assert api.ask("GET", f"/mode/{subject}") == (404, 40409)


def test_modes_are_in_the_topic_as_confluent_writes_them() -> None:
    assert encode(ModeRecord(subject="a", mode=Mode.READONLY)) == (
        b'{"keytype":"MODE","subject":"a","magic":0}',
        b'{"subject":"a","mode":"READONLY"}',
    )
    assert encode(ModeRecord(subject=None, mode=None)) == (b'{"keytype":"MODE","subject":null,"magic":0}', None)
    assert decode(b'{"keytype":"MODE","magic":0}', b'{"mode":"IMPORT"}') == ModeRecord(subject=None, mode=Mode.IMPORT)


def test_another_registry_that_reads_the_topic_has_the_same_modes_and_imported_ids(store: MemoryStore) -> None:
    first = SchemaRegistry(store)
    first.set_mode(None, "IMPORT")
    first.register("a", '"int"', [], wanted_id=8)
    first.register("b", '"int"', [], wanted_id=3)
    first.set_mode(None, "READONLY")
    second = MemoryStore(store.topic)
    second.catch_up()
    assert second.state.mode("a") is Mode.READONLY
    assert [one.schema_id for one in (*second.state.versions("a"), *second.state.versions("b"))] == [8, 3]
    assert second.state.id_of(('"int"', (), "AVRO")) == 8


def test_outside_import_a_second_id_for_one_schema_is_refused_by_every_reader() -> None:
    state = RegistryState()
    assert state.apply(SchemaRecord(subject="a", version=1, schema_id=1, schema='"int"')) is None
    second = SchemaRecord(subject="b", version=1, schema_id=2, schema='"int"')
    assert "has id 1 already" in str(state.apply(second))
    state.apply(ModeRecord(subject="b", mode=Mode.IMPORT))
    assert state.apply(second) is None
    state.apply(ModeRecord(subject="b", mode=None))
    assert state.apply(second) is None
