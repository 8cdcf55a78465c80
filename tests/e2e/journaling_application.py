"""An application that journals requests until it is killed: `python -m tests.e2e.journaling_application ROOT TOPIC FILE`.

Each request has a path of its own, `/journaled/<number>`. Before and after each call of `log` it writes a line to FILE with
write(2): so its parent knows what was attempted (?) and what was taken (+).
"""

import os
import sys
import time
from itertools import count
from pathlib import Path

from headrace.sdk import ACCESS_LOG_SCHEMA, EventLogger

AGE_MS = 60 * 60_000
"""Its window is over for long, and its hour may be published."""


def main(root: Path, topic: str, file: Path) -> None:
    logger = EventLogger(topic, ACCESS_LOG_SCHEMA, application="shop", journal=root)
    said = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in count():
        os.write(said, b"? %d\n" % number)
        event = {"client_ip": "10.0.0.1", "path": f"/journaled/{number}", "status": 200}
        if logger.log(event, event_time_ms=time.time_ns() // 1_000_000 - AGE_MS):
            os.write(said, b"+ %d\n" % number)
        time.sleep(0.001)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
