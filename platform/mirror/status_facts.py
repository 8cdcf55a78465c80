"""The facts that the mirror writes to its status file. Pure."""

from collections.abc import Mapping
from typing import Any

from ..client.fetch.fetched import TopicPartition
from .control.orders import Orders
from .partition_copy import ERROR_PHASES, PartitionCopy


def facts(
    copies: Mapping[TopicPartition, PartitionCopy], *, trouble: str | None, held: Mapping[TopicPartition, str] | None = None
) -> dict[str, Any]:
    """`held`: what is paused or throttled, with the words for it. Return JSON values: totals, each partition's positions, and
    what needs attention.
    """
    return {
        "lag_bytes": sum(copy.lag_bytes for copy in copies.values()),
        "errors": [
            {"topic": name.topic, "partition": name.partition, "state": copy.phase.value, "error": copy.trouble}
            for name, copy in sorted(copies.items())
            if copy.phase in ERROR_PHASES
        ],
        "trouble": trouble,
        "partitions": [
            {
                "topic": name.topic,
                "partition": name.partition,
                "state": copy.phase.value,
                "source_end": copy.source_end,
                "destination_end": copy.copied_to,
                "counted_to": copy.counted_to,
                "lag_bytes": copy.lag_bytes,
                "passed_over": copy.passed_over,
                "trouble": copy.trouble,
                "held": (held or {}).get(name),
            }
            for name, copy in sorted(copies.items())
        ],
    }


def orders_facts(orders: Orders, trouble: str | None) -> dict[str, Any]:
    """Return JSON values: the orders that the mirror follows, and why newer ones cannot be read."""
    return {
        "number": orders.number,
        "paused": {topic: pause.words() for topic, pause in sorted(orders.paused.items())},
        "bytes_per_s": dict(sorted(orders.bytes_per_s.items())),
        "trouble": trouble,
    }
