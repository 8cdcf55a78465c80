"""A null in place of every array of every served request: the broker responds or closes the connection, without a fault of ours.

kio accepts a null where the schema allows none, so each handler must check, and so must what refuses clients without rights.
Fault: AlterClientQuotas with a null for an entity, by a client without the right to it, was a fault of ours.
"""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from kio.serial._introspect import EntityField, EntityTupleField, PrimitiveTupleField, classify_field, get_field_tag

from headrace.broker.handlers.api_table import TABLE
from headrace.wire.errors import UnsupportedVersion
from headrace.wire.messages import control
from tests.support.raw_kafka import frame
from tests.support.serving_broker import ServingBroker

TOPIC = "clicks"
AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
BY_HAND = (0, 1)
"""Produce and Fetch, which kio does not decode."""
PLAIN: dict[str, object] = {"string": TOPIC, "bytes": b"", "records": b"", "bool": False, "float64": 0.0, "uuid": None}


@pytest.fixture(scope="module", params=["all rights", "no rights"])
def broker(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[ServingBroker]:
    settings = AUTHORIZER if request.param == "no rights" else {}
    with ServingBroker(tmp_path_factory.mktemp("broker"), topics={TOPIC: 1}, settings=settings) as serving:
        yield serving


def plain(kafka_type: str) -> object:
    return PLAIN.get(kafka_type, 0)


def message(entity_type: Any, empty: str, path: str = "") -> dict[str, object]:
    """Return a message with one element in each array except the one at the path `empty`."""
    values: dict[str, object] = {}
    for field in fields(entity_type):
        if get_field_tag(field) is not None:
            continue
        here = f"{path}/{field.name}"
        match classify_field(field):
            case EntityTupleField(type_):
                values[field.name] = [] if here == empty else [message(type_, empty, here)]
            case EntityField(type_):
                values[field.name] = message(type_, empty, here)
            case PrimitiveTupleField():
                values[field.name] = [] if here == empty else [plain(field.metadata["kafka_type"])]
            case _:
                values[field.name] = plain(field.metadata["kafka_type"])
    return values


def arrays(entity_type: Any, path: str = "") -> Iterator[str]:
    for field in fields(entity_type):
        here = f"{path}/{field.name}"
        match classify_field(field):
            case _ if get_field_tag(field) is not None:
                pass
            case EntityTupleField(type_):
                yield here
                yield from arrays(type_, here)
            case EntityField(type_):
                yield from arrays(type_, here)
            case PrimitiveTupleField():
                yield here


def with_null(api_key: int, version: int, array: str) -> bytes:
    """Return a request's body with a null in place of the array's count."""
    entity_type = control.message_type("request", api_key, version)
    full = control.encode_request(api_key, version, message(entity_type, ""))
    body = bytearray(control.encode_request(api_key, version, message(entity_type, array)))
    at = next(at for at, (one, other) in enumerate(zip(full, body, strict=False)) if one != other)
    if entity_type.__flexible__:
        body[at] = 0
    else:
        body[at - 3 : at + 1] = b"\xff" * 4
    return bytes(body)


def requests() -> Iterator[tuple[int, int, str]]:
    for api_key, api in TABLE.items():
        for version in range(api.served_from, api.highest + 1):
            if api_key in BY_HAND:
                continue
            try:
                entity_type = control.message_type("request", api_key, version)
            except UnsupportedVersion:
                continue  # read by hand or as the next version
            yield from ((api_key, version, array) for array in arrays(entity_type))


def test_a_null_in_the_place_of_any_array_is_no_fault_of_ours(broker: ServingBroker, caplog: pytest.LogCaptureFixture) -> None:
    tried = 0
    for api_key, version, array in requests():
        with broker.client() as client:
            client.socket.sendall(frame(api_key, version, 1, with_null(api_key, version, array)))
            try:
                client.socket.recv(1)
            except ConnectionError:
                pass  # the broker closed the connection
        faults = [record for record in caplog.records if record.getMessage().startswith("loop_")]
        assert not faults, (TABLE[api_key].name, version, array, faults[0].exc_info)
        tried += 1
    assert tried > 100
