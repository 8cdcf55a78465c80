"""Maintenance of some tables or of all, one after another. A table's fault stops no other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ...errors import HeadraceError
from ...runtime.logs import get_logger
from ..errors import CatalogUnreachable, StoreUnreachable
from ..warehouse.warehouse import Warehouse
from .compact_job import CompactJob, CompactOutcome
from .expire_job import ExpireJob, ExpireOutcome
from .proofs_job import merge_proofs
from .retention_job import RetentionJob, RetentionOutcome
from .settings import CompactSettings, ExpirySettings

log = get_logger(__name__)

PROOFS = "headrace.proofs/"
"""Among topics, of which none is called so: the table of all topics' proofs."""

T = TypeVar("T")


@dataclass(slots=True)
class OfTables(Generic[T]):
    """What became of each table, by topic."""

    results: dict[str, T] = field(default_factory=dict)
    faults: dict[str, Exception] = field(default_factory=dict)


def compact_tables(warehouse: Warehouse, topics: Sequence[str], settings: CompactSettings) -> OfTables[CompactOutcome]:
    """Merge small files. Raises CatalogUnreachable, StoreUnreachable: then the other tables would find the same."""

    def work(topic: str) -> CompactOutcome:
        return merge_proofs(warehouse) if topic == PROOFS else CompactJob(warehouse, topic, settings).run()

    return _each(topics, work)


def expire_tables(warehouse: Warehouse, topics: Sequence[str], settings: ExpirySettings) -> OfTables[ExpireOutcome]:
    """Forget old snapshots, and delete what none names. Raises as above."""
    return _each(topics, lambda topic: ExpireJob(warehouse, None if topic == PROOFS else topic, settings).run())


def retain_tables(
    warehouse: Warehouse, topics: Sequence[str], *, apply: bool, keep_hours: int | None, most_hours: int
) -> OfTables[RetentionOutcome]:
    """Drop hours past their age, or say which. Raises as above."""
    words = {"apply": apply, "keep_hours": keep_hours, "most_hours": most_hours}
    return _each(topics, lambda topic: RetentionJob(warehouse, topic, **words).run())  # type: ignore[arg-type]


def words_of(error: Exception) -> str:
    """Return a fault in words."""
    return str(error) if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"


def _each(topics: Sequence[str], work: Callable[[str], T]) -> OfTables[T]:
    done: OfTables[T] = OfTables()
    for topic in topics:
        try:
            done.results[topic] = work(topic)
        except (CatalogUnreachable, StoreUnreachable):
            raise
        except Exception as error:  # a table's files or metadata: it is reported by name, and the others continue
            log.warning("table_not_done", topic=topic, reason=f"{type(error).__name__}: {error}")
            done.faults[topic] = error
    return done
