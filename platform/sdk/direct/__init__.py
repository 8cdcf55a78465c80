"""Sends a logger's events from its process: `DirectTransport`.

`pre_schema_buffer` holds events until the schema's id is known, `logger_startup` connects and reports, `deferred` keeps what a
signal handler logs inside the logger, `promises` keeps the held windows, `quarantine` sends refused events, `refusals` and
`topic_times` say why a logger cannot start, `outage` when an outage is logged.
"""

from .promises import MOST_WAIT_MS
from .settings import DirectSettings
from .transport import DirectTransport

__all__ = ["MOST_WAIT_MS", "DirectSettings", "DirectTransport"]
