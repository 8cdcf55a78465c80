"""An application under any version's SDK: logs numbered events until SIGTERM, then writes how many, and what was lost by name.

Run by its path, with one JSON object as its argument, so that it imports the SDK and nothing else of ours.
"""

import json
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from headrace.sdk import EventLogger, event_schema

SCHEMA = event_schema("Order", [{"name": "number", "type": "long"}, {"name": "application", "type": "string"}])


def main(topic: str, application: str, event_time_ms: int, said: str, **where: Any) -> None:
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    if "journal" in where:
        where["journal"] = Path(where["journal"])
    number = 0
    with EventLogger(topic, SCHEMA, application=application, **where) as logger:
        while True:
            for _ in range(5):
                assert logger.log({"event_time": event_time_ms + number, "number": number, "application": application})
                number += 1
            if is_over.wait(0.05):
                break
    Path(said).write_text(json.dumps({"logged": number, "dropped": dict(logger.ledger().dropped)}))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
