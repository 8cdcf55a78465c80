"""Mirroring from a far broker of ours: 100 ms there and back, 1 % of the packets lost, beside one TCP connection.

The mirror stands beside the destination. All of its connections to the source go over `harness.far_link`; the topic was filled
before, over the same relays without delay or loss. Measured is what the destination's logs grow by, from the first batches on.
The yardstick is one TCP connection that sends as fast as it can over such a line and the same relays, in the same round.
"""

import shutil
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from confluent_kafka import Producer

from ..harness import far_link
from ..harness.child import BenchFault, Child, free_port
from ..harness.measure import Case, CaseStream, Figures
from ..harness.servers import Servers
from ..harness.unavailable import Unavailable
from ..peers import kafka_clients, mirrors
from ..peers.headrace import Headrace
from ..peers.subjects import OURS
from .mirror import DESTINATION

FAR_SOURCE = "Headrace, far source"
ONE_CONNECTION = "one TCP connection"
DELAY_MS, LOSS = 50, 0.01
CONGESTION = ("cubic", "bbr")
PARTITIONS = (1, 8)
_VALUE = bytes(1_000)
_ZEROS = bytes(256 << 10)
_SECONDS, _WARM_S = 20.0, 8.0
_LONGEST_S = 120
_MEGABYTES = {"cubic": 60, "bbr": 700}
"""More than one connection carries in the time, by its answer to loss."""


class FarMirror:
    """MB/s over the line."""

    name = "far"
    title = "Mirroring over a line of 100 ms and 1 % loss, ours to ours"
    needs = frozenset({OURS, DESTINATION, FAR_SOURCE})
    warm_ups = 0
    at_most = 3

    @contextmanager
    def cases(self, servers: Servers) -> CaseStream:
        missing = {one: why for one in CONGESTION if (why := far_link.why_not(one)) is not None}
        if len(missing) == len(CONGESTION):
            raise Unavailable("; ".join(f"{one}: {why}" for one, why in missing.items()))
        for one, why in missing.items():
            servers.skip(f"a far mirror with {one}", why)
        port = free_port()
        source = Headrace(servers.folder / "far-source", {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"})
        destination = Headrace(servers.folder / "destination")
        with _line(servers.folder / "line.log", port, source.port, "--delay-ms", "0", "--loss", "0"):
            if not servers.try_start(FAR_SOURCE, source) or not servers.try_start(DESTINATION, destination):
                raise Unavailable("a mirror needs two brokers of ours")
        folder = servers.folder / "far"
        seconds = _SECONDS / 2 if servers.quick else _SECONDS
        try:
            yield [
                case
                for congestion in CONGESTION
                if congestion not in missing
                for case in (
                    *(_copy(source, destination, folder, port, congestion, count, seconds) for count in PARTITIONS),
                    _one_connection(folder, congestion, seconds),
                )
            ]
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _shape(congestion: str) -> str:
    return f"100 ms, 1 % loss, {congestion}"


def _one_connection(folder: Path, congestion: str, seconds: float) -> Case:
    def run(turn: int) -> Figures:
        with socket.create_server(("127.0.0.1", 0)) as server:
            threading.Thread(target=_send_without_end, args=(server,), daemon=True).start()
            port = free_port()
            with _line(folder / "line.log", port, server.getsockname()[1], *_far(turn, congestion)):
                with socket.create_connection(("127.0.0.1", port), timeout=_LONGEST_S) as peer:
                    _received(peer, _WARM_S)
                    began = time.monotonic()
                    received = _received(peer, seconds)
                    return {"line_mb_per_s": received / 1e6 / (time.monotonic() - began)}

    return Case(subject=ONE_CONNECTION, shape=_shape(congestion), run=run, how="over the same relays, one way")


def _far(turn: int, congestion: str) -> Sequence[str]:
    return ("--delay-ms", str(DELAY_MS), "--loss", str(LOSS), "--seed", str(turn), "--congestion", congestion)


def _send_without_end(server: socket.socket) -> None:
    """Send zeros to whatever connects; one that leaves (the wait for the line's port) makes room for the next."""
    while True:
        try:
            peer, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_send_to, args=(peer,), daemon=True).start()


def _send_to(peer: socket.socket) -> None:
    with peer, suppress(OSError):
        while True:
            peer.sendall(_ZEROS)


def _received(peer: socket.socket, seconds: float) -> int:
    until, received = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        received += len(peer.recv(1 << 20))
    return received


def _copy(
    source: Headrace, destination: Headrace, folder: Path, port: int, congestion: str, partitions: int, seconds: float
) -> Case:
    def run(turn: int) -> Figures:
        topic = f"far-{congestion}-{partitions}-{turn}-{uuid.uuid4().hex[:6]}"
        here = folder / topic
        with _line(here / "fast-line.log", port, source.port, "--delay-ms", "0", "--loss", "0", "--congestion", congestion):
            kafka_clients.make_topic(source, topic, partitions)
            _fill(source, topic, partitions, int(_MEGABYTES[congestion] * seconds / _SECONDS))
        with _line(here / "line.log", port, source.port, *_far(turn, congestion)):
            mirror = mirrors.mirror(here, source, destination, topic).launch()
            try:
                rate = _rate(mirror, destination, topic, partitions, seconds)
            finally:
                mirror.kill()
        with _line(here / "fast-line.log", port, source.port, "--delay-ms", "0", "--loss", "0"):
            for server in (source, destination):
                kafka_clients.delete_topic(server, topic)
        return {"line_mb_per_s": rate}

    subject = mirrors.MIRROR + (f", {partitions} partitions" if partitions > 1 else ", one partition")
    return Case(subject=subject, shape=_shape(congestion), run=run, how="beside the destination, the source far")


def _fill(source: Headrace, topic: str, partitions: int, megabytes: int) -> None:
    sender = Producer({"bootstrap.servers": source.bootstrap, "acks": "1", "queue.buffering.max.messages": 100_000})
    for number in range(megabytes * 1_000_000 // len(_VALUE)):
        while True:
            try:
                sender.produce(topic, _VALUE, partition=number % partitions)
                break
            except BufferError:
                sender.poll(0.05)
        sender.poll(0)
    if left := sender.flush(_LONGEST_S):
        raise BenchFault(f"{left} messages of {topic} were not acknowledged")


def _rate(mirror: Child, destination: Headrace, topic: str, partitions: int, seconds: float) -> float:
    """Return the megabytes a second by which the copy grows, after a time for the line to find its pace.

    From one growth to another: what a fetch brings comes at once, and over a slow line seconds apart.
    """
    _grown(mirror, destination, topic, partitions, 0, _LONGEST_S)
    time.sleep(_WARM_S)
    first = before = _grown(mirror, destination, topic, partitions, _copied(destination, topic, partitions), _LONGEST_S)
    began = at = time.monotonic()
    while time.monotonic() < began + seconds or before == first:
        before = _grown(mirror, destination, topic, partitions, before, _LONGEST_S)
        at = time.monotonic()
    return (before - first) / 1e6 / (at - began)


def _grown(mirror: Child, destination: Headrace, topic: str, partitions: int, before: int, longest_s: float) -> int:
    """Return how much is copied once that is more than `before`. Raises BenchFault."""
    deadline = time.monotonic() + longest_s
    while (copied := _copied(destination, topic, partitions)) <= before:
        mirror.assert_alive()
        if time.monotonic() > deadline:
            raise BenchFault(f"nothing of {topic} was copied in {longest_s} s:\n{mirror.tail()}")
        time.sleep(0.02)
    return copied


def _copied(destination: Headrace, topic: str, partitions: int) -> int:
    try:
        segments = [path for one in range(partitions) for path in kafka_clients.segments_of(destination, topic, one)]
        return sum(path.stat().st_size for path in segments)
    except (BenchFault, OSError):
        return 0  # the topic is not there yet


@contextmanager
def _line(log: Path, port: int, server_port: int, *words: str) -> Iterator[None]:
    """Relay connections to `port` over a line to the server while the block runs."""
    command = [sys.executable, "-m", far_link.__name__, "--port", str(port), "--server-port", str(server_port), *words]
    line = Child(command, log, port=port).start()
    try:
        yield
    finally:
        line.kill()
