"""Logs as events with fields: one JSON object (or one plain line) each on stderr, one per notable fact, never one per record.

log = get_logger(__name__)
log.info("segment_rolled", topic="clicks", partition=0, base_offset=1048576)
"""

import json
import logging
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any


class _Worded:
    """An event and its fields as one message, for a handler that is not ours and prints only messages."""

    __slots__ = ("event", "fields")

    def __init__(self, event: str, fields: Mapping[str, Any]) -> None:
        self.event = event
        self.fields = fields

    def __str__(self) -> str:
        return self.event + "".join(f" {name}={_on_one_line(value)}" for name, value in self.fields.items())


def _event_of(record: logging.LogRecord) -> str:
    return record.msg.event if isinstance(record.msg, _Worded) else record.getMessage()


class _JsonLines(logging.Formatter):
    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "at": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "process": self._process,
            "logger": record.name,
            "event": _event_of(record),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class _PlainLines(logging.Formatter):
    """For people at a terminal: the same facts in the same order."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(record.created))
        told = _Worded(_event_of(record), getattr(record, "fields", {}))
        line = f"{at}.{int(record.msecs):03d}Z {record.levelname:<7} {self._process} {told}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _on_one_line(value: object) -> str:
    """Return the value without line ends or escape codes: a name from outside must not write lines of its own."""
    words = str(value)
    return words if words.isprintable() else repr(words)


class _Seldom(logging.Filter):
    """Passes each wording of a library's warnings at most once in `EVERY_S`. kazoo warns at every attempt to connect, one or two
    a second, while ZooKeeper is away. After `MOST` wordings the filter forgets all of them."""

    EVERY_S = 60.0
    MOST = 1_000

    def __init__(self, logger: str) -> None:
        super().__init__(logger)
        self._next_s: dict[object, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not super().filter(record):
            return True  # not of this library
        if record.created < self._next_s.get(record.msg, 0.0):
            return False
        if len(self._next_s) >= self.MOST:
            self._next_s.clear()
        self._next_s[record.msg] = record.created + self.EVERY_S
        return True


class EventLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose keyword arguments become fields of the line."""

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        exc_info = kwargs.pop("exc_info", None)
        return msg, {"extra": {"fields": kwargs}, "exc_info": exc_info}


class LibraryLogger(EventLogger):
    """The event logger of modules that applications import. Their handlers, and Python's default one, print only the message, so
    the message holds the fields too. Our own handler prints it like any other event.
    """

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        event, passed_on = super().process(msg, kwargs)
        return _Worded(event, passed_on["extra"]["fields"]), passed_on


def get_library_logger(name: str) -> LibraryLogger:
    """Return the event logger of a module that runs inside applications."""
    return LibraryLogger(logging.getLogger(name), {})


def get_logger(name: str) -> EventLogger:
    """Return the event logger of a module. It prints nothing before `configure`, or the application, adds a handler."""
    return EventLogger(logging.getLogger(name), {})


def configure(process: str, level: str = "INFO", form: str = "json") -> None:
    """Send this process's events of at least `level` to stderr; `form` is `json` or `text`. The composition root calls this
    once.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_PlainLines(process) if form == "text" else _JsonLines(process))
    handler.addFilter(_Seldom("kazoo"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for chatty in ("kazoo", "uvicorn.access", "py4j", "httpx"):
        logging.getLogger(chatty).setLevel("WARNING")


def log_thread_faults() -> None:
    """Log a thread's unhandled exception as one event, instead of Python's own traceback."""

    def tell(fault: threading.ExceptHookArgs) -> None:
        name = None if fault.thread is None else fault.thread.name
        told = (fault.exc_type, fault.exc_value or fault.exc_type(), fault.exc_traceback)
        get_logger(__name__).error("thread_ended", thread=name, why=repr(fault.exc_value), exc_info=told)

    threading.excepthook = tell
