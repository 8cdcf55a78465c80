"""`spark.read.format("headrace")`: a topic's records as a DataFrame, read in parallel offset ranges.

Works on any Kafka-wire cluster.

    spark.dataSource.register(TopicDataSource)
    spark.read.format("headrace").option("bootstrap", "127.0.0.1:9192").option("topic", "clicks").option("registry", url).load()

| option | |
|---|---|
| `bootstrap`, `topic`, `registry` | the cluster, the topic, and the registry of the writers' schemas |
| `ranges` | `[[partition, from, to], ...]`, one task each; default: all that the log holds now |
| `pieces`, `max_piece_span` | about how many splits (tasks), and the most offsets of one (bytes, in a byte-addressed log) |
| `quarantine` | bootstrap of the cluster with `<topic>.quarantine`, for records that are no row; without it they are an error |
| `client_config` | path of the properties files (TLS, SASL) on each executor, `:` between; default: `HEADRACE_CLIENT_CONFIG` |
| `cluster` | name of the source cluster in the quarantine's origins; default `offline` |

The schema is the union of the subject's versions unless `.schema()` gives one. Source: PySpark 4's Python Data Source API.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from ...schema_registry.client.registry_client import RegistryClient
from ..errors import WarehouseError
from .columns import SYSTEM_COLUMNS
from .log_density import bytes_per_offset
from .log_ends import log_ends
from .offset_ranges import OffsetRange, ranges_from_json, split_ranges
from .split_source import SplitSource
from .subject_schemas import event_columns, subject_schemas

DEFAULT_SPLITS = 4
DEFAULT_MAX_SPLIT_SPAN = 64 << 20


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
    splits: int | None
    max_split_span: int
    quarantine: str | None
    client_config: str | None
    cluster: str

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
                splits=int(words["pieces"]) if "pieces" in words else None,
                max_split_span=int(words.get("max_piece_span", DEFAULT_MAX_SPLIT_SPAN)),
                quarantine=words.get("quarantine"),
                client_config=words.get("client_config"),
                cluster=words.get("cluster", "offline"),
            )
        except ValueError as error:
            raise WarehouseError(f"format headrace: pieces and max_piece_span are whole numbers: {error}") from error

    @property
    def source(self) -> SplitSource:
        return SplitSource(
            bootstrap=self.bootstrap,
            topic=self.topic,
            registry=self.registry,
            quarantine=self.quarantine,
            client_config=self.client_config,
            cluster=self.cluster,
        )


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
    """Plans the splits on the driver and reads each one in a task."""

    def __init__(self, options: _Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return the splits, at least one: for a source without partitions Spark calls `read(None)`."""
        options = self._options
        if options.ranges is not None:
            splits = ranges_from_json(options.ranges)
        else:
            splits = log_ends(options.bootstrap, options.topic, options.client_config).whole()
        if options.ranges is None or options.splits is not None:
            density = bytes_per_offset(options.bootstrap, options.topic, splits, options.client_config)
            wanted = options.splits or DEFAULT_SPLITS
            splits = split_ranges(splits, splits=wanted, max_span=options.max_split_span, bytes_per_offset=density)
        found = [Split(partition=one.partition, from_offset=one.from_offset, to_offset=one.to_offset) for one in splits]
        return list(found) or [Split(partition=0, from_offset=0, to_offset=0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Split)
        split = OffsetRange(partition=partition.partition, from_offset=partition.from_offset, to_offset=partition.to_offset)
        target = to_arrow_schema(self._schema, timezone="UTC")
        yield from self._options.source.rows(split, target, on_report=lambda report: None, wants_digest=False)
