from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import DefaultPartitioner
from kafka.partitioner.default import murmur2 as reference

from headrace.client.producer.partitioner import murmur2, partition_for_key


@given(st.binary(max_size=80))
def test_murmur2_is_kafkas(data: bytes) -> None:
    assert murmur2(data) == reference(data) & 0xFFFFFFFF


class _Topics:
    """The little that kafka-python's partitioner asks of its cluster."""

    def __init__(self, partition_count: int) -> None:
        self._partitions = set(range(partition_count))

    def topics(self) -> set[str]:
        return {"clicks"}

    def partitions_for_topic(self, topic: str) -> set[int]:
        return self._partitions

    available_partitions_for_topic = partitions_for_topic


@given(st.binary(min_size=1, max_size=40), st.integers(1, 50))
def test_a_key_goes_where_other_clients_send_it(key: bytes, partition_count: int) -> None:
    elsewhere = DefaultPartitioner().partition("clicks", None, key, None, None, _Topics(partition_count))
    assert partition_for_key(key, partition_count) == elsewhere
