"""What loggers say on their application's metrics page."""

from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from headrace.sdk.metrics import metrics_page
from headrace.sdk.transport import Ledger


@dataclass
class Logger:
    """A logger's topic and ledger."""

    topic: str
    kept: Ledger

    def ledger(self) -> Ledger:
        return self.kept


def test_ledgers_are_summed_by_topic_and_losses_named() -> None:
    first = Ledger(taken=10, acknowledged=7, journaled=1, quarantined=2, dropped={"buffer_full": 4})
    second = Ledger(taken=2_000_000, acknowledged=1_999_999, journaled=0, quarantined=0, dropped={"buffer_full": 1, "sampled": 9})
    loggers: list[Any] = [Logger("clicks", first), Logger("clicks", second), Logger("orders", first)]
    families = text_string_to_metric_families(metrics_page(loggers))
    found = {(s.name, *sorted(s.labels.values())): s.value for family in families for s in family.samples}
    assert found["headrace_sdk_acknowledged_events_total", "clicks"] == 2_000_006
    assert found["headrace_sdk_under_way_events", "clicks"] == 3
    assert found["headrace_sdk_dropped_events_total", "buffer_full", "clicks"] == 5
    assert found["headrace_sdk_dropped_events_total", "buffer_full", "orders"] == 4
    assert found["headrace_sdk_loggers", "clicks"] == 2
    assert found["headrace_sdk_quarantined_events_total", "orders"] == 2


def test_an_application_without_loggers_has_a_page_too() -> None:
    assert "# TYPE headrace_sdk_dropped_events_total counter" in metrics_page([])
