"""The count of a table's rows, as the tests of publishing take it: nobody reads what it reports."""

from collections.abc import Iterator

import pyarrow as pa

from headrace.spark.errors import WarehouseError
from headrace.spark.publish.count_job import count_and_report
from headrace.spark.source.offset_ranges import OffsetRange
from headrace.spark.warehouse.warehouse import Warehouse


class Nowhere:
    """The audit topic; nobody reads it."""

    def send(self, topic: str, value: bytes, *, key: bytes | None = None, timestamp_ms: int) -> None:
        return None

    def flush(self, timeout_ms: int, /) -> None:
        return None


def no_log(within: OffsetRange, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    raise WarehouseError("the log is gone")


def count(warehouse: Warehouse) -> None:
    count_and_report(warehouse, "clicks", Nowhere(), instance="t", decode_again=no_log)
