"""The application of `headrace audit drill silence`: logs events, keeps the last one in memory, waits for a line on
its standard input, then sends it and seals.

usage: python -m headrace.local.drills.silent_producer TOPIC EVENT_COUNT EVENT_TIME_MS

Prints `logged INSTANCE` once all events but the last are acknowledged. At a line on its standard input it seals its windows and
ends.
"""

import sys

from ...runtime import logs
from ...runtime.layout import Layout
from ...sdk import ACCESS_LOG_SCHEMA, EventLogger

HELD_MS = 600_000
"""How long the last event waits in memory for others, unless the logger is closed."""


def main(topic: str, event_count: int, event_time_ms: int) -> None:
    """Log `event_count` events with one event time, and wait."""
    logs.configure("held-back", "WARNING")
    layout = Layout.from_environment()
    # The audit has acknowledged that this producer may hold events of the window. It may until the last one is reported.
    with EventLogger(
        topic,
        ACCESS_LOG_SCHEMA,
        bootstrap=layout.live_bootstrap,
        registry_url=layout.registry_url,
        application="drill-silence",
        lateness_ms=None,
        start_timeout_ms=30_000,
        linger_ms=HELD_MS,
        delivery_timeout_ms=2 * HELD_MS,
    ) as logger:
        for number in range(event_count):
            event = {"client_ip": "127.0.0.1", "method": "GET", "path": f"/drill/{number}", "status": 200}
            if number == event_count - 1:
                logger.flush()
            logger.log(event, event_time_ms=event_time_ms)
        sys.stdout.write(f"logged {logger.instance}\n")
        sys.stdout.flush()
        sys.stdin.readline()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
