"""A view of the module's cluster."""

from collections.abc import Iterator

import pytest

from headrace.client.connection.cluster import Cluster
from tests.support.broker import BrokerProcess


@pytest.fixture
def cluster(broker: BrokerProcess) -> Iterator[Cluster]:
    made = Cluster(broker.address, request_timeout_ms=10_000)
    yield made
    made.close()
