"""Application logging: typed events to a topic, and counts that account for each of them.

`EventLogger` is the entry point. `event_schema`: schemas with event time and server. `AuditedRequests`: one event per HTTP
request (ASGI). Inside, `event_encoder` validates and encodes, `pre_schema_buffer` holds events until the schema's id is known,
`logger_startup` connects and reports, `open_windows` knows the events in flight, `quarantine` sends refused events. Imports
nothing beyond the light install.
"""

from .access_log_schema import ACCESS_LOG_SCHEMA, ACCESS_LOG_TOPIC
from .errors import EventRefused, LoggerClosed, LoggerForked, NotSealed, SchemaRefused, SdkError, TopicRefused
from .event_logger import EventLogger
from .event_schema import event_schema, nullable
from .middleware import AuditedRequests

__all__ = [
    "ACCESS_LOG_SCHEMA",
    "ACCESS_LOG_TOPIC",
    "AuditedRequests",
    "EventLogger",
    "EventRefused",
    "LoggerClosed",
    "LoggerForked",
    "NotSealed",
    "SchemaRefused",
    "SdkError",
    "TopicRefused",
    "event_schema",
    "nullable",
]
