"""How much of each partition a micro-batch takes. Pure."""

from collections.abc import Mapping

_LEAST_SHARE = 10
"""A partition gets a tenth of an equal share at least, where it has that much."""


def shares(waiting: Mapping[int, int], limit: int | None) -> dict[int, int]:
    """Return how many of its `waiting` offsets each partition gives: all, or in proportion, together `limit` at most.

    In proportion, so that partitions come to their ends together, as in Spark's Kafka source; with a least share, so that a small
    one is never starved by a huge one. At least one of each that waits, even if these are more than the limit: else a batch
    could be empty without end.
    """
    total = sum(waiting.values())
    if limit is None or total <= limit:
        return dict(waiting)
    behind = [partition for partition in sorted(waiting) if waiting[partition] > 0]
    least = max(1, limit // (_LEAST_SHARE * len(behind)))
    found = {partition: min(waiting[partition], least) if partition in behind else 0 for partition in waiting}
    left_limit = max(0, limit - sum(found.values()))
    left = {partition: waiting[partition] - found[partition] for partition in waiting}
    left_total = sum(left.values())
    for partition in behind:
        found[partition] += left[partition] * left_limit // left_total if left_total else 0
    return found
