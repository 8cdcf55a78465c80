"""What an application's loggers say on its own `/metrics`, in Prometheus' text format. Imports no library and starts no server.

An application with a page of its own appends `metrics_page()` to it; one without serves it as it is. The numbers are those of the
ledgers, summed by topic: the only label besides the name of a loss, and both are few.
"""

from collections.abc import Iterable

from ..runtime.monitoring.text_format import CONTENT_TYPE, Metric, each, text
from .event_logger import EventLogger, loggers_of_process

__all__ = ["CONTENT_TYPE", "metrics_page"]

PREFIX = "headrace_sdk_"


def metrics_page(loggers: Iterable[EventLogger] | None = None) -> str:
    """Return the page about these loggers; without them, about all that are open in this process."""
    names = ("acknowledged", "journaled", "quarantined", "unpromised", "under_way")
    figures: dict[str, dict[str, float]] = {name: {} for name in names}
    dropped: dict[tuple[str, str], float] = {}
    count: dict[str, float] = {}
    acknowledged = figures["acknowledged"]
    for logger in loggers_of_process() if loggers is None else loggers:
        ledger, topic = logger.ledger(), logger.topic
        count[topic] = count.get(topic, 0) + 1
        for name, values in figures.items():
            values[topic] = values.get(topic, 0) + getattr(ledger, name)
        for loss, events in ledger.dropped.items():
            dropped[topic, loss] = dropped.get((topic, loss), 0) + events
    losses = [({"topic": topic, "loss": loss}, events) for (topic, loss), events in sorted(dropped.items())]
    return text(
        Metric(PREFIX + name, kind, doc, samples)
        for name, kind, doc, samples in (
            ("loggers", "gauge", "Loggers that are open.", each("topic", count)),
            (
                "acknowledged_events_total",
                "counter",
                "Events stored by the live cluster.",
                each("topic", acknowledged),
            ),
            ("journaled_events_total", "counter", "Events in the journal, for the agent.", each("topic", figures["journaled"])),
            ("quarantined_events_total", "counter", "Events put in quarantine.", each("topic", figures["quarantined"])),
            (
                "unpromised_events_total",
                "counter",
                "Events taken while the audit could not know that they may be held.",
                each("topic", figures["unpromised"]),
            ),
            ("dropped_events_total", "counter", "Events given up, by the name of the loss; sampled ones, too.", losses),
            ("under_way_events", "gauge", "Events taken and neither stored nor given up.", each("topic", figures["under_way"])),
        )
    )
