"""The drill `table` takes a row from what readers see, with what a default installation has."""

from pathlib import Path

from headrace.local.drills.deletion_drills import delete_a_row
from headrace.spark.publish.publish_job import Gate
from headrace.spark.warehouse.hours import hour_name
from headrace.spark.warehouse.topic_table import LOADS, MAIN
from tests.support.stored_table import Stored


def test_a_row_is_gone_from_what_readers_see_and_stands_on_loads(tmp_path: Path) -> None:
    """Fault: it called `Table.delete`, which needs pyiceberg-core on a table that is partitioned by hours: NotInstalledError."""
    stored = Stored(tmp_path, "clicks")
    stored.load(0, 20)
    stored.publish()
    offset = delete_a_row(stored.warehouse.existing_table("clicks").iceberg)
    assert stored.rows(LOADS) == list(range(20))
    assert stored.rows(MAIN) == [one for one in range(20) if one != offset]
    assert dict(stored.publish().pending)[hour_name(0)].startswith("1 rows were removed by others")
    restored = Gate(stored.warehouse, "clicks", stored.audit.ask, restore=[0]).publish(wait_ms=0)
    assert restored.published == (hour_name(0),)
    assert stored.rows(MAIN) == list(range(20))
