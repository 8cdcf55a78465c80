"""Python's own logging as events: `EventHandler` turns each `LogRecord` into an event of `LOG_RECORD_SCHEMA`.

It never raises into the application, never waits for the network unless you allow it, and never loops into itself: what the
SDK itself logs while it takes, sends or reports events is not an event. Source: `logging.Handler`.
"""

import logging
from collections.abc import Iterator
from contextvars import ContextVar
from itertools import islice
from typing import Any

from ..event_logger import EventLogger
from ..event_schema import event_schema, nullable
from .complaints import Complaints

LOG_RECORD_TOPIC = "log_records"

LOG_RECORD_SCHEMA = event_schema(
    "LogRecord",
    [
        {"name": "level", "type": "string"},
        {"name": "level_number", "type": "int"},
        {"name": "logger", "type": "string"},
        {"name": "message", "type": "string"},
        nullable("exception", "string"),
        {"name": "file", "type": "string"},
        {"name": "line", "type": "int"},
        nullable("function", "string"),
        nullable("thread", "string"),
        {"name": "process", "type": "int"},
        {"name": "extra", "type": {"type": "map", "values": "string"}, "default": {}},
    ],
    doc="One call of Python's logging.",
    tracing=True,
)

OWN_LOGGERS = "headrace"
OWN_THREADS = "headrace-"
LONGEST_TEXT = 32_768
"""Characters of a message or traceback; what is over is cut, and its number written at the end."""
MOST_EXTRA = 64
"""Extra fields of one record."""
_STANDARD = frozenset((*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"))
_is_emitting: ContextVar[bool] = ContextVar("headrace_is_emitting", default=False)
_formatter = logging.Formatter()


class EventHandler(logging.Handler):
    """`logging.getLogger().addHandler(EventHandler(logger))`, with an `EventLogger` of `LOG_RECORD_SCHEMA`.

    The event time is the record's. An event that finds no room within `max_block_ms` is dropped and counted.
    The application closes the `EventLogger`; the handler's own `close` leaves it open.
    """

    def __init__(self, logger: EventLogger, level: int | str = logging.NOTSET, *, max_block_ms: int = 0) -> None:
        super().__init__(level)
        self._logger = logger
        self._max_block_ms = max_block_ms
        self._complaints = Complaints("record_not_logged", logger.topic)

    def handle(self, record: logging.LogRecord) -> Any:
        """Emit the record if the filters pass it. Takes no lock: `EventLogger` needs none, and a signal's handler may log."""
        passed = self.filter(record)
        if isinstance(passed, logging.LogRecord):
            record = passed
        if passed:
            self.emit(record)
        return passed

    def emit(self, record: logging.LogRecord) -> None:
        """Hand the record over as an event; what goes wrong is logged once in a while."""
        if _is_emitting.get() or _is_own(record):
            return
        token = _is_emitting.set(True)
        try:
            created_ms = int(record.created * 1000)
            self._logger.log(log_event(record), event_time_ms=created_ms, max_block_ms=self._max_block_ms)
        except Exception as error:
            self._complaints.tell(error)
        finally:
            _is_emitting.reset(token)


def log_event(record: logging.LogRecord) -> dict[str, Any]:
    """Return the event of a log record. Whatever its arguments are, it fits the schema."""
    return {
        "level": record.levelname,
        "level_number": record.levelno,
        "logger": _text(record.name),
        "message": _text(_message_of(record)),
        "exception": _text(_traceback_of(record)),
        "file": _text(record.pathname),
        "line": record.lineno,
        "function": _text(record.funcName),
        "thread": _text(record.threadName),
        "process": record.process or 0,
        "extra": dict(islice(_extra_of(record), MOST_EXTRA)),
    }


def _is_own(record: logging.LogRecord) -> bool:
    name, thread = record.name, record.threadName
    return (name.startswith(OWN_LOGGERS) and (name == OWN_LOGGERS or name[len(OWN_LOGGERS)] == ".")) or (
        thread is not None and thread.startswith(OWN_THREADS)
    )


def _message_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        # As many arguments as placeholders are not given: the record's parts say more than no event.
        return f"{_rendered(record.msg)} {_rendered(record.args)}"


def _traceback_of(record: logging.LogRecord) -> str | None:
    parts = []
    if record.exc_info and record.exc_info[0] is not None:
        try:
            parts.append(record.exc_text or _formatter.formatException(record.exc_info))
        except Exception:
            parts.append(_rendered(record.exc_info[0]))
    if record.stack_info:
        parts.append(record.stack_info)
    return "\n".join(parts) or None


def _extra_of(record: logging.LogRecord) -> Iterator[tuple[str, str]]:
    for name, value in record.__dict__.items():
        if name not in _STANDARD:
            yield _text(str(name)), _text(value if isinstance(value, str) else _rendered(value))


def _rendered(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _text(value: str | None) -> Any:
    """Return the text, not too long, and such that UTF-8 can hold it."""
    if value is None:
        return None
    if len(value) > LONGEST_TEXT:
        value = f"{value[:LONGEST_TEXT]}… ({len(value) - LONGEST_TEXT} more characters)"
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
