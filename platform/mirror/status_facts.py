"""The facts that the mirror writes to its status file. Pure."""

from collections.abc import Mapping
from typing import Any

from ..client.fetch.fetched import TopicPartition
from .partition_copy import ERROR_PHASES, PartitionCopy


def facts(copies: Mapping[TopicPartition, PartitionCopy], *, trouble: str | None) -> dict[str, Any]:
    """Return JSON values: totals, each partition's positions, and what needs attention."""
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
            }
            for name, copy in sorted(copies.items())
        ],
    }
