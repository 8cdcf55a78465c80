"""The mirror's own numbers on `/metrics`, from the facts of its status file. The forwarder adds to `Tally`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..runtime.monitoring.text_format import Metric, each, one
from ..runtime.status import Prepared, plain
from ..wire.batch.record_batch import BatchHeader
from .partition_copy import Phase

PREFIX = "headrace_mirror_"


class Tally:
    """Records and bytes that this process has counted as held by the destination, by topic. One thread adds."""

    def __init__(self) -> None:
        self.records: dict[str, int] = {}
        self.bytes: dict[str, int] = {}
        self._changes = 0
        self._prepared: tuple[int, Prepared] | None = None

    def add(self, topic: str, batches: Sequence[tuple[BatchHeader, object]]) -> None:
        self._changes += 1
        self.records[topic] = self.records.get(topic, 0) + sum(header.record_count for header, _ in batches)
        self.bytes[topic] = self.bytes.get(topic, 0) + sum(header.size_bytes for header, _ in batches)

    def facts(self) -> Prepared:
        """Return `{"records", "bytes"}`, each topic → number. One thread at a time calls it, another than the one that adds."""
        changes = self._changes
        if self._prepared is None or self._prepared[0] != changes:
            value = {"records": dict(self.records), "bytes": dict(self.bytes)}
            self._prepared = changes, Prepared(json.dumps(value), lambda: value)
        return self._prepared[1]


def metrics(facts: Mapping[str, Any]) -> list[Metric]:
    """Return the metrics of `status_facts.facts`, `stall.facts` and `Tally.facts`; few where little is known yet."""
    counted = plain(facts.get("counted", {"records": {}, "bytes": {}}))
    lag: dict[str, float] = {}
    passed: dict[str, float] = {}
    states: dict[str, float] = dict.fromkeys((phase.value for phase in Phase), 0)
    held = 0
    for partition in plain(facts.get("partitions", ())):
        topic = partition["topic"]
        lag[topic] = lag.get(topic, 0) + partition["lag_bytes"]
        passed[topic] = passed.get(topic, 0) + partition["passed_over"]
        states[partition["state"]] += 1
        held += partition["held"] is not None
    behind = facts.get("destination", {}).get("lag_bytes", sum(lag.values()))
    since_ms, now_ms = facts.get("destination", {}).get("no_progress_since_ms"), facts.get("now_ms", 0)
    return [
        Metric(PREFIX + "records_total", "counter", "Records counted in the destination.", each("topic", counted["records"])),
        Metric(PREFIX + "bytes_total", "counter", "Bytes of their batches.", each("topic", counted["bytes"])),
        Metric(PREFIX + "lag_bytes", "gauge", "Offsets that the source holds and the destination does not.", each("topic", lag)),
        Metric(PREFIX + "all_lag_bytes", "gauge", "The same of all partitions, with those not copied yet.", one(behind)),
        Metric(
            PREFIX + "still_seconds",
            "gauge",
            "How long the partition that waits longest has not moved; 0: none waits.",
            one(0 if since_ms is None else max(0, now_ms - since_ms) / 1000),
        ),
        Metric(PREFIX + "passed_over_offsets_total", "counter", "Offsets in gaps, which no copy holds.", each("topic", passed)),
        Metric(PREFIX + "partitions", "gauge", "Partitions by the state of their copy.", each("state", states)),
        Metric(PREFIX + "held_partitions", "gauge", "Partitions that an operator has paused or throttled.", one(held)),
        Metric(PREFIX + "reports_failing", "gauge", "1 while no report reaches the audit.", one(facts.get("unreported", 0))),
    ]
