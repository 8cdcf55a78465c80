"""The cost of more partitions, more connections, a longer log. The same raw client, 50 messages a batch, at both ends.

For partitions and for the log each end has a broker of its own. At both ends of 'connections' each connection has one request
in flight. The long log is sparse (`sparse_log.py`), appended to and fetched from at its end. Beside the partitions a C program
writes to as many files.
"""

import shutil
from contextlib import contextmanager

from ..drivers.build import built
from ..drivers.run import drive
from ..harness.measure import Case, CaseStream, Figures
from ..harness.proc_meters import rss_mb
from ..harness.servers import Servers
from ..peers import kafka_clients
from ..peers.headrace import Headrace
from . import sparse_log
from .driver_figures import figures_of

FILES = "bare files"
PARTITIONS = ("10 partitions", "10,000 partitions")
CONNECTIONS = ("10 connections", "5,000 connections")
LOG = ("1 MB of log", "100 GB of log")
LOG_FETCH = ("1 MB of log, fetching", "100 GB of log, fetching")
_FAR_BYTES = 100 << 30
_BATCH = 50
_BATCH_BYTES = 10_511
"""Of 50 messages of 200 bytes, in a log."""


class Growth:
    """Messages a second at the near and at the far end."""

    name = "growth"
    title = "Cost as it grows"
    needs: frozenset[str] = frozenset()
    warm_ups = 1
    at_most = 5

    @contextmanager
    def cases(self, servers: Servers) -> CaseStream:
        found: list[Case] = []
        for shape, partitions in zip(PARTITIONS, (10, 10_000), strict=True):
            server = _started(servers, f"grow-{partitions}")
            kafka_clients.make_topic(server, "grow", partitions)
            # The first batch of a partition opens its files, once: throughput does not include that.
            kafka_clients.raw_produce(server, "grow", batch=50, count=50 * partitions, in_flight=200, partitions=partitions)
            found.append(_spread(server, shape, servers.scaled(2_000_000, 500_000), partitions))
        for shape, files in zip(PARTITIONS, (10, 10_000), strict=True):
            found.append(_written(servers, shape, servers.scaled(2_000_000, 500_000), files))
        small = _started(servers, "grow-small")
        kafka_clients.make_topic(small, "many", 10)
        for shape, connections in zip(CONNECTIONS, (10, 5_000), strict=True):
            found.append(_connected(small, shape, servers.scaled(2_000_000, 750_000), connections))
        kafka_clients.make_topic(small, "log")
        kafka_clients.raw_produce(small, "log", batch=50, count=5_000, in_flight=10)
        long = _started(servers, "grow-long")
        kafka_clients.make_topic(long, "log")
        kafka_clients.raw_produce(long, "log", batch=50, count=50, in_flight=1)
        end = _lengthen(long, _FAR_BYTES // (10 if servers.quick else 1))
        if servers.quick:
            shapes, fetches = ([shape.replace("100 GB", "10 GB") for shape in both] for both in (LOG, LOG_FETCH))
        else:
            shapes, fetches = list(LOG), list(LOG_FETCH)
        for shape, fetch_shape, server, start in zip(shapes, fetches, (small, long), (0, end), strict=True):
            appended = _appended(server, shape, servers.scaled(1_500_000))
            appended.run(0)  # so that there is something to fetch at the long log's end, whichever case runs first
            found.append(appended)
            found.append(_fetched(server, fetch_shape, 0.5 if servers.quick else 1.0, start))
        yield found
        servers.keep_only(set())
        shutil.rmtree(long.folder, ignore_errors=True)


def _started(servers: Servers, name: str) -> Headrace:
    server = Headrace(servers.folder / name)
    servers.try_start(name, server)
    return server


def _lengthen(server: Headrace, total_bytes: int) -> int:
    """Return the offset at which appended messages will begin."""
    folder = server.partition_folder("log")
    template = next(folder.glob("*.log")).read_bytes()
    server.broker.stop()
    end = sparse_log.write(folder, template, total_bytes)
    server.start_broker(within_s=600)
    return end


def _spread(server: Headrace, shape: str, count: int, partitions: int) -> Case:
    def run(_: int) -> Figures:
        driven = kafka_clients.raw_produce(server, "grow", batch=50, count=count, in_flight=200, partitions=partitions)
        return {**figures_of(driven), "rss_mb": rss_mb([server.broker.pid])}

    return Case(
        subject=server.name, shape=shape, run=run, how="one connection, 200 requests in flight, each to the next partition"
    )


def _written(servers: Servers, shape: str, count: int, files: int) -> Case:
    def run(_: int) -> Figures:
        folder = servers.folder / "bare-append"
        folder.mkdir()
        try:
            words = [str(built("bare_append")), str(folder), str(files), str(_BATCH_BYTES), str(count // _BATCH)]
            driven = drive(words, lambda: [])
        finally:
            shutil.rmtree(folder)
        return {"messages_per_s": driven.count * _BATCH / driven.seconds}

    return Case(subject=FILES, shape=shape, run=run, how="C: a write of a batch's size to each file in turn, nothing else")


def _connected(server: Headrace, shape: str, count: int, connections: int) -> Case:
    def run(_: int) -> Figures:
        driven = kafka_clients.raw_produce(
            server, "many", batch=50, count=count, in_flight=1, partitions=10, connections=connections
        )
        return {**figures_of(driven), "rss_mb": rss_mb([server.broker.pid])}

    return Case(subject=server.name, shape=shape, run=run, how="one request in flight on each connection")


def _appended(server: Headrace, shape: str, count: int) -> Case:
    def run(_: int) -> Figures:
        return figures_of(kafka_clients.raw_produce(server, "log", batch=50, count=count, in_flight=200))

    return Case(subject=server.name, shape=shape, run=run, how="one connection, 200 requests in flight, appended at the end")


def _fetched(server: Headrace, shape: str, seconds: float, start: int) -> Case:
    def run(_: int) -> Figures:
        words = ["127.0.0.1", str(server.port), "log", "0", "204800", "1", str(seconds), str(start)]
        driven = drive([str(built("raw_fetch")), *words], lambda: server.pids)
        return {**figures_of(driven), "mb_per_s": driven.more["mb_per_s"]}

    return Case(subject=server.name, shape=shape, run=run, how="raw client, 200 KB a fetch, the messages at the end")
