"""The ways in which an application may hand over its events, each on top of one `EventLogger`.

`typed_events`: a dataclass or TypedDict, its schema derived (`schema_of`); `field_types` has the table of types. `log_records`:
a `logging.Handler`. `asgi`, `wsgi`: one event per HTTP request. `tracing`: OpenTelemetry's trace and span ids. `complaints`: what
goes wrong in a place that must never fail the application.
"""
