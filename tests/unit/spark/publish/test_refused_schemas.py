"""Records whose writer's schema the table cannot hold: their hours stay shut."""

import pytest

from headrace.spark.warehouse.hours import hour_name
from headrace.spark.warehouse.warehouse import Warehouse
from tests.support.stored_rows import HOUR_MS, span, store

from .test_publish_job import Windows, publish, shown, warehouse

__all__ = ["warehouse"]


@pytest.mark.situation(
    "schemas and quarantine",
    "the table cannot hold a schema (a field of another type)",
    shown="quarantined, code `schema_refused`; the **hours stay shut** with the number",
    when="with the load, and by `headrace load TOPIC --step publish`",
    do="fit the schema, or use another topic; or `despite` in `publish.toml`",
)
def test_an_hour_with_records_that_the_table_cannot_hold_stays_shut_until_a_person_says_otherwise(warehouse: Warehouse) -> None:
    """Fault: they are in quarantine with an address, so the windows were COMPLETE and the hour was published without them."""
    store(warehouse, "r2", [(0, 200, HOUR_MS + 7)], [span(0, 100, 300)], refused={HOUR_MS: 3, 2 * HOUR_MS: 1})
    windows: Windows = ((0, "COMPLETE", 2), (HOUR_MS, "COMPLETE", 2), (2 * HOUR_MS, "COMPLETE", 0))
    done = publish(warehouse, windows)
    assert done.published == (hour_name(0),)
    assert [hour for hour, _ in done.shut] == [hour_name(1), hour_name(2)]
    assert "3 records have a schema that the table cannot hold" in dict(done.shut)[hour_name(1)]
    assert done.complete_through == hour_name(0)
    (warehouse.folder / "publish.toml").write_text('[topics.clicks]\ndespite = ["schema_refused"]\n')
    assert publish(warehouse, windows).published == (hour_name(1), hour_name(2))


def test_late_records_that_the_table_cannot_hold_take_nothing_from_readers_and_let_nothing_in(warehouse: Warehouse) -> None:
    assert publish(warehouse).published == (hour_name(0), hour_name(1))
    store(warehouse, "r2", [(0, 200, HOUR_MS + 7)], [span(0, 100, 300)], refused={HOUR_MS: 3})
    done = publish(warehouse, ((0, "COMPLETE", 2), (HOUR_MS, "COMPLETE", 2)))
    assert (done.published, done.withdrawn, [hour for hour, _ in done.pending]) == ((), (), [hour_name(1)])
    assert len(shown(warehouse)) == 3
