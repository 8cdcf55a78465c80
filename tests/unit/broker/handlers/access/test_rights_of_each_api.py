"""Every API with and without each right that it wants, in every version, over real sockets. Only ZooKeeper is simulated."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from headrace.broker.handlers.access import table
from headrace.broker.handlers.api_table import TABLE
from headrace.wire.errors import ErrorCode
from tests.support.raw_kafka import RawClient
from tests.support.serving_broker import ServingBroker

from .requests import ASKS, OTHER, TOPIC, C, G, T, X

DENIALS = {int(one) for one in (T, G, C, X)}
SETTINGS = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path_factory.mktemp("broker"), topics={TOPIC: 1, OTHER: 1}, settings=SETTINGS) as running:
        yield running


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as raw:
        yield raw


def errors_in(message: Any) -> list[int]:
    """Return every error code of a response."""
    found = []
    for field in fields(message):
        value = getattr(message, field.name)
        if field.name == "error_code":
            found.append(int(value))
        for one in value if isinstance(value, tuple) else (value,):
            if is_dataclass(one):
                found += errors_in(one)
    return found


def versions() -> Iterator[Any]:
    for api_key, asks in ASKS.items():
        for number, ask in enumerate(asks):
            for version in range(max(TABLE[api_key].served_from, ask.first_version), TABLE[api_key].highest + 1):
                yield pytest.param(api_key, number, version, id=f"{TABLE[api_key].name}-{number}-v{version}")


@pytest.mark.parametrize(("api_key", "number", "version"), [*versions()])
def test_each_right_is_wanted_and_all_together_are_enough(
    broker: ServingBroker, client: RawClient, api_key: int, number: int, version: int
) -> None:
    ask = ASKS[api_key][number]
    for without, error in ask.rights.items():
        broker.set_rules(set(ask.rights) - {without})
        assert int(error) in errors_in(client.ask(api_key, version, ask.message)), without
    broker.set_rules(ask.rights)
    assert not DENIALS & {*errors_in(client.ask(api_key, version, ask.message))} or ErrorCode(X) in ask.rights.values()
    if api_key == 20:
        broker.on_loop(lambda: broker.topics.create(TOPIC, 1, {}, lambda outcome: None))


def test_each_api_is_in_one_table_of_rights() -> None:
    tables = [set(table.CHECKS), set(table.IN_HANDLER), set(table.FREE), {table.METADATA}]
    assert sorted(key for one in tables for key in one) == sorted(TABLE)


def test_each_checked_api_has_a_test() -> None:
    assert set(table.CHECKS) - set(ASKS) == {16, 60}
