"""A log that does not hold what was sent is a fault."""

import pytest

from bench.harness.child import BenchFault
from bench.peers.kafka_clients import OnDisk, check_log

_NOTHING = OnDisk(batches=0, records=0, bytes=0)


def test_acknowledged_messages_that_are_not_in_the_log_are_a_fault() -> None:
    with pytest.raises(BenchFault, match="100 messages were acknowledged and 99 are in the log"):
        check_log("ours", "t", wanted=100, shape="1", before=_NOTHING, after=OnDisk(batches=99, records=99, bytes=1))


def test_batches_of_another_size_than_asked_for_are_a_fault() -> None:
    after = OnDisk(batches=3, records=100, bytes=1)
    with pytest.raises(BenchFault, match="came as 3 batches"):
        check_log("ours", "t", wanted=100, shape="50", before=_NOTHING, after=after)
    check_log("ours", "t", wanted=100, shape="default", before=_NOTHING, after=after)
