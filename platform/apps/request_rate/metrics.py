"""The service's own numbers on `/metrics`, from the facts of its status file. Pure."""

from collections.abc import Mapping
from typing import Any

from ...runtime.monitoring.text_format import Metric, one

PREFIX = "headrace_consumer_"


def metrics(facts: Mapping[str, Any]) -> list[Metric]:
    """Return the metrics; zeros before the first flush. Group, topic and member name the process: labels of one metric."""
    member = {name: str(facts.get(name, "")) for name in ("group", "topic", "consumer_id")}
    return [
        Metric(PREFIX + "info", "gauge", "Always 1. The labels name the member.", [(member, 1)]),
        Metric(PREFIX + "records_total", "counter", "Records read, with those delivered again.", one(facts.get("records", 0))),
        Metric(PREFIX + "quarantined_records_total", "counter", "Records put in quarantine.", one(facts.get("quarantined", 0))),
        Metric(PREFIX + "partitions", "gauge", "Partitions that this member owns.", one(len(facts.get("partitions", ())))),
        Metric(PREFIX + "unsaved_offsets", "gauge", "Offsets read and not saved yet.", one(facts.get("unsaved_offsets", 0))),
        Metric(PREFIX + "unreported_stretches", "gauge", "Runs of records not reported yet.", one(facts.get("backlog", 0))),
    ]
