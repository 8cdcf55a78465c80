"""The mirror's own numbers on `/metrics`, from the facts of its status file. The forwarder adds to `Tally`."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..runtime.monitoring.text_format import Metric, each, one
from ..wire.batch.record_batch import BatchHeader
from .partition_copy import Phase

PREFIX = "headrace_mirror_"


class Tally:
    """Records and bytes that this process has counted as held by the destination, by topic. One thread adds."""

    def __init__(self) -> None:
        self.records: dict[str, int] = {}
        self.bytes: dict[str, int] = {}

    def add(self, topic: str, batches: Sequence[tuple[BatchHeader, object]]) -> None:
        self.records[topic] = self.records.get(topic, 0) + sum(header.record_count for header, _ in batches)
        self.bytes[topic] = self.bytes.get(topic, 0) + sum(header.size_bytes for header, _ in batches)

    def facts(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"records": dict(self.records), "bytes": dict(self.bytes)}


def metrics(facts: Mapping[str, Any]) -> list[Metric]:
    """Return the metrics of `status_facts.facts`, `stall.facts` and `Tally.facts`; few where little is known yet."""
    counted = facts.get("counted", {"records": {}, "bytes": {}})
    lag: dict[str, float] = {}
    passed: dict[str, float] = {}
    states: dict[str, float] = dict.fromkeys((phase.value for phase in Phase), 0)
    held = 0
    for partition in facts.get("partitions", ()):
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
