"""A denied request is one denial in the trail and in the metrics, on whichever path of Produce and Fetch it was refused.

Fault: a denied Produce request counted twice (in the run, and on the general path), a repeated Fetch four times.
"""

from collections.abc import Iterator

import pytest

from headrace.broker.rights.rule import Operation, Resource
from headrace.wire.errors import ErrorCode
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient, batch, fetch_body, fetched
from tests.support.serving_broker import ServingBroker

from .requests import OTHER, TOPIC, right

SETTINGS = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
TIMES = 20


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path_factory.mktemp("broker"), topics={TOPIC: 1, OTHER: 1}, settings=SETTINGS) as serving:
        serving.set_rules([right(operation, Resource.TOPIC, OTHER) for operation in (Operation.READ, Operation.WRITE)])
        yield serving


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as connected:
        yield connected


def test_a_denied_produce_request_is_one_denial(broker: ServingBroker, client: RawClient) -> None:
    for _ in range(TIMES):
        assert client.produce(OTHER, batch(b"a")).error_code == ErrorCode.NONE
        assert client.produce(TOPIC, batch(b"a")).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert broker.context.metrics.access_denied == {("WRITE", "TOPIC"): TIMES}


@pytest.mark.parametrize("max_wait_ms", [0, 10_000])
def test_a_denied_fetch_is_one_denial(broker: ServingBroker, client: RawClient, max_wait_ms: int) -> None:
    for _ in range(TIMES):
        assert client.fetch(OTHER, 0).error_code == ErrorCode.NONE
        assert client.fetch(TOPIC, 0, max_wait_ms=max_wait_ms).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert broker.context.metrics.access_denied == {("READ", "TOPIC"): TIMES}


def test_a_right_that_is_taken_away_while_a_fetch_waits_ends_it_with_one_denial(broker: ServingBroker, client: RawClient) -> None:
    client.send(1, 12, fetch_body([(OTHER, 0, 0)], max_wait_ms=60_000))
    with broker.client() as writer:
        eventually(lambda: broker.context.metrics.parked_fetches == 1, what="the fetch waits")
        broker.set_rules([right(Operation.WRITE, Resource.TOPIC, OTHER)])
        assert writer.produce(OTHER, batch(b"news")).error_code == ErrorCode.NONE
    ended = fetched(12, client.receive(1, 12)[1])
    assert ended[OTHER, 0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert broker.context.metrics.access_denied == {("READ", "TOPIC"): 1}
