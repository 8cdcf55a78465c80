"""The registry's own numbers for `/metrics`: what it holds, and how far it has read its topic."""

from collections.abc import Mapping
from typing import Any

from ....runtime.monitoring.text_format import Metric, one

ROLE = "registry"
PREFIX = "headrace_registry_"


def metrics(facts: Mapping[str, Any]) -> list[Metric]:
    """Return them. `facts`: what the registry says at /readyz."""
    return [
        Metric(PREFIX + "ready", "gauge", "1 while /readyz answers 200.", one(facts["ready"])),
        Metric(PREFIX + "topic_reachable", "gauge", "0 while its topic cannot be read.", one(facts["trouble"] is None)),
        Metric(PREFIX + "subjects", "gauge", "Subjects, without deleted ones.", one(facts["subjects"])),
        Metric(PREFIX + "schemas", "gauge", "Schemas with an id.", one(facts["schemas"])),
        Metric(PREFIX + "highest_schema_id", "gauge", "The highest id that was given.", one(facts["highest_id"])),
        Metric(PREFIX + "topic_next_offset", "gauge", "Up to here its topic is read.", one(facts["next_offset"])),
    ]
