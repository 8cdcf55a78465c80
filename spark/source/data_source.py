"""`spark.read.format("headrace")`: a topic's records as a DataFrame, read in parallel offset ranges.

Works on any Kafka-wire cluster.

    spark.dataSource.register(TopicDataSource)
    spark.read.format("headrace").option("bootstrap", "127.0.0.1:9192").option("topic", "clicks").option("registry", url).load()

| option | |
|---|---|
| `bootstrap`, `topic`, `registry` | where from, and who knows the writers' schemas |
| `ranges` | `[[partition, from, to], ...]`, one task each; default: all that the log holds now |
| `pieces`, `max_piece_span` | cut into about so many tasks, of at most so many offsets (bytes, in a byte-addressed log) |
| `quarantine` | bootstrap of the cluster whose `<topic>.quarantine` takes what is no row; without it such a record is an error |
| `cluster` | what origins in the quarantine call the cluster read from; default `offline` |
| `receipts` | folder in which each task leaves what it counted |

The schema is the union of the subject's versions unless `.schema()` gives one. Source: PySpark 4's Python Data Source API.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from ...client.connection.cluster import Cluster
from ...runtime.clock import SystemClock
from ...schema_registry.client.registry_client import RegistryClient
from ...schema_registry.errors import UnknownSchemaId
from ..errors import WarehouseError
from . import task_reports
from .cluster_batches import cluster_batches
from .columns import SYSTEM_COLUMNS
from .decoding import BlockDecoder
from .log_ends import log_ends
from .offset_ranges import OffsetRange, ranges_from_json, split_ranges
from .quarantine import ClusterQuarantine
from .split_reader import PieceReader, Quarantine
from .subject_schemas import event_columns, subject_schemas

DEFAULT_PIECES = 4
DEFAULT_MAX_PIECE_SPAN = 64 << 20


@dataclass(frozen=True)
class Split(InputPartition):
    """One task's range."""

    partition: int
    from_offset: int
    to_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    bootstrap: str
    topic: str
    registry: str
    ranges: str | None
    pieces: int | None
    max_piece_span: int
    quarantine: str | None
    cluster: str
    task_reports: str | None

    @classmethod
    def of(cls, given: dict[str, str]) -> "_Options":
        words = {name.lower(): value for name, value in given.items()}
        missing = [name for name in ("bootstrap", "topic", "registry") if not words.get(name)]
        if missing:
            raise WarehouseError(f"format headrace lacks the option(s) {', '.join(missing)}")
        try:
            return cls(
                bootstrap=words["bootstrap"],
                topic=words["topic"],
                registry=words["registry"],
                ranges=words.get("ranges"),
                pieces=int(words["pieces"]) if "pieces" in words else None,
                max_piece_span=int(words.get("max_piece_span", DEFAULT_MAX_PIECE_SPAN)),
                quarantine=words.get("quarantine"),
                cluster=words.get("cluster", "offline"),
                task_reports=words.get("receipts"),
            )
        except ValueError as error:
            raise WarehouseError(f"format headrace: pieces and max_piece_span are whole numbers: {error}") from error


class TopicDataSource(DataSource):
    """The Data Source `headrace`."""

    @classmethod
    def name(cls) -> str:
        return "headrace"

    def schema(self) -> StructType:
        """Return the union of the subject's versions and the system columns."""
        options = _Options.of(dict(self.options))
        schemas = subject_schemas(RegistryClient(options.registry), options.topic)
        columns = event_columns(pa.schema([]), schemas.values())
        return from_arrow_schema(pa.schema([*columns, *SYSTEM_COLUMNS]))

    def reader(self, schema: StructType) -> DataSourceReader:
        return TopicReader(_Options.of(dict(self.options)), schema)


class TopicReader(DataSourceReader):
    """Plans the pieces on the driver and reads each in a task."""

    def __init__(self, options: _Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return the pieces, at least one: Spark takes none for a source without partitions and calls `read(None)`."""
        options = self._options
        if options.ranges is not None:
            pieces = ranges_from_json(options.ranges)
        else:
            pieces = log_ends(options.bootstrap, options.topic).whole()
        if options.ranges is None or options.pieces is not None:
            pieces = split_ranges(pieces, pieces=options.pieces or DEFAULT_PIECES, max_span=options.max_piece_span)
        found = [Split(partition=one.partition, from_offset=one.from_offset, to_offset=one.to_offset) for one in pieces]
        return list(found) or [Split(partition=0, from_offset=0, to_offset=0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Split)
        options = self._options
        piece = OffsetRange(partition=partition.partition, from_offset=partition.from_offset, to_offset=partition.to_offset)
        target = to_arrow_schema(self._schema, timezone="UTC")
        cluster = Cluster(options.bootstrap, client_id="headrace-load")
        quarantine = ClusterQuarantine(options.quarantine) if options.quarantine else None
        try:
            yield from PieceReader(
                topic=options.topic,
                cluster=options.cluster,
                piece=piece,
                batches=cluster_batches(cluster, options.topic),
                decoder=BlockDecoder(target, piece.partition, _schema_of(RegistryClient(options.registry))),
                quarantine=quarantine,
                on_receipt=_receipt_writer(options.task_reports),
                clock=SystemClock(),
            ).rows()
        finally:
            _close(quarantine)
            cluster.close()


def _schema_of(registry: RegistryClient) -> Callable[[int], str | None]:
    def schema_of(schema_id: int) -> str | None:
        try:
            return registry.schema(schema_id)
        except UnknownSchemaId:
            return None

    return schema_of


def _receipt_writer(folder: str | None) -> Callable[[task_reports.TaskReport], None]:
    return (lambda receipt: None) if folder is None else (lambda receipt: task_reports.write(Path(folder), receipt))


def _close(quarantine: Quarantine | None) -> None:
    if isinstance(quarantine, ClusterQuarantine):
        quarantine.close()
