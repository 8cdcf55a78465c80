"""What a schema may be, how a wrong one is refused, and that one schema has one text."""

import json
from typing import Any

import fastavro.schema
import pytest

from headrace.schema_registry.errors import InvalidSchema
from headrace.schema_registry.model.avro_parser import TEXT_LIMIT_BYTES
from headrace.schema_registry.model.reference import Reference
from headrace.schema_registry.model.schema import parse_schema
from headrace.schema_registry.model.self_contained import DEPTH_LIMIT
from tests.support.avro_schemas import array, enum, field, fixed, record

WRONG = [
    ("no JSON", "{", "is not JSON"),
    ("a number", "7", "is not a type"),
    ("an unknown name", '"Nowhere"', "'Nowhere' is not defined"),
    ("an object without type", "{}", '"type"'),
    ("a record without fields", {"type": "record", "name": "A"}, "'fields'"),
    ("a record without name", {"type": "record", "fields": []}, "no record's name"),
    ("a record with a bad name", record(name="1a"), "no record's name"),
    ("a bad namespace", record(namespace="a..b"), "is not a namespace"),
    ("a field without type", record({"name": "a"}), "'type'"),
    ("a field without name", record({"type": "int"}), "is not a field's name"),
    ("a field twice", record(field("a", "int"), field("a", "long")), "two fields 'a'"),
    ("a bad order", record(field("a", "int", order="up")), "order 'up'"),
    ("a default of another type", record(field("a", "int", "x")), "default of field 'a'"),
    ("a default beyond int", record(field("a", "int", 2**31)), "default of field 'a'"),
    ("true as a number", record(field("a", "int", True)), "default of field 'a'"),
    ("null where null is not a branch", record(field("a", ["int", "string"], None)), "default of field 'a'"),
    ("a default that is not a symbol", record(field("a", enum("A"), "B")), "default of field 'a'"),
    ("an enum's default that is not a symbol", enum("A", default="B"), "none of its symbols"),
    ("an enum without symbols", {"type": "enum", "name": "E"}, "'symbols'"),
    ("a symbol twice", enum("A", "A"), "twice"),
    ("a bad symbol", enum("A-B"), "'A-B' is not a name"),
    ("a negative size", fixed(-1), "size -1"),
    ("an array without items", {"type": "array"}, "'items'"),
    ("a map without values", {"type": "map"}, "'values'"),
    ("a union in a union", ["null", ["int"]], "directly inside a union"),
    ("a branch twice", ["int", "int"], "two branches 'int'"),
    ("two arrays in a union", [array("int"), array("long")], "two branches 'array'"),
    ("a name twice", [record(name="A"), enum("X", name="A")], "defined twice"),
    ("a primitive's name", record(name="int"), "primitive"),
    ("a JSON name twice", '{"type": "string", "type": "int"}', "twice: keep one"),
    ("NaN", '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "double", "default": NaN}]}', "NaN"),
    ("a doc that is not text", record(doc=7), "is not text"),
]


@pytest.mark.parametrize(("words", "reason"), [pytest.param(words, reason, id=what) for what, words, reason in WRONG])
def test_a_wrong_schema_is_refused_with_its_reason(words: Any, reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason) as caught:
        parse_schema(words if isinstance(words, str) else json.dumps(words))
    assert caught.value.error_code == 42201


def test_the_place_of_a_fault_is_named() -> None:
    with pytest.raises(InvalidSchema, match="at /fields/1/type/items:"):
        parse_schema(json.dumps(record(field("a", "int"), field("b", array("Nowhere")))))


def test_a_schema_nested_too_deep_is_refused() -> None:
    words: Any = "int"
    for _ in range(DEPTH_LIMIT + 1):
        words = array(words)
    with pytest.raises(InvalidSchema, match="nested deeper"):
        parse_schema(json.dumps(words))
    with pytest.raises(InvalidSchema, match="nested deeper"):
        parse_schema("[" * 50_000 + "]" * 50_000)


def test_a_schema_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="longer than") as caught:
        parse_schema(json.dumps(record(doc="x" * TEXT_LIMIT_BYTES)))
    assert caught.value.error_code == 42209


SAME = [
    ("layout", '{"name" : "A",\n "type":"record","fields":[]}', '{"type":"record","name":"A","fields":[]}'),
    ("a primitive as an object", '{"type":"string"}', '"string"'),
    ("a bare word", "string", '"string"'),
    ("a full name", '{"type":"record","name":"a.b.C","fields":[]}', '{"type":"record","name":"C","namespace":"a.b","fields":[]}'),
    (
        "a namespace repeated inside",
        json.dumps(record(field("a", fixed(1, namespace="x")), namespace="x")),
        json.dumps(record(field("a", fixed(1)), namespace="x")),
    ),
    (
        "a short name and a full one",
        json.dumps(record(field("next", ["null", "Event"]), namespace="x")),
        json.dumps(record(field("next", ["null", "x.Event"]), namespace="x")),
    ),
    (
        "an order that is the default",
        json.dumps(record(field("a", "int", order="ascending"))),
        json.dumps(record(field("a", "int"))),
    ),
    ("a type in a type", '{"type":{"type":"array","items":"int"}}', '{"type":"array","items":"int"}'),
]


@pytest.mark.parametrize(("one", "other"), [pytest.param(one, other, id=what) for what, one, other in SAME])
def test_one_schema_has_one_text_however_it_is_written(one: str, other: str) -> None:
    assert parse_schema(one).text == parse_schema(other).text


def test_what_readers_may_want_is_kept_in_the_text() -> None:
    words = record(
        field("a", {"type": "long", "logicalType": "timestamp-millis"}, 0, doc="when", aliases=["at"], order="ignore", unit="ms"),
        doc="an event",
        aliases=["Old"],
        owner="ads",
        namespace="x",
    )
    assert json.loads(parse_schema(json.dumps(words)).text) == words


def test_normalising_sorts_foreign_attributes() -> None:
    one = parse_schema(json.dumps({"type": "string", "b": 1, "a": 2}), is_normalized=True)
    other = parse_schema(json.dumps({"type": "string", "a": 2, "b": 1}), is_normalized=True)
    assert one.text == other.text == '{"type":"string","a":2,"b":1}'
    assert parse_schema(json.dumps({"type": "string", "b": 1, "a": 2})).text != other.text


def test_the_canonical_text_parses_to_itself() -> None:
    words = record(
        field("e", enum("A", namespace="y")), field("again", "y.Kind"), field("n", record(name="Inner")), namespace="x"
    )
    once = parse_schema(json.dumps(words))
    assert parse_schema(once.text).text == once.text
    assert parse_schema(once.text).parsing_canonical_form == once.parsing_canonical_form


def test_the_fingerprint_is_avro_s_own() -> None:
    # The specification's test vectors: CRC-64-AVRO of "int" and "string".
    assert parse_schema('"int"').fingerprint == "8f5c393f1ad57572"
    assert parse_schema('"string"').fingerprint == "c70345637248018f"


MONEY = json.dumps(
    record(field("amount", "long"), field("currency", enum("EUR", "USD", name="Currency")), name="Money", namespace="shop")
)
MONEY_REFERENCE = Reference(name="shop.Money", subject="money-value", version=1)
ORDER = json.dumps(record(field("price", "shop.Money"), field("paid", "shop.Money"), field("c", "shop.Currency"), name="Order"))


def test_a_referenced_type_is_named_in_the_text_and_written_in_the_self_contained_one() -> None:
    order = parse_schema(ORDER, [MONEY_REFERENCE], [MONEY])
    assert '"shop.Money"' in order.text
    assert "amount" not in order.text
    assert order.self_contained.count("amount") == 1
    parsed = fastavro.schema.parse_schema(json.loads(order.self_contained))
    assert parsed["fields"][1]["type"] == "shop.Money"


def test_a_reference_that_does_not_define_its_name_is_refused() -> None:
    with pytest.raises(InvalidSchema, match=r"does not define 'shop.Price', it defines shop.Currency, shop.Money"):
        parse_schema('"int"', [Reference(name="shop.Price", subject="money-value", version=1)], [MONEY])


def test_a_type_that_no_reference_defines_is_refused() -> None:
    with pytest.raises(InvalidSchema, match=r"'shop.Money' is not defined"):
        parse_schema(ORDER)


def test_references_of_references_stand_before_what_needs_them() -> None:
    basket = json.dumps(record(field("orders", array("Order")), name="Basket"))
    schema = parse_schema(basket, [Reference(name="Order", subject="order-value", version=1)], [MONEY, ORDER])
    assert "amount" in schema.self_contained
    fastavro.schema.parse_schema(json.loads(schema.self_contained))
