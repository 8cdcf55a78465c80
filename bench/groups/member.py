"""`python -m bench.groups.member BOOTSTRAP ZOOKEEPER TOPIC SESSION_MS JOURNAL NAME…`: members of the group, until standard input
ends. Each has a stream, and a thread that writes what it gets to the journal.
"""

import itertools
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

sys.modules["hypothesis"] = None  # type: ignore[assignment]  # as installed: kio imports it where it finds it, for half a second

from headrace.client.fetch.fetched import TopicPartition  # noqa: E402
from headrace.client.streams import Callbacks, ConnectorSettings, ConsumerConnector  # noqa: E402
from tests.support.hand_outs import Journal  # noqa: E402

GROUP = "measured"


class Member:
    """A connector with one stream; each time that it takes a partition over is a turn of its own."""

    turns = itertools.count(1)

    def __init__(self, bootstrap: str, zookeeper: str, name: str, settings: ConnectorSettings, journal: Journal) -> None:
        self._name, self._journal = name, journal
        self._turn: dict[int, int] = {}
        callbacks = Callbacks(on_assigned=self._assigned)
        self._connector = ConsumerConnector(bootstrap, zookeeper, GROUP, consumer_id=name, settings=settings, callbacks=callbacks)

    def read(self, topic: str) -> None:
        (stream,) = self._connector.create_message_streams({topic: 1}, timeout_ms=120_000)[topic]
        for message in stream:
            at = message.partition
            self._journal.write(self._name, self._turn[at], at, message.offset, message.value or b"")

    def _assigned(self, taken: Mapping[TopicPartition, int]) -> None:
        self._turn.update({one.partition: next(self.turns) for one in taken})


def main() -> None:
    bootstrap, zookeeper, topic, session_ms, path, *names = sys.argv[1:]
    settings = ConnectorSettings(session_timeout_ms=int(session_ms), queue_bytes=1 << 20)
    journal = Journal(Path(path))
    for name in names:
        member = Member(bootstrap, zookeeper, name, settings, journal)
        threading.Thread(target=member.read, args=(topic,), daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
