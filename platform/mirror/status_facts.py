"""The facts that the mirror writes to its status file. Pure, but for the text of rows that have not changed."""

import json
from collections.abc import Mapping
from typing import Any

from ..client.fetch.fetched import TopicPartition
from ..runtime.status import Prepared
from .control.orders import Orders
from .partition_copy import ERROR_PHASES, PartitionCopy
from .stall import Progress


def facts(copies: Mapping[TopicPartition, PartitionCopy], progress: Progress, *, trouble: str | None) -> dict[str, Any]:
    """Return JSON values: totals, and what needs attention. Walks over those partitions only that are behind or stopped."""
    waiting = {name: copies[name] for name in progress.waiting if name in copies}
    return {
        "lag_bytes": sum(copy.lag_bytes for copy in waiting.values()),
        "errors": [
            {"topic": name.topic, "partition": name.partition, "state": copy.phase.value, "error": copy.trouble}
            for name, copy in sorted(waiting.items())
            if copy.phase in ERROR_PHASES
        ],
        "trouble": trouble,
    }


class Rows:
    """The partitions' rows of the status file. A row is written again only when its partition has changed."""

    def __init__(self) -> None:
        self._texts: dict[TopicPartition, tuple[PartitionCopy, str | None, str]] = {}
        """In the file's order."""

    def prepared(self, copies: Mapping[TopicPartition, PartitionCopy], held: Mapping[TopicPartition, str]) -> Prepared:
        """Return a row of each partition, sorted. `held`: what is paused or throttled, with the words for it."""
        if self._texts.keys() != copies.keys():
            known = self._texts
            self._texts = {name: known[name] if name in known else _written(name, copies[name], None) for name in sorted(copies)}
        for name, (copy, words, _) in self._texts.items():
            if copies[name] is not copy or held.get(name) != words:
                self._texts[name] = _written(name, copies[name], held.get(name))
        text = ", ".join([text for _, _, text in self._texts.values()])
        return Prepared(f"[{text}]", lambda: [_row(name, copies[name], held.get(name)) for name in sorted(copies)])


def _written(name: TopicPartition, copy: PartitionCopy, held: str | None) -> tuple[PartitionCopy, str | None, str]:
    return copy, held, json.dumps(_row(name, copy, held))


def _row(name: TopicPartition, copy: PartitionCopy, held: str | None) -> dict[str, Any]:
    return {
        "topic": name.topic,
        "partition": name.partition,
        "state": copy.phase.value,
        "source_end": copy.source_end,
        "destination_end": copy.copied_to,
        "counted_to": copy.counted_to,
        "lag_bytes": copy.lag_bytes,
        "passed_over": copy.passed_over,
        "trouble": copy.trouble,
        "held": held,
    }


def orders_facts(orders: Orders, trouble: str | None) -> dict[str, Any]:
    """Return JSON values: the orders that the mirror follows, and why newer ones cannot be read."""
    return {
        "number": orders.number,
        "paused": {topic: pause.words() for topic, pause in sorted(orders.paused.items())},
        "bytes_per_s": dict(sorted(orders.bytes_per_s.items())),
        "trouble": trouble,
    }
