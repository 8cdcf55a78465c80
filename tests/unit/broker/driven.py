"""A broker driven turn by turn on the test's thread, and its clients. Real connections and logs; ZooKeeper is simulated."""

import socket
from collections.abc import Mapping
from pathlib import Path

from headrace.broker.network.connection import Connection
from headrace.broker.network.peer import Peer as Address
from tests.support.serving_broker import ServingBroker

MOST_TURNS = 1_000


class DrivenBroker(ServingBroker):
    """A broker that acts only in `turn`. The jobs of its workers do not run."""

    def turn(self) -> None:
        """Run one turn of the loop."""
        self.loop._turn(self.loop._poller.poll(0, 512))

    def files(self) -> dict[str, bytes]:
        """Return the bytes of the logs' files by name."""
        folder = self.settings.data
        return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.log"))}

    def close(self) -> None:
        self.server.close()
        self.loop.close()
        for partition in self.table:
            partition.log.close()


class Peer:
    """A client of a driven broker."""

    def __init__(self, broker: DrivenBroker) -> None:
        self._broker = broker
        ours, self._socket = socket.socketpair()
        ours.setblocking(False)
        self._socket.setblocking(False)
        self.connection = Connection(ours, Address("pair", "PLAINTEXT"), broker.server)
        self.connection.start()
        self.answers = bytearray()
        """All responses so far."""

    def send(self, data: bytes) -> None:
        """Send `data`, unless the connection is closed, and run one turn; keep the responses."""
        if not self.connection.is_closed:
            assert self._socket.send(data) == len(data)
            self._broker.turn()
            self.read()

    def read(self) -> None:
        try:
            while more := self._socket.recv(1 << 16):
                self.answers += more
        except (BlockingIOError, ConnectionError):
            pass

    def finish(self) -> None:
        """Close the sending side and collect the pending responses. On a slow machine the broker needs more turns for them."""
        self._socket.shutdown(socket.SHUT_WR)
        for _ in range(MOST_TURNS):
            self._broker.turn()
            self.read()
            if self.connection.is_closed:
                break

    def close(self) -> None:
        self._socket.close()


Topics = Mapping[str, int | tuple[int, dict[str, str]]]


def driven(folder: Path, topics: Topics, settings: Mapping[str, object] | None = None) -> tuple[DrivenBroker, Peer]:
    """Return a broker with these topics, and a first client."""
    broker = DrivenBroker(folder, topics=topics, settings=settings)
    return broker, Peer(broker)
