"""One request to a web server, as an event: the middleware's and the replay's common schema. Pure.

Method, path and protocol may be missing: what port scanners send is a line in the log and no request.
"""

from .event_schema import event_schema, nullable

ACCESS_LOG_TOPIC = "access_log"

ACCESS_LOG_SCHEMA = event_schema(
    "AccessLog",
    [
        {"name": "client_ip", "type": "string"},
        nullable("ident", "string"),
        nullable("user", "string"),
        nullable("method", "string"),
        nullable("path", "string"),
        nullable("protocol", "string"),
        {"name": "status", "type": "int"},
        nullable("size_bytes", "long"),
        nullable("referrer", "string"),
        nullable("user_agent", "string"),
    ],
    doc="One request to a web server.",
)
