"""What an application logs with a class is read back with a class: the same one, an older one, a newer one."""

import io
import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.reader.decoding.event_decoder import EventDecoder, Undecodable
from headrace.sdk import DecimalDigits, SchemaRefused, schema_of
from headrace.sdk.forms.typed_events import converter_of
from headrace.wire.schema_id import frame


class Colour(Enum):
    RED = 1
    BLUE = "b"


@dataclass(frozen=True, slots=True)
class Item:
    name: str
    price: Annotated[Decimal, DecimalDigits(12, 2)]
    tags: list[str] = field(default_factory=list)


class Extra(TypedDict):
    note: str
    level: NotRequired[int]


@dataclass
class Order:
    id: uuid.UUID
    number: int
    share: float
    is_new: bool
    raw: bytes
    at: datetime
    day: date
    colour: Colour
    way: Literal["post", "shop"]
    items: list[Item]
    extra: Extra
    counts: dict[str, int]
    best: Item | None = None
    comment: str | None = None


TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=10)
ITEMS = st.builds(Item, TEXT, st.decimals(-(10**9), 10**9, places=2, allow_nan=False), st.lists(TEXT, max_size=3))
ORDERS = st.builds(
    Order,
    id=st.uuids(),
    number=st.integers(-(2**63), 2**63 - 1),
    share=st.floats(allow_nan=False),
    is_new=st.booleans(),
    raw=st.binary(max_size=10),
    at=st.integers(0, 4_000_000_000_000).map(lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)),
    day=st.dates(),
    colour=st.sampled_from(Colour),
    way=st.sampled_from(["post", "shop"]),
    items=st.lists(ITEMS, max_size=3),
    extra=st.fixed_dictionaries({"note": TEXT}, optional={"level": st.integers(0, 9)}),
    counts=st.dictionaries(TEXT, st.integers(0, 9), max_size=3),
    best=st.none() | ITEMS,
    comment=st.none() | TEXT,
)


class Registry:
    def __init__(self, *schemas: Any) -> None:
        self.schemas = [json.dumps(schema) for schema in schemas]

    def schema(self, schema_id: int) -> str:
        return self.schemas[schema_id]


def framed(schema: Any, event: Any, schema_id: int = 0) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), event)
    return frame(schema_id, out.getvalue())


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Any", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def read(event_class: type, schema: Any, event: Any) -> Any:
    return EventDecoder(Registry(schema), event_class).decode(framed(schema, event))


STAMPS = {"event_time": 0, "server": "s"}
"""What the logger fills in; the class need not have it."""


@given(ORDERS)
def test_what_was_logged_with_a_class_is_read_back_equal(order: Order) -> None:
    got = read(Order, schema_of(Order), {**converter_of(Order)(order), **STAMPS})
    assert got == order
    assert type(got.colour) is Colour


def test_fields_that_the_class_lacks_are_left_out_and_those_that_the_writer_lacks_have_their_default() -> None:
    @dataclass
    class Click:
        page: str
        user: str | None
        tries: int = 1
        tags: list[str] = field(default_factory=lambda: ["none"])

    assert read(Click, record(page="string", more="long"), {"page": "/", "more": 3}) == Click("/", None, 1, ["none"])


def test_numbers_widen_and_times_become_milliseconds_where_the_class_wants_them() -> None:
    @dataclass
    class Reading:
        value: float
        at: int
        id: str

    schema = record(
        value="int", at={"type": "long", "logicalType": "timestamp-millis"}, id={"type": "string", "logicalType": "uuid"}
    )
    one = uuid.UUID(int=7)
    assert read(Reading, schema, {"value": 3, "at": 1_500, "id": one}) == Reading(3.0, 1_500, str(one))


@dataclass
class Plain:
    page: str
    count: int = 0


@pytest.mark.parametrize(
    ("schema", "event", "said"),
    [
        (record(count="long"), {"count": 1}, "Plain.page: the writer's schema has no such field"),
        (record(page="long"), {"page": 1}, "Plain.page: the writer's schema has long, which the class's str does not take"),
        (record(page=["null", "string"]), {"page": None}, "Plain.page is null, and the class does not allow None"),
        (record(page=["string", "long"]), {"page": "/"}, "Plain.page: the writer's schema has a union of 2 types"),
        ({"type": "string"}, "/", "the writer's schema has string, not a record"),
    ],
    ids=["missing", "type", "null", "union", "no record"],
)
def test_an_event_that_has_no_place_in_the_class_is_undecodable_and_names_the_field(schema: Any, event: Any, said: str) -> None:
    with pytest.raises(Undecodable, match="does not fit the class Plain") as caught:
        read(Plain, schema, event)
    assert said in str(caught.value)
    assert caught.value.code == "class_mismatch"


def test_a_word_that_the_class_does_not_know_and_an_error_of_the_class_itself_are_undecodable() -> None:
    @dataclass
    class Strict:
        colour: Colour
        count: int = 0

        def __post_init__(self) -> None:
            if self.count < 0:
                raise ValueError("a count is positive")

    schema = record(colour="string", count="long")
    assert read(Strict, schema, {"colour": "BLUE", "count": 1}) == Strict(Colour.BLUE, 1)
    with pytest.raises(Undecodable, match=r"Strict.colour is 'GREEN'"):
        read(Strict, schema, {"colour": "GREEN", "count": 1})
    with pytest.raises(Undecodable, match="a count is positive"):
        read(Strict, schema, {"colour": "RED", "count": -1})


def test_a_writer_that_names_a_type_once_and_uses_it_again_is_understood() -> None:
    point = {"type": "record", "name": "Point", "namespace": "a.b", "fields": [{"name": "x", "type": "int"}]}

    @dataclass
    class Point:
        x: int

    @dataclass
    class Line:
        start: Point
        end: Point | None

    schema = record(start=point, end=["null", "a.b.Point"])
    assert read(Line, schema, {"start": {"x": 1}, "end": {"x": 2}}) == Line(Point(1), Point(2))


def test_a_class_that_is_none_is_refused_at_the_start() -> None:
    with pytest.raises(SchemaRefused, match="neither a dataclass nor a TypedDict"):
        EventDecoder(Registry(), int)
