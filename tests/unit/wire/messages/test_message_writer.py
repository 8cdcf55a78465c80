"""Messages written from mappings are, byte for byte, what kio writes of its own objects."""

import dataclasses
import random
import uuid
from collections.abc import Generator
from typing import Any

import pytest
from kio.serial._introspect import EntityField, EntityTupleField, PrimitiveTupleField, classify_field, is_optional

from headrace.broker.handlers.api_table import SUPPORTED
from headrace.wire.errors import MalformedFrame
from headrace.wire.generators import run_to_end
from headrace.wire.messages import control, old_versions
from headrace.wire.messages.message_types import message_type
from headrace.wire.messages.message_writer import layout_of, write_in_steps
from tests.support import kio_messages

SERVED = [
    (key, version)
    for key, (lowest, highest) in SUPPORTED.items()
    for version in range(lowest, highest + 1)
    if key > 1 and (key, version) not in {(2, 0), (8, 1)} and (key, version) not in old_versions.TABLE
]


def filled(entity_type: Any, rng: random.Random) -> dict[str, Any]:
    message = {}
    for field in dataclasses.fields(entity_type):
        if field.default is not dataclasses.MISSING and rng.random() < 0.3:
            continue
        nothing = is_optional(field) and rng.random() < 0.3
        kind = str(field.metadata.get("kafka_type", ""))
        match classify_field(field):
            case EntityTupleField(inner):
                value: Any = None if nothing else [filled(inner, rng) for _ in range(rng.randrange(3))]
            case EntityField(inner):
                value = None if nothing else filled(inner, rng)
            case PrimitiveTupleField():
                value = [one(kind, rng) for _ in range(rng.randrange(3))]
            case _:
                value = None if nothing and kind != "uuid" else one(kind, rng)
        message[field.name] = value
    return message


def one(kind: str, rng: random.Random) -> Any:
    match kind:
        case "string":
            return rng.choice(("", "clicks", "ä" * 100))
        case "bytes" | "records":
            return rng.randbytes(rng.choice((0, 3, 200)))
        case "uuid":
            return uuid.UUID(int=rng.randrange(1, 1 << 128))
        case "bool":
            return rng.random() < 0.5
        case "float64":
            return rng.random()
        case "error_code":
            return rng.choice((0, 3, 42))
        case _:
            return rng.randrange(100)


@pytest.mark.parametrize("api", SERVED, ids=str)
def test_every_message_is_written_as_kio_writes_it(api: tuple[int, int]) -> None:
    rng = random.Random(7)
    for side in ("request", "response"):
        entity_type: Any = message_type(side, *api)  # type: ignore[arg-type]
        for _ in range(20):
            message = filled(entity_type, rng)
            expected = kio_messages.written(kio_messages.made(side, *api, message))  # type: ignore[arg-type]
            assert run_to_end(write_in_steps(layout_of(entity_type), message, [])) == expected, (side, message)


def test_arrays_may_come_one_by_one_and_errors_in_them_are_told() -> None:
    layout, errors = layout_of(message_type("response", 42, 2)), list[int]()
    codes = [0, 69, 3]
    results = ({"group_id": "g", "error_code": code} for code in codes)
    written = run_to_end(write_in_steps(layout, {"throttle_time_ms": 0, "results": results}, errors))
    assert [int(result.error_code) for result in control.decode_response(42, 2, written).results] == codes
    assert errors == [69, 3]


def test_an_element_may_be_made_in_steps() -> None:
    layout = layout_of(message_type("response", 42, 2))
    each = [{"group_id": name, "error_code": 0} for name in "abc"]

    def made(result: dict[str, Any]) -> Generator[None, None, dict[str, Any]]:
        yield
        return result

    plain = {"throttle_time_ms": 0, "results": each}
    expected = run_to_end(write_in_steps(layout, plain, []))
    assert run_to_end(write_in_steps(layout, {**plain, "results": [made(one) for one in each]}, [])) == expected


def test_a_null_where_none_may_stand_is_refused_by_name() -> None:
    with pytest.raises(MalformedFrame, match="cannot write group_id"):
        control.encode_response(42, 2, {"throttle_time_ms": 0, "results": [{"group_id": None, "error_code": 0}]})
