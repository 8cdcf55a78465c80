"""Quotas as clients set and feel them: KIP-546, `throttle_time_ms`, and muted connections. Real sockets; ZooKeeper is
simulated. Where a test looks at what is muted, the pause is 19 s, and it does not wait for its end.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.handlers.api_table import TABLE
from headrace.broker.handlers.throttling import EXEMPT, place_of
from headrace.wire.errors import ErrorCode
from headrace.wire.messages import fetch, produce
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient, batch, fetch_body, produce_body
from tests.support.serving_broker import ServingBroker

BIG = batch(b"x" * 20_000)
USER = "ANONYMOUS"
"""Clients that do not log in are this user, in quotas as in Kafka."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path, topics={"clicks": 1}) as serving:
        yield serving


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as raw:
        yield raw


def entity(**names: str | None) -> list[dict[str, str | None]]:
    return [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in names.items()]


def op(key: str, value: float | None) -> dict[str, Any]:
    return {"key": key, "value": value or 0.0, "remove": value is None}


def alter(
    client: RawClient, names: list[dict[str, str | None]], *ops: dict[str, Any], validate_only: bool = False, version: int = 1
) -> tuple[int, str]:
    asked = {"entries": [{"entity": names, "ops": list(ops)}], "validate_only": validate_only}
    (entry,) = client.ask(49, version, asked).entries
    assert [(one.entity_type, one.entity_name) for one in entry.entity] == [tuple(one.values()) for one in names]
    return int(entry.error_code), str(entry.error_message)


def described(client: RawClient, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> Any:
    asked = {
        "components": [{"entity_type": kind, "match_type": type_, "match": name} for kind, type_, name in components],
        "strict": strict,
    }
    answer = client.ask(48, version, asked)
    if answer.error_code:
        return int(answer.error_code)
    return {
        tuple((part.entity_type, part.entity_name) for part in one.entity): {each.key: each.value for each in one.values}
        for one in answer.entries
    }


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_set_found_and_removed(client: RawClient, version: int) -> None:
    ann, both, default = entity(user="ann"), entity(user="ann", client_id="app"), entity(user=None)
    assert alter(client, ann, op("producer_byte_rate", 1_000.0), op("request_percentage", 2.5), version=version)[0] == 0
    assert alter(client, both, op("consumer_byte_rate", 5.0), version=version)[0] == 0
    assert alter(client, default, op("consumer_byte_rate", 7.0), version=version)[0] == 0
    of_ann = {(("user", "ann"),): {"producer_byte_rate": 1_000.0, "request_percentage": 2.5}}
    of_both = {(("user", "ann"), ("client-id", "app")): {"consumer_byte_rate": 5.0}}
    of_default = {(("user", None),): {"consumer_byte_rate": 7.0}}
    assert described(client, version=version) == of_ann | of_both | of_default
    assert described(client, ("user", 0, "ann")) == of_ann | of_both
    assert described(client, ("user", 0, "ann"), strict=True) == of_ann
    assert described(client, ("user", 1, None)) == of_default
    assert described(client, ("user", 2, None), ("client-id", 2, None)) == of_both
    assert described(client, ("client-id", 1, None)) == {}
    assert alter(client, ann, op("producer_byte_rate", None))[0] == 0
    assert alter(client, both, op("consumer_byte_rate", None))[0] == 0
    assert described(client, ("user", 0, "ann")) == {(("user", "ann"),): {"request_percentage": 2.5}}


@pytest.mark.parametrize(
    ("names", "ops", "why"),
    [
        (entity(user="ann"), [op("controller_mutation_rate", 1.0)], "controller_mutation_rate is not served here"),
        (entity(ip="1.2.3.4"), [op("connection_creation_rate", 1.0)], "no quotas by 'ip'"),
        (entity(user="ann"), [op("producer_byte_rate", 0.0)], "larger than 0"),
        (entity(user="ann"), [op("producer_byte_rate", 1.0), op("producer_byte_rate", 2.0)], "changed twice"),
        (entity(user=""), [op("producer_byte_rate", 1.0)], "1 to 249 characters"),
        (entity(client_id="x" * 300), [op("producer_byte_rate", 1.0)], "1 to 249 characters"),
        ([], [op("producer_byte_rate", 1.0)], "each once"),
        (entity(user="ann") * 2, [op("producer_byte_rate", 1.0)], "each once"),
    ],
)
def test_what_cannot_be_a_quota_is_refused_in_words(client: RawClient, names: Any, ops: Any, why: str) -> None:
    error, message = alter(client, names, *ops)
    assert error == ErrorCode.INVALID_REQUEST
    assert why in message
    assert described(client) == {}


def test_a_request_that_only_validates_changes_nothing(broker: ServingBroker, client: RawClient) -> None:
    assert alter(client, entity(user="ann"), op("producer_byte_rate", 1.0), validate_only=True)[0] == 0
    assert broker.quota_registry.configs == {}


def test_filters_that_mean_nothing_are_refused(client: RawClient) -> None:
    assert described(client, ("ip", 2, None)) == ErrorCode.UNSUPPORTED_VERSION
    assert described(client, ("user", 2, None), ("user", 2, None)) == ErrorCode.INVALID_REQUEST
    assert described(client, ("user", 0, None)) == ErrorCode.INVALID_REQUEST
    assert described(client, ("user", 9, None)) == ErrorCode.INVALID_REQUEST


def test_a_change_that_zookeeper_does_not_take_is_an_error(broker: ServingBroker, client: RawClient) -> None:
    broker.quota_registry.is_away = True
    assert alter(client, entity(user="ann"), op("producer_byte_rate", 1.0))[0] == ErrorCode.REQUEST_TIMED_OUT
    assert described(client) == {}


def is_muted(broker: ServingBroker) -> bool:
    found: list[bool] = []
    broker.on_loop(lambda: found.append(any(one.is_muted for one in broker.server._connections.values())))
    return found[0]


@pytest.mark.parametrize("version", [3, 8, 9, 10])
def test_a_producer_over_its_quota_is_told_to_wait_and_its_next_request_waits(
    broker: ServingBroker, client: RawClient, version: int
) -> None:
    alter(client, entity(user=USER), op("producer_byte_rate", 1_000.0))
    body = produce_body("clicks", BIG, version=version)
    answer = produce.decode_response(version, client.request(0, version, body))
    assert answer.topics[0].partitions[0].error_code == 0
    assert 19_000 <= answer.throttle_time_ms <= 20_000
    assert is_muted(broker)
    end = broker.partition("clicks").log.log_end_offset
    client.send(0, version, body)
    with broker.client() as other:  # the same user, through another connection: it is served, and must pause longer
        alone = produce.decode_response(version, other.request(0, version, body))
        assert alone.throttle_time_ms > answer.throttle_time_ms
    assert broker.partition("clicks").log.log_end_offset == end + len(BIG)


@pytest.mark.parametrize("acks", [0, 1])
def test_a_muted_producer_is_served_when_its_pause_is_over(broker: ServingBroker, client: RawClient, acks: int) -> None:
    alter(client, entity(user=USER), op("producer_byte_rate", 30_000.0))
    for _ in range(4):
        client.send(0, 9, produce_body("clicks", BIG, acks=acks))
    eventually(lambda: broker.partition("clicks").log.log_end_offset == 4 * len(BIG), within_ms=30_000, what="all are served")
    assert broker.context.metrics.throttles > 0


def test_a_producer_without_acknowledgements_is_muted_too(broker: ServingBroker, client: RawClient) -> None:
    alter(client, entity(user=USER), op("producer_byte_rate", 1_000.0))
    for _ in range(3):
        client.send(0, 9, produce_body("clicks", BIG, acks=0))
    eventually(lambda: is_muted(broker), what="the producer is muted")
    assert broker.partition("clicks").log.log_end_offset == len(BIG)


def test_clients_without_a_quota_are_not_slowed_down(broker: ServingBroker, client: RawClient) -> None:
    alter(client, entity(user="ann"), op("producer_byte_rate", 1.0))
    alter(client, entity(client_id="app"), op("request_percentage", 0.001))
    answer = produce.decode_response(9, client.request(0, 9, produce_body("clicks", BIG)))
    assert answer.throttle_time_ms == 0
    assert not is_muted(broker)
    assert broker.context.metrics.throttles == 0


@pytest.mark.parametrize("version", [4, 7, 11, 12])
def test_a_reader_gets_a_second_of_its_quota_at_once(broker: ServingBroker, client: RawClient, version: int) -> None:
    small = batch(b"y" * 2_000)
    for _ in range(20):
        client.produce("clicks", small)
    alter(client, entity(user=USER), op("consumer_byte_rate", 5_000.0))
    body = fetch_body([("clicks", 0, 0)], version=version)
    first = fetch.decode_response(version, client.request(1, version, body))
    assert len(first.topics[0].partitions[0].records or b"") == 2 * len(small)  # whole batches, at most a second's worth


def test_a_reader_that_owes_time_through_another_connection_gets_an_empty_response(
    broker: ServingBroker, client: RawClient
) -> None:
    client.produce("clicks", BIG)
    alter(client, entity(user=USER), op("consumer_byte_rate", 1_000.0))
    body = fetch_body([("clicks", 0, 0)])
    first = fetch.decode_response(12, client.request(1, 12, body))
    assert len(first.topics[0].partitions[0].records or b"") == len(BIG)  # the first batch comes whole
    assert first.throttle_time_ms > 18_000
    with broker.client() as other:
        second = fetch.decode_response(12, other.request(1, 12, body))
        assert (second.topics, second.error_code, second.session_id) == ([], 0, 0)
        assert second.throttle_time_ms > 0


def test_the_time_of_the_loop_is_counted_for_every_request(broker: ServingBroker, client: RawClient) -> None:
    assert client.ask(42, 2, {"groups_names": []}).throttle_time.total_seconds() == 0
    alter(client, entity(user=USER), op("request_percentage", 0.0001))
    # The quota is in force when the answer to AlterClientQuotas is made: the next request is the first that is counted.
    answer = client.ask(
        32,
        4,
        {
            "resources": [{"resource_type": 2, "resource_name": "clicks", "configuration_keys": None}],
            "include_synonyms": False,
            "include_documentation": False,
        },
    )
    assert 0 < answer.throttle_time.total_seconds() <= 1
    assert broker.context.metrics.throttles == 1


def test_a_muted_connection_that_its_client_closes_is_forgotten(broker: ServingBroker) -> None:
    with broker.client() as admin:
        alter(admin, entity(client_id=None), op("producer_byte_rate", 20_000.0))
        with broker.client() as client:
            client.produce("clicks", BIG)
            client.produce("clicks", BIG)
        eventually(lambda: broker.server.connection_count == 1, what="the muted connection is closed")


def test_each_response_that_has_a_time_to_wait_has_it_where_it_is_written() -> None:
    """Produce and Fetch have their own tests above."""
    without = {(key, version) for key, api in TABLE.items() for version in range(api.served_from, api.highest + 1)}
    without = {one for one in without if place_of(*one) is None}
    assert {key for key, _ in without} <= EXEMPT | {0, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 19, 20, 23, 32, 35}
    assert place_of(47, 0) == 2  # OffsetDelete has its error first
