"""Mirroring from one of our brokers to another: megabytes a second of the mirror's processor time, ours and MirrorMaker 2.

The mirror is started and copies a first part, so that it is connected and warm. Then it is stopped (SIGSTOP) while the rest is
produced, continues, and is measured until the destination holds all: none is measured with its start, nor at another's pace.
The yardstick of the clock's figure is a program in C that hands what it fetches on unopened, by the same appends.
"""

import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.mirror.destination import MIRROR_CONFIG
from headrace.mirror.fetching.fetch_size import LEAST_BYTES

from ..drivers.build import built
from ..drivers.run import drive
from ..harness.child import BenchFault, Child
from ..harness.measure import Case, CaseStream, Figures
from ..harness.proc_meters import cpu_s
from ..harness.servers import Servers
from ..harness.unavailable import Unavailable
from ..peers import kafka_clients, mirrors
from ..peers.headrace import Headrace
from ..peers.subjects import OURS

DESTINATION = "Headrace, destination"
BARE = "bare fetch and produce"
SHAPES = {"25": "batches of 5 KB", "default": "librdkafka's own batches"}
_WARM_UP = 200_000
_MESSAGES = 3_000_000
_LONGEST_S = 300

MakeMirror = Callable[[Path, Headrace, Headrace, str], Child]


class Mirror:
    """Megabytes of log a second of processor time, and a second of the clock."""

    name = "mirror"
    title = "Mirroring 200-byte messages of a C client, ours to ours"
    needs = frozenset({OURS, DESTINATION})
    warm_ups = 0
    at_most = 5

    @contextmanager
    def cases(self, servers: Servers) -> CaseStream:
        source, destination = pair(servers)
        folder = servers.folder / "mirror"
        makers: dict[str, MakeMirror] = {mirrors.MIRROR: mirrors.mirror, mirrors.MIRROR_MAKER: mirrors.mirror_maker}
        try:
            count = servers.scaled(_MESSAGES)
            yield [
                case
                for shape in SHAPES
                for case in (
                    *(_copy(subject, make, source, destination, folder, shape, count) for subject, make in makers.items()),
                    _bare(source, destination, shape, count),
                )
            ]
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def pair(servers: Servers) -> tuple[Headrace, Headrace]:
    """Return two running brokers of ours: the one that every measure has, and another. Raises Unavailable."""
    source, destination = servers.running(OURS), servers.running(DESTINATION)
    if destination is None and servers.try_start(DESTINATION, made := Headrace(servers.folder / "destination")):
        destination = made
    if not isinstance(source, Headrace) or not isinstance(destination, Headrace):
        raise Unavailable("a mirror needs two brokers of ours")
    return source, destination


def _copy(subject: str, make: MakeMirror, source: Headrace, destination: Headrace, folder: Path, shape: str, count: int) -> Case:
    def run(turn: int) -> Figures:
        topic = f"mirror-{subject.replace(' ', '-').lower()}-{shape}-{turn}"
        kafka_clients.make_topic(source, topic)
        kafka_clients.produce(source, topic, _WARM_UP, shape, 1)
        mirror = make(folder / topic, source, destination, topic).launch()
        try:
            await_records(mirror, destination, topic, _WARM_UP)
            os.kill(mirror.pid, signal.SIGSTOP)
            before_bytes = kafka_clients.on_disk(source, topic).bytes
            kafka_clients.produce(source, topic, count, shape, 1)
            megabytes = (kafka_clients.on_disk(source, topic).bytes - before_bytes) / 1e6
            brokers = [*source.pids, *destination.pids]
            used_s, brokers_s, began = cpu_s([mirror.pid]), cpu_s(brokers), time.monotonic()
            os.kill(mirror.pid, signal.SIGCONT)
            await_records(mirror, destination, topic, _WARM_UP + count)
            took_s = time.monotonic() - began
            used_s, brokers_s = cpu_s([mirror.pid]) - used_s, cpu_s(brokers) - brokers_s
        finally:
            mirror.kill()
            for server in (source, destination):
                kafka_clients.delete_topic(server, topic)
        return {"mb_per_cpu_s": megabytes / used_s, "mb_per_s": megabytes / took_s, "mb_per_broker_cpu_s": megabytes / brokers_s}

    return Case(subject=subject, shape=SHAPES[shape], run=run, how="warm, catching up")


def _bare(source: Headrace, destination: Headrace, shape: str, count: int) -> Case:
    def run(turn: int) -> Figures:
        topic = f"mirror-bare-{shape}-{turn}"
        kafka_clients.make_topic(source, topic)
        kafka_clients.make_topic(destination, topic, settings=MIRROR_CONFIG)
        try:
            kafka_clients.produce(source, topic, _WARM_UP, shape, 1)
            warm = kafka_clients.on_disk(source, topic).bytes
            kafka_clients.produce(source, topic, count, shape, 1)
            ports = [str(source.port), str(destination.port)]
            words = [*ports, topic, str(LEAST_BYTES), str(warm), str(kafka_clients.on_disk(source, topic).bytes)]
            driven = drive([str(built("raw_copy")), *words], lambda: [*source.pids, *destination.pids])
            if (held := _records(destination, topic)) != _WARM_UP + count:
                raise BenchFault(f"{held} of {_WARM_UP + count} records of {topic} were copied")
        finally:
            for server in (source, destination):
                kafka_clients.delete_topic(server, topic)
        megabytes = driven.more["mb_per_s"] * driven.seconds
        return {
            "mb_per_cpu_s": megabytes / driven.client_cpu_s,
            "mb_per_s": driven.more["mb_per_s"],
            "mb_per_broker_cpu_s": megabytes / driven.server_cpu_s,
        }

    return Case(subject=BARE, shape=SHAPES[shape], run=run, how="in C, unopened, an append and the next fetch beside each other")


def await_records(mirror: Child, destination: Headrace, topic: str, wanted: int) -> None:
    """Return once the destination holds so many records of the topic. Raises BenchFault.

    The log is walked only when it has stopped growing for a moment: a walk takes time of the processors that are measured.
    """
    deadline = time.monotonic() + _LONGEST_S
    size = -1
    while (now := _size(destination, topic)) != size or (held := _records(destination, topic)) < wanted:
        mirror.assert_alive()
        if time.monotonic() > deadline:
            raise BenchFault(f"{wanted} records of {topic} were not copied in {_LONGEST_S} s:\n{mirror.tail()}")
        size = now
        time.sleep(0.02)
    if held > wanted:
        raise BenchFault(f"{wanted} records of {topic} became {held} at the destination")


def _size(server: Headrace, topic: str) -> int:
    with suppress(OSError, BenchFault):  # the topic is not there yet
        return sum(path.stat().st_size for path in kafka_clients.segments_of(server, topic))
    return 0


def _records(server: Headrace, topic: str) -> int:
    try:
        return kafka_clients.on_disk(server, topic).records
    except BenchFault:
        return 0  # the topic is not there yet
