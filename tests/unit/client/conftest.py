"""A scripted broker of the test's own, and a cluster view of it."""

from collections.abc import Iterator

import pytest

from headrace.client.cluster import Cluster
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
