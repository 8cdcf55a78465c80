"""What the measures of one run share: rounds, servers (started on first use, one each), scratch folder, what was skipped
and why.
"""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from ..peers import kafka_clients
from ..peers.activemq import ActiveMQ
from ..peers.headrace import Headrace
from ..peers.kafka import Kafka
from ..peers.nats import Nats
from ..peers.peer import Peer
from ..peers.rabbitmq import RabbitMQ
from ..peers.redis import Redis
from .missing import Missing

P = TypeVar("P", bound=Peer)

OURS, BASE, KAFKA, KAFKA_TUNED = "Headrace", "Headrace, base", "Kafka", "Kafka, tuned"
KAFKA_LIKE = (OURS, BASE, KAFKA, KAFKA_TUNED)
"""All that the same C client drives. `BASE` is our broker as another checkout has it."""


def warm_up(server: Kafka, requests: int) -> None:
    """Let a server on a JVM compile what it runs hot: produce in small and in larger batches, consume."""
    topic = "warm-up"
    kafka_clients.make_topic(server, topic)
    kafka_clients.raw_produce(server, topic, batch=1, count=requests, in_flight=500)
    kafka_clients.raw_produce(server, topic, batch=50, count=requests * 5, in_flight=200)
    for _ in range(3):
        kafka_clients.consume(server, topic, requests * 6, 204_800)
    kafka_clients.delete_topic(server, topic)


class Stage:
    """Servers are kept over measures that need them and stopped before one that does not.

    An idle server costs its neighbours little, but not nothing.
    """

    def __init__(self, *, rounds: int, quick: bool, only_ours: bool = False, base: Path | None = None) -> None:
        self.rounds = rounds
        self.quick = quick
        self.folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
        self.skipped: dict[str, str] = {}
        self.versions: dict[str, str] = {}
        self._running: dict[str, Peer] = {}
        self._makers: dict[str, Callable[[Path], Peer]] = {
            OURS: Headrace,
            KAFKA: Kafka,
            KAFKA_TUNED: lambda folder: Kafka(folder, "tuned"),
            Nats.name: Nats,
            Redis.name: Redis,
            RabbitMQ.name: RabbitMQ,
            ActiveMQ.name: lambda folder: ActiveMQ(folder, 20_000 if quick else 600_000),
        }
        if only_ours or base is not None:
            self._makers = {OURS: Headrace}
        if base is not None:
            self._makers[BASE] = lambda folder: Headrace(folder, tree=base.absolute())

    def scaled(self, count: int, least: int = 1) -> int:
        """Return how many of `count` a run of this kind does: a fifth when quick."""
        return max(count // 5, least) if self.quick else count

    def names(self) -> list[str]:
        """Return the peers that this run knows of."""
        return list(self._makers)

    def peer(self, name: str) -> Peer | None:
        """Return the running server of that name, or None when it is not on this machine (then it is in `skipped`)."""
        if name in self._running:
            return self._running[name]
        if name in self.skipped or name not in self._makers:
            return None
        peer = self._makers[name](self.folder / name.replace(" ", "-").replace(",", "").lower())
        if not self.try_start(name, peer):
            return None
        if isinstance(peer, Kafka):
            # Its first hundred thousand requests are the JIT compiler's figure.
            warm_up(peer, 30_000 if self.quick else 200_000)
        return peer

    def kafka_like(self, name: str) -> Headrace | Kafka | None:
        """Return the running server of that name as one that speaks Kafka's protocol; None when it is not on this machine."""
        peer = self.peer(name)
        return peer if isinstance(peer, Headrace | Kafka) else None

    def try_start(self, name: str, peer: Peer) -> bool:
        """Start `peer` and keep it under `name` until `close` or `keep_only`; False and a note when it is not installed."""
        try:
            self.versions[peer.name] = peer.version()
            self._running[name] = peer
            peer.start()
        except Missing as reason:
            self.skipped[name] = str(reason)
            self._running.pop(name, None)
            return False
        except Exception:
            self._running.pop(name, None)
            with suppress(Exception):
                peer.stop()
            raise
        return True

    def skip(self, name: str, reason: str) -> None:
        """Note that something named was not measured, and why."""
        self.skipped[name] = reason

    def keep_only(self, names: set[str]) -> None:
        """Stop every server that is not among `names`, and delete its files."""
        for name in [name for name in self._running if name not in names]:
            peer = self._running.pop(name)
            peer.stop()
            shutil.rmtree(peer.folder, ignore_errors=True)

    def close(self) -> None:
        """Stop everything and delete the scratch folder, whatever happened before."""
        for peer in self._running.values():
            with suppress(Exception):
                peer.stop()
        self._running.clear()
        shutil.rmtree(self.folder, ignore_errors=True)
