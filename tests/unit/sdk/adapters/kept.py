"""A logger for tests of forms: encodes as the real one does, and keeps the events."""

from collections.abc import Mapping
from typing import Any

from headrace.sdk.encoding import EventEncoder


class KeptEvents:
    """Takes what a form logs, and encodes it as `EventLogger` does. `error` is raised instead, if given."""

    def __init__(self, schema: Any, topic: str = "events", error: Exception | None = None) -> None:
        self.topic = topic
        self.events: list[dict[str, Any]] = []
        self.error = error
        self._encoder = EventEncoder(schema, "s")

    def log(self, event: Mapping[str, Any], *, event_time_ms: int, max_block_ms: int) -> bool:
        assert max_block_ms == 0, "the application is never held up"
        if self.error is not None:
            raise self.error
        self._encoder.encode(event, event_time_ms)
        self.events.append({**event, "event_time": event_time_ms})
        return True
