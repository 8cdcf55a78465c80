"""The count and the publish of every table, in one process. A table's fault stops no other."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ...client.errors import BrokerUnreachable
from ...runtime.layout import Layout
from ...runtime.logs import get_logger
from ..errors import AuditUnreachable
from ..warehouse.settings import WarehouseSettings
from ..warehouse.warehouse import Warehouse
from .count_job import CountOutcome, run_count
from .publish_job import WAIT_MS, PublishOutcome, run_publish

log = get_logger(__name__)

ASK_EVERY_MS = 2_000

T = TypeVar("T")


@dataclass(slots=True)
class OfTables(Generic[T]):
    """What became of each table, by topic."""

    results: dict[str, T] = field(default_factory=dict)
    faults: dict[str, Exception] = field(default_factory=dict)


def count_all(layout: Layout) -> OfTables[CountOutcome]:
    """Count and report every table. Raises BrokerUnreachable: the reports are the live cluster's, whatever the table."""
    done: OfTables[CountOutcome] = OfTables()
    warehouse = Warehouse(WarehouseSettings.of(layout))
    _each(warehouse.topics(), lambda topic: run_count(layout, topic, warehouse=warehouse), done)
    return done


def publish_all(layout: Layout, *, wait_ms: int = WAIT_MS, topics: Sequence[str] | None = None) -> OfTables[PublishOutcome]:
    """Publish what is proven of every table; wait up to `wait_ms`, in all, for hours that the audit may decide on soon.

    `topics`: only these. Raises AuditUnreachable: then what was published stays so, and nothing else is changed.
    """
    done: OfTables[PublishOutcome] = OfTables()
    deadline = time.monotonic() + wait_ms / 1000
    warehouse = Warehouse(WarehouseSettings.of(layout))
    left = warehouse.topics() if topics is None else list(topics)
    while left:
        _each(left, lambda topic: _publish(layout, warehouse, topic, done.results.get(topic)), done)
        left = [topic for topic in left if topic not in done.faults and done.results[topic].may_change_soon]
        if time.monotonic() >= deadline:
            break
        if left:
            time.sleep(ASK_EVERY_MS / 1000)
    return done


def _each(topics: Sequence[str], work: Callable[[str], T], done: OfTables[T]) -> None:
    for topic in topics:
        try:
            done.results[topic] = work(topic)
        except (AuditUnreachable, BrokerUnreachable):
            raise
        except Exception as error:  # a table's files or metadata: it is reported by name, and the others continue
            log.warning("table_not_done", topic=topic, reason=f"{type(error).__name__}: {error}")
            done.faults[topic] = error


def _publish(layout: Layout, warehouse: Warehouse, topic: str, before: PublishOutcome | None) -> PublishOutcome:
    now = run_publish(layout, topic, wait_ms=0, warehouse=warehouse)
    return now if before is None else before.then(now)
