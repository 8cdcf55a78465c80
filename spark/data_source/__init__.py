"""The format `headrace`: a topic's records as a DataFrame or a stream. `spark.dataSource.register(TopicDataSource)`."""

from .data_source import TopicDataSource

__all__ = ["TopicDataSource"]
