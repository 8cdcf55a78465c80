"""Finds the rows whose content is not what the load decoded: the log's range is decoded again and compared row by row.

Runs only where a window's digest differs. If the log no longer has the range, the whole range counts as altered: it is
impossible to say any more which of its rows are right.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from ...audit.model.messages import Stretch
from ...client.connection.cluster import Cluster
from ...errors import HeadraceError
from ...runtime.clock import SystemClock
from ...runtime.logs import get_logger
from ...schema_registry.client.registry_client import RegistryClient
from ...wire.quarantine_record import QuarantineRecord
from ..source.cluster_batches import cluster_batches
from ..source.decoding import BlockDecoder
from ..source.log_ends import check_still_there, log_ends
from ..source.offset_ranges import OffsetRange
from ..source.split_reader import SplitReader
from ..source.split_source import schema_of
from ..warehouse.file_rows import Rows, join_rows, rows_of, stretches

log = get_logger(__name__)

DecodeAgain = Callable[[OffsetRange, pa.Schema], Iterator[pa.RecordBatch]]
"""Yields the rows of a range of the log as the load decoded them. Raises HeadraceError if that is no longer possible."""


def altered(topic: str, rows: Rows, window_start_ms: int, schema: pa.Schema, decode_again: DecodeAgain) -> list[Stretch]:
    """Return those of `rows` (of one partition and window) whose content differs from the log's, by offset."""
    if not len(rows):
        return []
    within = OffsetRange(
        partition=int(rows.partitions[0]), from_offset=int(rows.offsets.min()), to_offset=int(rows.offsets.max()) + 1
    )
    try:
        again = join_rows([rows_of(batch) for batch in decode_again(within, schema)])
    except HeadraceError as error:
        log.warning("rows_cannot_be_compared", topic=topic, partition=within.partition, window=window_start_ms, reason=str(error))
        return stretches(rows.offsets)
    order = np.argsort(again.offsets)
    at = np.searchsorted(again.offsets, rows.offsets, sorter=order)
    is_known = at < len(order)
    at[~is_known] = 0
    twin = order[at] if len(order) else at
    if len(order):
        is_known &= again.offsets[twin] == rows.offsets
        differs = (again.hashes.high[twin] != rows.hashes.high) | (again.hashes.low[twin] != rows.hashes.low)
    else:
        differs = np.zeros(len(rows), np.bool_)
    # A row that the log does not have is not altered: the audit tells it as a row too many.
    return stretches(rows.offsets[is_known & differs])


class _Nowhere:
    """Takes rejects and drops them: the load has quarantined them already."""

    def put(self, record: QuarantineRecord) -> None:
        return None

    def flush(self) -> None:
        return None


def decode_from_log(bootstrap: str, registry_url: str, topic: str) -> DecodeAgain:
    """Return the reader of a cluster's log."""

    def decode_again(within: OffsetRange, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        check_still_there(topic, [within], log_ends(bootstrap, topic))
        cluster = Cluster(bootstrap, client_id="headrace-count")
        try:
            yield from SplitReader(
                topic=topic,
                cluster="offline",
                split=within,
                batches=cluster_batches(cluster, topic),
                decoder=BlockDecoder(schema, within.partition, schema_of(RegistryClient(registry_url))),
                quarantine=_Nowhere(),
                on_report=lambda report: None,
                clock=SystemClock(),
                wants_digest=False,
            ).rows()
        finally:
            cluster.close()

    return decode_again
