"""`python -m tests.integration.reader.killed_member`: one member of a group that stores into a table of its own, slowly at times,
until it is killed, frozen or told to stop. `kill_rounds` starts it.
"""

import random
import sys
import time
from collections.abc import Sequence
from typing import Any

from headrace.reader import EventReader, EventRecord, PostgresPositions, SqlitePositions
from headrace.runtime.logs import configure


def main() -> None:
    topic, group, bootstrap, registry, zookeeper, kind, address, session_timeout_ms = sys.argv[1:]
    configure("member")
    mark = "?" if kind == "sqlite" else "%s"
    insert = f"INSERT INTO stored VALUES ({mark}, {mark}, {mark})"
    positions = SqlitePositions(address) if kind == "sqlite" else PostgresPositions(address)

    def store(batch: Sequence[EventRecord], cursor: Any) -> None:
        _dawdle()
        cursor.executemany(insert, [(one.partition, one.offset, one.event["number"]) for one in batch])
        _dawdle()

    reader = EventReader(
        topic,
        group=group,
        bootstrap=bootstrap,
        registry_url=registry,
        zookeeper=zookeeper or None,
        schema_cache=None,
        flush_every_ms=300,
        session_timeout_ms=int(session_timeout_ms),
    )
    reader.run_batches(store, positions=positions, max_records=50, max_wait_ms=50)


def _dawdle() -> None:
    """Widen the moments at which a kill or a takeover hurts."""
    if random.random() < 0.4:
        time.sleep(random.uniform(0, 0.3))


if __name__ == "__main__":
    main()
