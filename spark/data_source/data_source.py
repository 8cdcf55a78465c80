"""`spark.read` and `spark.readStream.format("headrace")`: a topic's records as a DataFrame or a stream.

Works on any Kafka-wire cluster.

    spark.dataSource.register(TopicDataSource)
    words = {"bootstrap": "127.0.0.1:9192", "topic": "clicks", "registry": url}
    spark.read.format("headrace").options(**words).load()

`docs/SPARK_SOURCE.md` has the options. The schema is the union of the subject's versions as they are at the start, unless
`.schema()` or the option `columns` names the columns. Source: PySpark 4's Python Data Source API.
"""

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from ...schema_registry.client.registry_client import RegistryClient
from ..source.subject_schemas import event_columns, subject_schemas
from .batch_reader import FilteringReader, TopicReader
from .layout import columns_of
from .options import LISTED, RAW, Options
from .stream_reader import TopicStreamReader
from .topic_rows import TopicRows


class TopicDataSource(DataSource):
    """The Data Source `headrace`. Spark makes it, asks its schema unless the user gives one, and carries it, pickled, along."""

    _is_own_schema = False
    _raw_names: frozenset[str] = frozenset()

    @classmethod
    def name(cls) -> str:
        return "headrace"

    def schema(self) -> StructType:
        """Return the columns that the options ask for."""
        # Whether this is a batch or a stream, Spark does not say here: the reader looks at what only one of them has.
        options = Options.of(dict(self.options), is_stream=None)
        events = pa.schema([])
        if options.form != RAW:
            events = event_columns(events, subject_schemas(RegistryClient(options.registry), options.topic).values())
        columns, raw_names = columns_of(options, events)
        self._is_own_schema, self._raw_names = True, raw_names
        return from_arrow_schema(columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = Options.of(dict(self.options), is_stream=False)
        return (FilteringReader if options.pushes_filters else TopicReader)(self._rows(options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return TopicStreamReader(self._rows(Options.of(dict(self.options), is_stream=True), schema))

    def _rows(self, options: Options, schema: StructType) -> TopicRows:
        return TopicRows(
            options=options,
            target=to_arrow_schema(schema, timezone="UTC"),
            raw_names=self._raw_names,
            is_chosen=not self._is_own_schema or options.form == LISTED,
        )
