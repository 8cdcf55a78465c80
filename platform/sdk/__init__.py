"""Application logging: typed events to a topic, and counts that account for each of them. docs/SDK.md is the manual.

`EventLogger` is the entry point. `event_schema`: schemas with event time and server. `forms/`: events as instances of a class.
`adapters/`: log records and HTTP requests. `testing`: events kept for assertions. Inside, `encoding/` validates and encodes; a
`transport` takes bytes: `direct/` sends them from the process, `journal/` writes them beside it; `lifetime` handles forks and the
end of the process. Imports nothing beyond the light install, and starts nothing.
"""

from ..wire.batch.compression import Codec
from .access_log_schema import ACCESS_LOG_SCHEMA, ACCESS_LOG_TOPIC
from .adapters.asgi import AuditedRequests
from .adapters.log_records import LOG_RECORD_SCHEMA, LOG_RECORD_TOPIC, EventHandler
from .adapters.wsgi import AuditedWsgiRequests
from .errors import (
    EventRefused,
    LoggerClosed,
    LoggerForked,
    LoggerMisconfigured,
    NotSealed,
    SchemaRefused,
    SdkError,
    TopicRefused,
)
from .event_logger import EventLogger
from .event_schema import event_schema, nullable
from .forms.field_types import DecimalDigits
from .forms.typed_events import schema_of
from .journal import JournalSettings
from .lifetime import close_on_signals

__all__ = [
    "ACCESS_LOG_SCHEMA",
    "ACCESS_LOG_TOPIC",
    "LOG_RECORD_SCHEMA",
    "LOG_RECORD_TOPIC",
    "AuditedRequests",
    "AuditedWsgiRequests",
    "Codec",
    "DecimalDigits",
    "EventHandler",
    "EventLogger",
    "EventRefused",
    "JournalSettings",
    "LoggerClosed",
    "LoggerForked",
    "LoggerMisconfigured",
    "NotSealed",
    "SchemaRefused",
    "SdkError",
    "TopicRefused",
    "close_on_signals",
    "event_schema",
    "nullable",
    "schema_of",
]
