"""Which member of a group reads which partition. Pure: every member computes it from the same sorted lists, so all get the
same result.

Source: the range assignment of Kafka 0.7.2's ZookeeperConsumerConnector. The paper's formula, read literally (N = |PT|/|CT|, take
j*N to (j+1)*N-1), leaves a remainder unowned; 0.7.2 gives one partition more to each of the first `extra` consumers.
"""

from collections.abc import Mapping, Sequence


def assign(partitions: Sequence[int], consumers: Sequence[str]) -> dict[str, list[int]]:
    """Return each consumer's partitions of one topic: contiguous ranges, sizes differing by at most one, every partition once.

    Order and repetition in the arguments do not matter. A consumer beyond the number of partitions gets none.
    """
    ordered, members = sorted(set(partitions)), sorted(set(consumers))
    if not members:
        return {}
    quota, extra = divmod(len(ordered), len(members))
    mapping: dict[str, list[int]] = {}
    for index, member in enumerate(members):
        start = quota * index + min(index, extra)
        mapping[member] = ordered[start : start + quota + (1 if index < extra else 0)]
    return mapping


def assigned_to(
    consumer_id: str, subscriptions: Mapping[str, Mapping[str, int]], partitions: Mapping[str, Sequence[int]]
) -> set[tuple[str, int]]:
    """Return the (topic, partition) pairs that `consumer_id` reads.

    `subscriptions` is the group's registry, consumer id -> topic -> number of streams; each stream counts as one consumer of the
    topic, as in 0.7.2. `partitions` names each topic's partitions; a topic that it does not name does not exist yet.
    """
    mine: set[tuple[str, int]] = set()
    for topic in subscriptions.get(consumer_id, {}):
        slots = [
            _slot(member, stream)
            for member, subscription in subscriptions.items()
            for stream in range(max(0, subscription.get(topic, 0)))
        ]
        whose = assign(partitions.get(topic, ()), slots)
        for stream in range(max(0, subscriptions[consumer_id][topic])):
            mine.update((topic, partition) for partition in whose[_slot(consumer_id, stream)])
    return mine


def _slot(consumer_id: str, stream: int) -> str:
    # No consumer id holds a control character (paths.step), so the slots of two consumers never share a name.
    return f"{consumer_id}\x00{stream:06d}"
