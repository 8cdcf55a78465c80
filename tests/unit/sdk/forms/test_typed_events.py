"""Dataclasses and TypedDicts as events: what schema they give, what bytes their instances, and what is refused at the start."""

import enum
import io
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, NewType, NotRequired, TypedDict

import fastavro
import pytest

from headrace.sdk import DecimalDigits, EventRefused, SchemaRefused, event_schema, nullable, schema_of
from headrace.sdk.encoding import EventEncoder
from headrace.sdk.forms.typed_events import converter_of

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
NOON_MS = 1_795_435_200_000
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")
UserId = NewType("UserId", str)


class Status(enum.Enum):
    NEW = "new"
    PAID = "paid"
    SETTLED = "paid"  # an alias


@dataclass
class Address:
    """Where it goes."""

    street: str
    since: datetime | None = None


@dataclass
class Order:
    """An order,
    as the shop took it."""

    number: int
    user: UserId
    amount: Annotated[Decimal, DecimalDigits(12, 2)]
    status: Status
    kind: Literal["web", "shop"]
    id: uuid.UUID
    day: date
    paid_at: datetime
    address: Address
    weight: float = field(metadata={"doc": "In kg."})
    raw: bytes = b"\xff"
    is_gift: bool = False
    coupon: str | None = None
    channel: str | None = "direct"
    earlier: list[Address] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    stamps: dict[str, datetime] = field(default_factory=dict)
    later: Status = Status.PAID
    token: uuid.UUID = field(default_factory=uuid.uuid4)
    currency: ClassVar[str] = "EUR"


def order(**changes: Any) -> Order:
    given: dict[str, Any] = {
        "number": 1,
        "user": UserId("ann"),
        "amount": Decimal("12.50"),
        "status": Status.SETTLED,
        "kind": "web",
        "id": ID,
        "day": date(2026, 11, 23),
        "paid_at": NOON,
        "address": Address("Mill Lane", since=NOON),
        "weight": 1,
        "token": ID,
        **changes,
    }
    return Order(**given)


def read_back(event_class: type, instance: Any) -> dict[str, Any]:
    """Encode an instance as the logger does, and read it with fastavro."""
    schema = schema_of(event_class)
    body = EventEncoder(schema, "web-1").encode(converter_of(event_class)(instance), NOON_MS)
    event: Any = fastavro.schemaless_reader(io.BytesIO(body), fastavro.parse_schema(schema), None)
    return {name: value for name, value in event.items() if name not in ("server", "event_time")}


def test_every_type_that_is_listed_has_its_place_in_the_schema() -> None:
    time_type = {"type": "long", "logicalType": "timestamp-millis"}
    since = {"name": "since", "type": ["null", time_type], "default": None}
    address = {
        "type": "record",
        "name": "Address",
        "doc": "Where it goes.",
        "fields": [{"name": "street", "type": "string"}, since],
    }
    assert schema_of(Order) == event_schema(
        "Order",
        [
            {"name": "number", "type": "long"},
            {"name": "user", "type": "string"},
            {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
            {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["NEW", "PAID"]}},
            {"name": "kind", "type": {"type": "enum", "name": "Order_kind", "symbols": ["web", "shop"]}},
            {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "paid_at", "type": time_type},
            {"name": "address", "type": address},
            {"name": "weight", "type": "double", "doc": "In kg."},
            {"name": "raw", "type": "bytes", "default": "ÿ"},
            {"name": "is_gift", "type": "boolean", "default": False},
            nullable("coupon", "string"),
            {"name": "channel", "type": ["string", "null"], "default": "direct"},
            {"name": "earlier", "type": {"type": "array", "items": "Address"}, "default": []},
            {"name": "counts", "type": {"type": "map", "values": "long"}, "default": {}},
            {"name": "stamps", "type": {"type": "map", "values": time_type}, "default": {}},
            {"name": "later", "type": "Status", "default": "PAID"},
            {"name": "token", "type": {"type": "string", "logicalType": "uuid"}},
        ],
        doc="An order, as the shop took it.",
    )
    json.dumps(schema_of(Order))


def test_an_instance_is_read_back_as_it_was() -> None:
    given = order(earlier=[Address("Old Lane")], counts={"a": 1}, stamps={"b": NOON}, coupon="ten")
    assert read_back(Order, given) == {
        "number": 1,
        "user": "ann",
        "amount": Decimal("12.50"),
        "status": "PAID",
        "kind": "web",
        "id": ID,
        "day": date(2026, 11, 23),
        "paid_at": NOON,
        "address": {"street": "Mill Lane", "since": NOON},
        "weight": 1.0,
        "raw": b"\xff",
        "is_gift": False,
        "coupon": "ten",
        "channel": "direct",
        "earlier": [{"street": "Old Lane", "since": None}],
        "counts": {"a": 1},
        "stamps": {"b": NOON},
        "later": "PAID",
        "token": ID,
    }


def test_defaults_are_what_a_reader_of_older_events_gets() -> None:
    """A second version of a class whose new fields have defaults reads the events of the first."""
    first = make_dataclass("Order", [("number", int)])
    second = make_dataclass(
        "Order",
        [
            ("number", int),
            ("at", datetime, field(default=NOON)),
            ("day", date, field(default=date(2026, 11, 23))),
            ("amount", Annotated[Decimal, DecimalDigits(12, 2)], field(default=Decimal("-1.5"))),
            ("kind", Literal["web", "shop"], field(default="shop")),
            ("status", Status, field(default=Status.NEW)),
            ("raw", bytes, field(default=b"\x00\xff")),
            ("id", uuid.UUID, field(default=ID)),
            ("when", datetime | None, field(default=NOON)),
        ],
    )
    body = EventEncoder(schema_of(first), "s").encode({"number": 7}, 1)
    schemas = [fastavro.parse_schema(schema_of(one)) for one in (first, second)]
    event: Any = fastavro.schemaless_reader(io.BytesIO(body), *schemas)
    assert event["number"] == 7
    read = {name: event[name] for name in ("at", "day", "amount", "kind", "status", "raw", "id", "when")}
    # fastavro gives defaults as the schema writes them, before their logical types.
    assert read == {
        "at": NOON_MS,
        "day": 20_780,
        "amount": "\xff\x6a",
        "kind": "shop",
        "status": "NEW",
        "raw": "\x00\xff",
        "id": str(ID),
        "when": NOON_MS,
    }


def test_a_nested_default_stays_out_of_the_schema() -> None:
    frozen = make_dataclass("Place", [("street", str)], frozen=True)
    outer = make_dataclass("Visit", [("place", frozen, field(default=frozen("Mill Lane")))])
    assert "default" not in schema_of(outer)["fields"][-1]


class _Click(TypedDict):
    """A click."""

    page: str
    status: Status
    at: NotRequired[datetime]
    place: NotRequired[Address]


def test_a_typed_dict_has_keys_that_may_be_missing() -> None:
    fields = {words["name"]: words for words in schema_of(_Click)["fields"]}
    assert fields["page"] == {"name": "page", "type": "string"}
    assert fields["at"]["type"] == ["null", {"type": "long", "logicalType": "timestamp-millis"}]
    assert fields["at"]["default"] is None
    click: _Click = {"page": "/", "status": Status.NEW}
    assert read_back(_Click, click) == {"page": "/", "status": "NEW", "at": None, "place": None}
    click = {"page": "/", "status": Status.NEW, "at": NOON, "place": Address("Mill Lane")}
    assert read_back(_Click, click)["place"] == {"street": "Mill Lane", "since": None}
    with pytest.raises(EventRefused, match="'pgae'"):
        read_back(_Click, {"page": "/", "pgae": "/", "status": Status.NEW})
    assert click["status"] is Status.NEW, "the application's own mapping is left as it is"


def test_an_event_class_may_give_time_and_server_itself() -> None:
    timed = make_dataclass("Timed", [("event_time", datetime | None, None), ("server", str | None, None), ("n", int, 0)])
    assert schema_of(timed) == event_schema("Timed", [{"name": "n", "type": "long", "default": 0}])
    to_mapping = converter_of(timed)
    assert to_mapping(timed(NOON, "web-2")) == {"event_time": NOON_MS, "server": "web-2", "n": 0}
    assert to_mapping(timed()) == {"n": 0}


def test_names_and_namespace_may_be_given() -> None:
    schema = schema_of(Address, name="Place", namespace="shop")
    assert (schema["name"], schema["namespace"]) == ("Place", "shop")


@pytest.mark.parametrize(
    ("field_type", "told"),
    [
        (Decimal, "field 'it' is Decimal, which has no place in a schema: say how many digits: Annotated[Decimal, DecimalDigits"),
        (timedelta, "use an int, with the unit in its name (wait_ms)"),
        (time, "use a datetime, or a str"),
        (object, "field 'it' is object, which has no place in a schema: give it one type, or use a str that holds JSON"),
        (Any, "give it one type"),
        (list, "say of what: list[str]"),
        (dict, "say of what: dict[str, int]"),
        (set[str], "use a list"),
        (tuple[int, int], "use a list, or a nested dataclass"),
        (dict[int, str], "the keys of an Avro map are str"),
        (int | str, "may be of several types: choose one, or make several optional fields"),
        (int | str | None, "may be of several types"),
        (Literal["text/html"], "'text/html': an Avro enum has words of letters, digits and _; use a str"),
        (Literal[1, 2], "use a str"),
        (enum.Flag("Bits", "A B"), "Bits: an Avro enum has one of several names"),
        (enum.Enum("Größe", "KLEIN"), "can be no name in Avro"),
        (Annotated[Decimal, DecimalDigits(39, 0)], "precision is from 1 to 38"),
        (Annotated[Decimal, DecimalDigits(3, 4)], "scale from 0 to the precision"),
        (Mapping[str, int], "has no place in a schema: use a type that docs/SDK.md lists"),
        (io.BytesIO, "BytesIO, which has no place in a schema"),
        (list[set[int]], "field 'it[]' is set[int], which has no place in a schema: use a list"),
    ],
)
def test_what_cannot_be_mapped_is_refused_with_class_field_type_and_what_to_do(field_type: Any, told: str) -> None:
    with pytest.raises(SchemaRefused) as refused:
        schema_of(make_dataclass("Wrong", [("it", field_type)]))
    assert str(refused.value).startswith("class Wrong: field 'it") or "no name in Avro" in str(refused.value)
    assert told in str(refused.value)


@dataclass
class _Tree:
    children: "list[_Tree]"


@dataclass
class _Lost:
    it: "NotDefinedAnywhere"  # type: ignore[name-defined]  # noqa: F821


def test_classes_that_cannot_be_events_are_refused() -> None:
    with pytest.raises(
        SchemaRefused, match=r"class BytesIO is neither a dataclass nor a TypedDict: make it one, or give a schema"
    ):
        schema_of(io.BytesIO)
    with pytest.raises(SchemaRefused, match=r"class _Tree: field 'children\[\]' is _Tree, which holds itself"):
        schema_of(_Tree)
    with pytest.raises(SchemaRefused, match=r"class _Lost: its types are not found .*NotDefinedAnywhere.* top level of a module"):
        schema_of(_Lost)
    with pytest.raises(SchemaRefused, match=r"'server' is int, but the logger fills it in as str: leave it out"):
        schema_of(make_dataclass("Wrong", [("server", int)]))
    with pytest.raises(SchemaRefused, match=r"field 'größe' can have no such name in Avro"):
        schema_of(make_dataclass("Wrong", [("größe", int)]))
    inner = make_dataclass("Address", [("zip", int)])
    with pytest.raises(SchemaRefused, match=r"field 'b' is a second type with the name Address: rename one of them"):
        schema_of(make_dataclass("Two", [("a", Address), ("b", inner)]))


@pytest.mark.parametrize(
    ("field_type", "default"),
    [
        (int, None),
        (int, True),
        (str, 1),
        (float, float("nan")),
        (Literal["a"], "b"),
        (Status, "NEW"),
        (datetime, datetime(2026, 1, 1)),
    ],
)
def test_a_default_that_is_not_of_its_type_is_refused(field_type: Any, default: Any) -> None:
    with pytest.raises(SchemaRefused, match=r"class Wrong: field 'it' has the default .* is expected; give one or none"):
        schema_of(make_dataclass("Wrong", [("it", field_type, field(default=default))]))


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"paid_at": datetime(2026, 1, 1)}, "paid_at"),
        ({"paid_at": NOON_MS}, "paid_at"),
        ({"day": NOON}, "day"),
        ({"id": str(ID)}, "id"),
        ({"status": "PAID"}, "status"),
        ({"kind": "phone"}, "kind"),
        ({"number": 1.5}, "number"),
        ({"number": 1 << 63}, "number"),
        ({"is_gift": 1}, "is_gift"),
        ({"address": {"street": "Mill Lane"}}, "address"),
        ({"address": None}, "address"),
        ({"address": Address("Mill Lane", since=datetime(2026, 1, 1))}, "address.since"),
        ({"earlier": "none"}, "earlier"),
        ({"stamps": {"a": 7}}, "stamps{}"),
        ({"counts": {"a": "b"}}, "counts"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_path(changes: dict[str, Any], path: str) -> None:
    with pytest.raises(EventRefused) as refused:
        read_back(Order, order(**changes))
    assert refused.value.field.startswith(path)


@pytest.mark.parametrize(
    "value", ["0.00", "-0.01", "9999999999.99", "-9999999999.99", "1E+2", "1.2800", "-1.28", "2.56", "0E-99"]
)
def test_decimals_that_fit_keep_their_value(value: str) -> None:
    assert read_back(Order, order(amount=Decimal(value)))["amount"] == Decimal(value)


@pytest.mark.parametrize(
    "value",
    [
        Decimal("0.001"),
        Decimal("1E+11"),
        Decimal("NaN"),
        Decimal("Infinity"),
        12.5,
        12,
        Decimal("1E+999999"),
        Decimal("1E-999999"),
    ],
)
def test_decimals_that_do_not_fit_are_refused_and_never_rounded(value: Any) -> None:
    with pytest.raises(EventRefused, match="at most 12 digits, 2 of them behind the point"):
        read_back(Order, order(amount=value))


def test_instants_are_cut_to_the_millisecond_in_any_zone() -> None:
    given = datetime(2026, 11, 23, 13, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=1)))
    assert read_back(Order, order(paid_at=given))["paid_at"] == NOON + timedelta(milliseconds=999)


def test_an_instance_of_another_class_is_refused_a_subclass_too() -> None:
    class Special(Address):
        gate: str = "north"

    for stranger in (Special("Mill Lane"), Address, {"street": "Mill Lane"}, None, 7):
        with pytest.raises(EventRefused, match="an instance of Address"):
            converter_of(Address)(stranger)


def test_an_instance_that_lost_a_field_is_refused() -> None:
    address = Address("Mill Lane")
    del address.street
    with pytest.raises(EventRefused, match="an instance of Address"):
        converter_of(Address)(address)
