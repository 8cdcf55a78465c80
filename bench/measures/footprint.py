"""Start to the first accepted produce; memory when idle, and with 1,000 partitions under load."""

import time
import urllib.request
from contextlib import contextmanager

from ..harness.measure import Case, CaseStream, Figures
from ..harness.proc_meters import rss_mb
from ..harness.servers import Servers
from ..peers import kafka_clients
from ..peers.headrace import Headrace
from ..peers.kafka import Kafka
from .driver_figures import figures_of
from .first_produce import seconds_until_accepted

START = "start to first accepted produce"
LOADED = "1,000 partitions under load"
_PARTITIONS = 1000


class Footprint:
    """Seconds and MB (10^6 bytes, resident)."""

    name = "footprint"
    title = "Start and memory"
    needs: frozenset[str] = frozenset()
    warm_ups = 0
    at_most = 5

    @contextmanager
    def cases(self, servers: Servers) -> CaseStream:
        found: list[Case] = []
        for server in (Headrace(servers.folder / "start-ours"), Kafka(servers.folder / "start-kafka")):
            if servers.try_start(f"{server.name}, start", server):
                kafka_clients.make_topic(server, "small")
                found.append(_start(server))
        for server in (Headrace(servers.folder / "wide-ours"), Kafka(servers.folder / "wide-kafka")):
            if servers.try_start(f"{server.name}, wide", server):
                kafka_clients.make_topic(server, "wide", _PARTITIONS)
                found.append(_loaded(server, servers.scaled(1_500_000)))
        yield found
        servers.keep_only(set())


def _start(server: Headrace | Kafka) -> Case:
    def run(_: int) -> Figures:
        server.broker.stop(60)
        took = seconds_until_accepted(server, "small")
        time.sleep(1.0)
        if isinstance(server, Headrace):
            for path in ("metrics", "healthz", "readyz"):
                urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/{path}", timeout=10).read()
        figures = {"seconds": took, "rss_mb": rss_mb([server.broker.pid])}
        if isinstance(server, Headrace):
            figures["zookeeper_rss_mb"] = rss_mb([server.zookeeper.pid])
        return figures

    how = "launched on a folder with one small topic, until one message is answered; memory a second later, metrics asked once"
    return Case(subject=server.name, shape=START, run=run, how=how)


def _loaded(server: Headrace | Kafka, count: int) -> Case:
    def run(_: int) -> Figures:
        driven = kafka_clients.raw_produce(server, "wide", batch=50, count=count, in_flight=200, partitions=_PARTITIONS)
        return {**figures_of(driven), "rss_mb": rss_mb([server.broker.pid])}

    return Case(subject=server.name, shape=LOADED, run=run, how="raw client, 50 a batch, to each partition in turn")
