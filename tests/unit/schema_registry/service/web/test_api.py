"""The REST API's promises, code by code. Source: the Confluent API as written down in the project's facts."""

import json
import threading
from typing import Any

import pytest

from headrace.schema_registry.service import refusals
from headrace.schema_registry.service.web.http_exchange import BODY_LIMIT_BYTES, MEDIA_TYPES, negotiated
from tests.support.avro_schemas import array, enum, field, record
from tests.unit.schema_registry.conftest import Api

V1 = record(field("a", "int"))
V2 = record(field("a", "int"), field("b", "int", 0))
BROKEN = record(field("a", "int"), field("c", "string"))


def test_the_same_schema_has_one_id_under_every_subject_and_in_every_layout(api: Api) -> None:
    first = api.register("a-value", V1)
    assert first == (200, {"id": 1})
    assert api.register("b-value", V1) == first
    assert api.ask("POST", "/subjects/a-value/versions", {"schema": json.dumps(V1, indent=4)}) == first
    assert api.register("a-value", V2) == (200, {"id": 2})
    assert api.ask("GET", "/subjects/a-value/versions") == (200, [1, 2])
    assert api.ask("GET", "/subjects/b-value/versions") == (200, [1])


def test_registering_again_is_idempotent_also_for_an_older_version(api: Api) -> None:
    api.register("a", V1)
    api.register("a", V2)
    assert api.register("a", V1) == (200, {"id": 1})
    assert api.ask("GET", "/subjects/a/versions") == (200, [1, 2])


def test_normalising_makes_attribute_order_insignificant(api: Api) -> None:
    one = {"type": "string", "b": 1, "a": 2}
    other = {"type": "string", "a": 2, "b": 1}
    assert api.ask("POST", "/subjects/n/versions?normalize=true", {"schema": json.dumps(one)}) == (200, {"id": 1})
    assert api.ask("POST", "/subjects/n/versions?normalize=True", {"schema": json.dumps(other)}) == (200, {"id": 1})


def test_a_version_is_told_with_its_subject_id_and_schema(api: Api) -> None:
    api.register("a", V1)
    _, told = api.ask("GET", "/subjects/a/versions/1")
    assert (told["subject"], told["version"], told["id"]) == ("a", 1, 1)
    assert json.loads(told["schema"]) == V1
    assert "schemaType" not in told
    assert api.ask("GET", "/subjects/a/versions/latest") == api.ask("GET", "/subjects/a/versions/-1") == (200, told)
    assert api.ask("GET", "/subjects/a/versions/1/schema") == (200, V1)
    assert api.ask("POST", "/subjects/a", {"schema": json.dumps(V1)}) == (200, told)


def test_a_schema_is_found_by_id_with_its_subjects_and_versions(api: Api) -> None:
    api.register("b", V1)
    api.register("a", V1)
    assert json.loads(api.ask("GET", "/schemas/ids/1")[1]["schema"]) == V1
    assert api.ask("GET", "/schemas/ids/1?fetchMaxId=true")[1]["maxId"] == 1
    assert api.ask("GET", "/schemas/ids/1/schema") == (200, V1)
    assert api.ask("GET", "/schemas/ids/1/subjects") == (200, ["a", "b"])
    assert api.ask("GET", "/schemas/ids/1/versions") == (
        200,
        [{"subject": "a", "version": 1}, {"subject": "b", "version": 1}],
    )
    assert api.ask("GET", "/schemas/types") == (200, ["AVRO", "JSON", "PROTOBUF"])
    assert [one["subject"] for one in api.ask("GET", "/schemas")[1]] == ["a", "b"]
    assert [one["subject"] for one in api.ask("GET", "/schemas?subjectPrefix=b")[1]] == ["b"]
    api.register("a", V2)
    assert [one["version"] for one in api.ask("GET", "/schemas?latestOnly=true&subjectPrefix=a")[1]] == [2]


NOT_FOUND = [
    ("GET", "/subjects/no/versions", None, 40401),
    ("GET", "/subjects/no/versions/1", None, 40401),
    ("GET", "/subjects/no/versions/latest", None, 40401),
    ("GET", "/subjects/a/versions/9", None, 40402),
    ("GET", "/subjects/a/versions/0", None, 42202),
    ("GET", "/subjects/a/versions/x", None, 42202),
    ("GET", "/subjects/a/versions/-2", None, 42202),
    ("GET", "/subjects/a/versions/99999999999999999999", None, 42202),
    ("POST", "/subjects/no", {"schema": '"int"'}, 40401),
    ("POST", "/subjects/a", {"schema": '"int"'}, 40403),
    ("GET", "/schemas/ids/99", None, 40403),
    ("GET", "/schemas/ids/0/versions", None, 40403),
    ("GET", "/schemas/ids/x", None, 40403),
    ("DELETE", "/subjects/no", None, 40401),
    ("DELETE", "/subjects/no/versions/1", None, 40401),
    ("DELETE", "/subjects/a/versions/9", None, 40402),
    ("DELETE", "/subjects/a/versions/x", None, 42202),
    ("GET", "/config/a", None, 40408),
    ("DELETE", "/config/a", None, 40408),
    ("GET", "/mode/a", None, 40409),
    ("PUT", "/mode", {"mode": "IMPORT"}, 42205),
    ("PUT", "/mode/a", {"mode": "IMPORT"}, 42205),
    ("PUT", "/mode", {"mode": "FORWARD"}, 42204),
    ("PUT", "/mode/a", {"mode": "SIDEWAYS"}, 42204),
    ("PUT", "/mode/a", {"mode": 7}, 42204),
    ("PUT", "/mode", {}, 42204),
    ("PUT", "/mode/:.ctx:", {"mode": "READONLY"}, 42208),
    ("DELETE", "/mode/a", None, 40401),
    ("GET", "/subjects/no/metadata?key=a&value=b", None, 40401),
    ("GET", "/subjects/a/metadata?key=a&value=b", None, 40403),
    ("PUT", "/config", {"compatibility": "SIDEWAYS"}, 42203),
    ("PUT", "/config", {}, 42203),
    ("PUT", "/config/a", {"compatibility": "FULL", "normalize": True}, 42205),
    ("POST", "/subjects/a/versions", {"schema": "{"}, 42201),
    ("POST", "/subjects/a/versions", {}, 42201),
    ("POST", "/subjects/a/versions", {"schema": ""}, 42201),
    ("POST", "/subjects/a/versions", {"schema": 7}, 42201),
    ("POST", "/subjects/a/versions", {"schema": '"int"', "schemaType": "XML"}, 42201),
    ("POST", "/subjects/a/versions", {"schema": '"int"', "ruleSet": {}}, 42210),
    ("POST", "/subjects/a/versions", {"schema": '"int"', "id": 7}, 42205),
    ("POST", "/subjects/a/versions", {"schema": '"int"', "references": [{"name": "x"}]}, 42201),
    ("POST", "/subjects/a/versions", {"schema": '"int"', "references": [{"name": "x", "subject": "no", "version": 1}]}, 42201),
    ("POST", "/subjects/a/versions", [], 400),
    ("POST", "/subjects/__GLOBAL/versions", {"schema": '"int"'}, 42208),
    ("POST", "/subjects/:.ctx:a/versions", {"schema": '"int"'}, 42208),
    ("POST", "/subjects/%00/versions", {"schema": '"int"'}, 42208),
    ("POST", f"/subjects/{'x' * 250}/versions", {"schema": '"int"'}, 42208),
    ("POST", "/compatibility/subjects/a/versions/9", {"schema": '"int"'}, 40402),
    ("POST", "/compatibility/subjects/no/versions/1", {"schema": '"int"'}, 40401),
    ("POST", "/compatibility/subjects/a/versions/latest", {"schema": "{"}, 42201),
    ("GET", "/nowhere", None, 404),
    ("PATCH", "/subjects", None, 405),
    ("GET", "/subjects?limit=x", None, 422),
]


@pytest.mark.parametrize(("method", "path", "body", "code"), NOT_FOUND)
def test_every_refusal_has_its_code(api: Api, method: str, path: str, body: Any, code: int) -> None:
    api.register("a", V1)
    status = int(str(code)[:3])
    assert api.ask(method, path, body) == (status, code)
    assert api.register("still-there", V1) == (200, {"id": 1})


def test_an_incompatible_schema_is_refused_with_409_and_every_reason(api: Api) -> None:
    api.register("a", V1)
    assert api.register("a", BROKEN) == (409, 409)
    message = api.message("POST", "/subjects/a/versions", {"schema": json.dumps(BROKEN)})
    assert "BACKWARD" in message
    assert "/fields/c" in message
    assert api.ask("GET", "/subjects/a/versions") == (200, [1])


@pytest.mark.parametrize(
    ("level", "new", "allowed"),
    [
        ("NONE", BROKEN, True),
        ("BACKWARD", BROKEN, False),
        ("BACKWARD_TRANSITIVE", BROKEN, False),
        ("FORWARD", BROKEN, True),
        ("FORWARD_TRANSITIVE", BROKEN, True),
        ("FULL", BROKEN, False),
        ("FULL_TRANSITIVE", BROKEN, False),
        ("FULL_TRANSITIVE", V2, True),
        ("forward", record(field("c", "int", 0)), False),
    ],
)
def test_each_level_decides_globally_and_per_subject(api: Api, level: str, new: Any, allowed: bool) -> None:
    for subject, path in (("by-global", "/config"), ("by-subject", "/config/by-subject")):
        api.register(subject, V1)
        assert api.ask("PUT", path, {"compatibility": level}) == (200, {"compatibility": level.upper()})
        asked = {"schema": json.dumps(new)}
        assert api.ask("POST", f"/compatibility/subjects/{subject}/versions/latest", asked) == (200, {"is_compatible": allowed})
        assert api.ask("POST", f"/compatibility/subjects/{subject}/versions", asked) == (200, {"is_compatible": allowed})
        assert (api.register(subject, new)[0] == 200) == allowed
        api.ask("PUT", "/config", {"compatibility": "BACKWARD"})


def test_compatibility_may_be_asked_verbosely_and_before_the_first_version(api: Api) -> None:
    asked = {"schema": json.dumps(BROKEN)}
    assert api.ask("POST", "/compatibility/subjects/new/versions/latest?verbose=true", asked)[1] == {
        "is_compatible": True,
        "messages": [],
    }
    api.register("a", V1)
    told = api.ask("POST", "/compatibility/subjects/a/versions/1?verbose=true", asked)[1]
    assert told["is_compatible"] is False
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in told["messages"][0]


def test_levels_are_set_read_and_taken_back(api: Api) -> None:
    assert api.ask("GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})
    api.ask("PUT", "/config", {"compatibility": "FORWARD"})
    assert api.ask("GET", "/config") == (200, {"compatibilityLevel": "FORWARD"})
    assert api.ask("GET", "/config/a?defaultToGlobal=true") == (200, {"compatibilityLevel": "FORWARD"})
    api.ask("PUT", "/config/a", {"compatibility": "NONE"})
    assert api.ask("GET", "/config/a") == (200, {"compatibilityLevel": "NONE"})
    assert api.ask("DELETE", "/config/a") == (200, {"compatibilityLevel": "NONE"})
    assert api.ask("GET", "/config/a") == (404, 40408)
    assert api.ask("DELETE", "/config") == (200, {"compatibilityLevel": "FORWARD"})
    assert api.ask("GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert api.ask("GET", "/mode") == (200, {"mode": "READWRITE"})
    assert api.ask("GET", "/mode/a?defaultToGlobal=true") == (200, {"mode": "READWRITE"})


def test_a_soft_deleted_version_is_hidden_and_its_id_still_resolves(api: Api) -> None:
    api.register("a", V1)
    api.register("a", V2)
    assert api.ask("DELETE", "/subjects/a/versions/1") == (200, 1)
    assert api.ask("GET", "/subjects/a/versions") == (200, [2])
    assert api.ask("GET", "/subjects/a/versions?deleted=true") == (200, [1, 2])
    assert api.ask("GET", "/subjects/a/versions?deletedOnly=true") == (200, [1])
    assert api.ask("GET", "/subjects/a/versions/1") == (404, 40402)
    assert api.ask("GET", "/subjects/a/versions/1?deleted=true")[1]["deleted"] is True
    assert api.ask("GET", "/schemas/ids/1")[0] == 200
    assert api.ask("GET", "/schemas/ids/1/versions") == (200, [])
    assert api.ask("DELETE", "/subjects/a/versions/1") == (404, 40406)
    assert api.ask("DELETE", "/subjects/a/versions/2?permanent=true") == (404, 40407)
    assert api.ask("POST", "/subjects/a", {"schema": json.dumps(V1)}) == (404, 40403)
    assert api.ask("POST", "/subjects/a?deleted=true", {"schema": json.dumps(V1)})[1]["version"] == 1


def test_a_version_deleted_for_good_is_gone_and_its_id_is_never_given_again(api: Api) -> None:
    api.register("a", V1)
    api.ask("DELETE", "/subjects/a/versions/1")
    assert api.ask("DELETE", "/subjects/a/versions/1?permanent=true") == (200, 1)
    assert api.ask("GET", "/schemas/ids/1") == (404, 40403)
    assert api.ask("GET", "/subjects") == (200, [])
    assert api.register("b", V2) == (200, {"id": 2})
    assert api.register("b", record(field("a", "int", 3), field("b", "int", 0))) == (200, {"id": 3})
    assert api.register("a", V1) == (200, {"id": 1})


def test_a_subject_is_deleted_softly_and_then_for_good(api: Api) -> None:
    api.register("a", V1)
    api.register("a", V2)
    api.ask("PUT", "/config/a", {"compatibility": "FULL"})
    assert api.ask("DELETE", "/subjects/a?permanent=true") == (404, 40405)
    assert api.ask("DELETE", "/subjects/a") == (200, [1, 2])
    assert api.ask("DELETE", "/subjects/a") == (404, 40404)
    assert api.ask("GET", "/subjects") == (200, [])
    assert api.ask("GET", "/subjects?deleted=true") == api.ask("GET", "/subjects?deletedOnly=true") == (200, ["a"])
    assert api.ask("GET", "/subjects/a/versions") == (404, 40401)
    assert api.ask("GET", "/config/a") == (404, 40408)
    assert api.register("a", V1) == (200, {"id": 1})
    assert api.ask("GET", "/subjects/a/versions") == (200, [3])
    api.ask("DELETE", "/subjects/a")
    assert api.ask("DELETE", "/subjects/a?permanent=true") == (200, [1, 2, 3])
    assert api.ask("GET", "/subjects?deleted=true") == (200, [])
    assert api.register("a", V2) == (200, {"id": 2})
    assert api.ask("GET", "/subjects/a/versions") == (200, [1])


def test_deleting_latest_takes_the_newest_that_is_present(api: Api) -> None:
    api.register("a", V1)
    api.register("a", V2)
    assert api.ask("DELETE", "/subjects/a/versions/latest") == (200, 2)
    assert api.ask("DELETE", "/subjects/a/versions/latest") == (200, 1)
    assert api.ask("DELETE", "/subjects/a/versions/latest") == (404, 40401)


def test_only_present_versions_count_for_compatibility(api: Api) -> None:
    api.register("a", V1)
    assert api.register("a", BROKEN) == (409, 409)
    api.ask("DELETE", "/subjects/a/versions/1")
    assert api.register("a", BROKEN)[0] == 200


MONEY = record(field("amount", "long"), name="Money", namespace="shop")
ORDER = record(field("price", "shop.Money"), name="Order", namespace="shop")
TO_MONEY = [{"name": "shop.Money", "subject": "money", "version": 1}]


def test_a_referenced_schema_is_told_kept_and_cannot_be_deleted_while_used(api: Api) -> None:
    api.register("money", MONEY)
    assert api.register("order", ORDER) == (422, 42201)
    assert api.register("order", ORDER, references=TO_MONEY) == (200, {"id": 2})
    assert api.register("order", ORDER, references=TO_MONEY) == (200, {"id": 2})
    assert api.ask("GET", "/subjects/order/versions/1")[1]["references"] == TO_MONEY
    assert api.ask("GET", "/schemas/ids/2")[1]["references"] == TO_MONEY
    assert "amount" in api.ask("GET", "/schemas/ids/2?format=resolved")[1]["schema"]
    assert api.ask("GET", "/subjects/money/versions/1/referencedby") == (200, [2])
    assert api.ask("DELETE", "/subjects/money/versions/1") == (422, 42206)
    assert api.ask("DELETE", "/subjects/money") == (422, 42206)
    api.ask("DELETE", "/subjects/order")
    assert api.ask("DELETE", "/subjects/money") == (200, [1])
    basket = {"schema": json.dumps(record(field("orders", array("shop.Order")), name="Basket"))}
    assert api.ask("POST", "/subjects/basket/versions", basket) == (422, 42201)


def test_references_of_references_are_followed_and_compared(api: Api) -> None:
    api.register("money", MONEY)
    api.register("order", ORDER, references=TO_MONEY)
    to_order = [{"name": "shop.Order", "subject": "order", "version": 1}]
    basket = record(field("orders", array("shop.Order")), field("total", "shop.Money"), name="Basket")
    assert api.register("basket", basket, references=[*to_order, *TO_MONEY]) == (200, {"id": 3})
    wider = record(field("orders", array("shop.Order")), name="Basket")
    assert api.register("basket", wider, references=to_order) == (200, {"id": 4})


def test_a_subject_may_hold_a_slash(api: Api) -> None:
    assert api.register("a%2Fb", V1) == (200, {"id": 1})
    assert api.ask("GET", "/subjects") == (200, ["a/b"])
    assert api.ask("GET", "/subjects/a%2Fb/versions/1")[1]["subject"] == "a/b"


def test_lists_come_in_pages(api: Api) -> None:
    for name in "cab":
        api.register(name, V1)
    assert api.ask("GET", "/subjects?offset=1&limit=1") == (200, ["b"])
    assert api.ask("GET", "/subjects?subjectPrefix=c") == (200, ["c"])
    assert api.ask("GET", "/subjects?limit=-1") == (200, ["a", "b", "c"])


def test_answers_speak_the_registry_s_media_type_or_the_one_asked_for(api: Api) -> None:
    assert api.client.get("/subjects").headers["content-type"] == MEDIA_TYPES[0]
    assert api.client.get("/subjects", headers={"Accept": "application/json"}).headers["content-type"] == "application/json"
    assert api.client.get("/subjects", headers={"Accept": "text/html"}).status_code == 406
    body = {"content": '{"schema": "\\"int\\""}', "headers": {"Content-Type": "text/plain"}}
    assert api.client.post("/subjects/a/versions", **body).status_code == 415
    assert negotiated("text/html, application/json;q=0.5, */*;q=0.1") == "application/json"
    assert negotiated("application/json;q=0") is None


def test_a_body_that_is_too_long_is_refused_without_being_kept(api: Api) -> None:
    answer = api.client.post("/subjects/a/versions", content=b" " * (BODY_LIMIT_BYTES + 1))
    assert answer.json()["error_code"] == 42209


def test_a_store_that_fails_is_told_as_50001_and_reading_goes_on(api: Api) -> None:
    api.register("a", V1)
    api.store.failure = refusals.store_failed("no broker answers")
    assert api.register("a", V2) == (500, 50001)
    assert api.register("a", V1) == (200, {"id": 1})
    assert api.ask("GET", "/schemas/ids/1")[0] == 200


def test_concurrent_registrations_get_one_id_a_schema(api: Api) -> None:
    schemas = [enum("A", name=f"E{number}") for number in range(8)]
    found: list[tuple[int, int]] = []

    def register(number: int) -> None:
        found.append((number, api.register(f"s{number}", schemas[number])[1]["id"]))

    threads = [threading.Thread(target=register, args=(number % 8,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 8
    assert sorted({schema_id for _, schema_id in found}) == list(range(1, 9))
