"""An application that journals numbered events; `ROOT TOPIC INSTANCE FIRST COUNT FILE` are its arguments.

Before and after each call it writes a line to FILE: so its parent knows what was attempted and what was taken, whenever it is
killed. COUNT 0: until it is killed. It closes its journal at the end.
"""

import os
import sys
import time
from itertools import count, islice
from pathlib import Path

from headrace.sdk import EventLogger, event_schema
from headrace.sdk.journal import JournalSettings

AGE_MS = 30 * 60_000
"""Their window is over for long: the audit can decide it while the test looks on."""
SCHEMA = event_schema("Numbered", [{"name": "number", "type": "long"}])


def main(root: Path, topic: str, instance: str, first: int, most: int, file: Path) -> None:
    journal = JournalSettings(root=root, segment_bytes=64 << 10, quota_bytes=64 << 20)
    logger = EventLogger(topic, SCHEMA, application="app", instance=instance, server_name="host", journal=journal)
    said = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in islice(count(first), most or None):
        os.write(said, b"? %d\n" % number)
        if logger.log({"number": number}, event_time_ms=time.time_ns() // 1_000_000 - AGE_MS):
            os.write(said, b"+ %d\n" % number)
        if not number % 50:
            time.sleep(0.005)
    logger.close()


if __name__ == "__main__":
    root_, topic_, instance_, first_, most_, file_ = sys.argv[1:]
    main(Path(root_), topic_, instance_, int(first_), int(most_), Path(file_))
