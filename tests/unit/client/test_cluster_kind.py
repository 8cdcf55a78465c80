"""What a cluster's offsets are: as its broker announces, and for brokers that announce nothing by what they lack."""

from contextlib import closing

import pytest

from headrace.client.cluster_kind import counts_records
from headrace.client.connection.cluster import Cluster
from headrace.wire.messages import control
from tests.support.scripted_broker import API_VERSIONS, SERVED, ScriptedBroker

TRANSACTIONS = {24: (0, 3)}
"""AddPartitionsToTxn."""


@pytest.mark.parametrize(
    ("features", "more", "expected"),
    [
        ([control.BYTE_OFFSETS], {}, False),
        ([control.BYTE_OFFSETS], TRANSACTIONS, False),
        (["transaction.version"], TRANSACTIONS, True),
        ([], TRANSACTIONS, True),
        ([], {}, False),
        ([], {API_VERSIONS: (0, 2)}, False),
        ([], {API_VERSIONS: (0, 2), **TRANSACTIONS}, True),
    ],
)
def test_what_is_announced_decides_before_what_is_served(
    features: list[str], more: dict[int, tuple[int, int]], expected: bool
) -> None:
    with closing(ScriptedBroker()) as broker:
        broker.served = {**SERVED, **more}
        broker.features = features
        cluster = Cluster(broker.address)
        try:
            assert counts_records(cluster) is expected
        finally:
            cluster.close()
