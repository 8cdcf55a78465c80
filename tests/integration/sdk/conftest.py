"""A view of the module's cluster."""

from collections.abc import Iterator

import pytest

from headrace.client.connection.cluster import Cluster
from tests.support.live_side import LiveSide


@pytest.fixture
def cluster(live: LiveSide) -> Iterator[Cluster]:
    made = Cluster(live.bootstrap)
    yield made
    made.close()
