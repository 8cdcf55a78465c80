"""A scripted broker of the test's own, a view of its cluster, and producers that end with the test."""

from collections.abc import Iterator

import pytest

from headrace.client.connection.cluster import Cluster
from headrace.client.errors import DeliveryFailed, FlushTimedOut
from headrace.client.producer.producer import Producer
from tests.support.scripted_broker import ScriptedBroker


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    made = ScriptedBroker({"clicks": 1, "views": 3})
    yield made
    made.close()


@pytest.fixture
def cluster(broker: ScriptedBroker) -> Iterator[Cluster]:
    made = Cluster(broker.address, request_timeout_ms=2_000)
    yield made
    made.close()


@pytest.fixture
def made() -> Iterator[list[Producer]]:
    """Producers that a test makes, ended after it."""
    producers: list[Producer] = []
    yield producers
    for producer in producers:
        try:
            producer.close(timeout_ms=0)
        except (FlushTimedOut, DeliveryFailed):
            pass
