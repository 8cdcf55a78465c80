"""Which of a member's streams reads which of its partitions. Pure.

Source: Kafka 0.7.2 shares a topic's partitions among all streams of a group, in ranges. A member's streams stand beside each
other in the group's order, so sharing the member's own partitions in ranges gives the same result.
"""

from collections.abc import Collection, Mapping, Sequence

from ...coordination.assignment import assign
from ..fetch.fetched import TopicPartition


def placed(own: Collection[TopicPartition], streams: Mapping[str, Sequence[int]]) -> dict[TopicPartition, int]:
    """Return each partition's stream: every partition in exactly one, the streams of a topic differing by one partition at most.

    `streams` names the numbers of each topic's streams. A partition of a topic without streams is left out.
    """
    found: dict[TopicPartition, int] = {}
    for topic, numbers in streams.items():
        partitions = [name.partition for name in own if name.topic == topic]
        # Names of equal length sort as their numbers do.
        for slot, mine in assign(partitions, [f"{number:09d}" for number in numbers]).items():
            found.update({TopicPartition(topic, partition): int(slot) for partition in mine})
    return found
