"""Application logging: typed events to a topic, and books that say what became of each.

`EventLogger` the door · `event_schema` schemas with event time and server · `AuditedRequests` one event per HTTP request
(ASGI). Inside: `event_encoder` validates and encodes, `early_events` waits for the schema's id, `keeper` comes up and reports,
`open_windows` knows what is under way, `quarantine` what was refused. Imports nothing beyond the light install.
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
