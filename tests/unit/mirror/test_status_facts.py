"""What the mirror says of itself."""

from dataclasses import replace

from headrace.client.fetch.fetched import TopicPartition
from headrace.mirror import partition_copy
from headrace.mirror.partition_copy import PartitionCopy, Phase
from headrace.mirror.status_facts import facts


def test_each_partition_shows_both_ends_and_its_lag() -> None:
    copies = {
        TopicPartition("clicks", 1): PartitionCopy(phase=Phase.COPYING, counted_to=50, copied_to=60, source_end=100),
        TopicPartition("clicks", 0): PartitionCopy(phase=Phase.COPYING, counted_to=9, copied_to=9, source_end=9),
    }
    said = facts(copies, trouble=None)
    assert said["lag_bytes"] == 40
    assert said["errors"] == []
    assert [(one["partition"], one["source_end"], one["destination_end"], one["lag_bytes"]) for one in said["partitions"]] == [
        (0, 9, 9, 0),
        (1, 100, 60, 40),
    ]


def test_an_error_state_stands_out() -> None:
    copy = partition_copy.in_error(replace(PartitionCopy(), copied_to=9), Phase.SOURCE_BEHIND, "the source ends before", 0)
    said = facts({TopicPartition("clicks", 0): copy}, trouble="no topics")
    assert said["errors"] == [{"topic": "clicks", "partition": 0, "state": "source_behind", "error": "the source ends before"}]
    assert said["trouble"] == "no topics"
