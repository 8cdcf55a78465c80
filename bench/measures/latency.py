"""Time from a message's due time in the producer to its arrival in the consumer, at 10,000 messages a second.

Producer and consumer are one process with one clock. The same client against a minimal broker in C shows the client's own part.
"""

import tempfile
from contextlib import contextmanager
from pathlib import Path

from ..drivers.build import built
from ..drivers.run import Driven
from ..harness.child import Child, free_port
from ..harness.measure import Case, CaseStream, Figures
from ..harness.servers import Servers
from ..peers import kafka_clients
from ..peers.kafka_clients import SpeaksKafka
from ..peers.makers import kafka_like
from ..peers.subjects import KAFKA_LIKE

PER_S = 10_000
SHAPE = "10,000 a second"
BARE = "bare broker"


class Latency:
    """Percentiles in milliseconds."""

    name = "latency"
    title = "Latency from producing to consuming at 10,000 messages a second"
    needs = frozenset(KAFKA_LIKE)
    warm_ups = 1
    at_most = 99

    @contextmanager
    def cases(self, servers: Servers) -> CaseStream:
        seconds = 2 if servers.quick else 5
        running = kafka_like(servers, KAFKA_LIKE)
        yield [*(_case(name, server, seconds) for name, server in running.items()), _bare(seconds)]


def _case(name: str, server: SpeaksKafka, seconds: int) -> Case:
    def run(turn: int) -> Figures:
        topic = f"latency-{turn}"
        kafka_clients.make_topic(server, topic)
        driven = kafka_clients.send_and_read(server.bootstrap, server.pids, topic, PER_S, seconds)
        kafka_clients.delete_topic(server, topic)
        return _figures(driven)

    return Case(subject=name, shape=SHAPE, run=run, how="librdkafka, C, linger.ms=0, acks=1; one producer and one consumer")


def _bare(seconds: int) -> Case:
    def run(turn: int) -> Figures:
        with tempfile.TemporaryDirectory() as folder:
            port = free_port()
            server = Child([str(built("bare_broker")), str(port)], Path(folder) / "log", port=port).start()
            try:
                return _figures(kafka_clients.send_and_read(f"127.0.0.1:{port}", [server.pid], f"latency-{turn}", PER_S, seconds))
            finally:
                server.kill()

    how = "the same client, and a broker in C with one partition in memory: the least that this client allows"
    return Case(subject=BARE, shape=SHAPE, run=run, how=how)


def _figures(driven: Driven) -> Figures:
    percentiles = {name: float(driven.more[name]) for name in ("p50_ms", "p99_ms", "p999_ms", "max_ms")}
    return {**percentiles, "server_busy": driven.server_cpu_s / driven.seconds}
