"""How an application describes its events.

`typed_events`: a dataclass or TypedDict, its schema derived (`schema_of`); `field_types` has the table of types. `tracing`:
OpenTelemetry's trace and span ids.
"""
