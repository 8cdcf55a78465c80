"""What loggers that log nothing cost the audit. Each is a `ProducerReporter` that reports as an `EventLogger` does.

Their processes are few and their reporters many; each beat is a batch of its own, as that of an application is.
`python -m bench.growth.of_loggers` is one of these processes.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from headrace.audit.model.messages import Hold
from headrace.audit.model.windows import WINDOW_MS, window_start_ms
from headrace.audit.publisher import ProducerReporter
from headrace.client.connection.cluster import Cluster
from headrace.client.producer.producer import Producer
from headrace.sdk.direct.logger_startup import LOOKS_A_BEAT

from ..harness.child import BenchFault
from ..harness.proc_meters import cpu_s
from .world import World

COUNTS = (100, 1_000, 10_000)
UNITS = {"audit": "%", "audit, for a beat": "µs", "beats": "a second"}
PROCESSES = 2
BEAT_S = LOOKS_A_BEAT * 1.0
SETTLE_S = 30
"""Until the audit looks at the topics seldom again: the announcements are news for a deadline and some seconds."""
SLICES = 20
"""Parts of a beat's interval in which the loggers of a process take turns."""


def loggers(world: World, topics: int, rest_s: float) -> Mapping[str, float]:
    """Watch the audit while loggers beat. Only beside the fewest topics: they do not depend on each other."""
    if world.audit is None or topics:
        return {}
    figures: dict[str, float] = {}
    for count in COUNTS:
        idle_s = _used_s(world.audit.pid, rest_s) / rest_s
        with _beating(world, count) as children:
            watched_s = max(rest_s, 2 * BEAT_S)
            share = _used_s(world.audit.pid, watched_s) / watched_s
        beats = sum(map(_beats_a_second, children))
        figures[f"audit, {count:,} loggers"] = 100 * share
        figures[f"audit, for a beat, {count:,} loggers"] = 1e6 * (share - idle_s) / beats
        figures[f"beats, {count:,} loggers"] = beats
    return figures


def _used_s(pid: int, watched_s: float) -> float:
    before_s = cpu_s([pid])
    time.sleep(watched_s)
    return cpu_s([pid]) - before_s


@contextmanager
def _beating(world: World, count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    command = [sys.executable, "-m", "bench.growth.of_loggers", world.live.bootstrap]
    children = [
        subprocess.Popen([*command, str(count // PROCESSES), f"{count}-{number}"], stdout=subprocess.PIPE)
        for number in range(PROCESSES)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            if child.stdout.readline() != b"announced\n":
                raise BenchFault("loggers did not begin to beat")
        time.sleep(SETTLE_S)
        yield children
    finally:
        for child in children:
            child.kill()
            child.wait()


def _beats_a_second(child: subprocess.Popen[bytes]) -> float:
    """Return how often a process that has ended beat, by its last line."""
    assert child.stdout is not None
    beats, _, took_s = child.stdout.read().decode().split("\n")[-2].partition(" ")
    return int(beats) / float(took_s)


class Together:
    """A sender for many reporters; `settle` waits for all of them."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def send(self, topic: str, value: bytes, *, key: bytes | None = None, timestamp_ms: int) -> None:
        self._producer.send(topic, value, key=key, timestamp_ms=timestamp_ms)

    def flush(self, timeout_ms: int, /) -> object:
        return True

    def settle(self) -> None:
        self._producer.flush(60_000)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.growth.of_loggers", description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("count", type=int)
    parser.add_argument("name")
    arguments = parser.parse_args()
    cluster = Cluster(arguments.bootstrap, client_id="bench-loggers")
    sender = Together(Producer(cluster, linger_ms=0, batch_bytes=1))
    start = window_start_ms(time.time_ns() // 1_000_000)
    holds = (Hold(start, start + WINDOW_MS),)
    reporters = [ProducerReporter(instance=f"{arguments.name}-{at}", sender=sender) for at in range(arguments.count)]
    for at, one in enumerate(reporters):
        one.announce(["idle-log"], [1_000_000_000 + at], moved_past_ms=start, holds=holds)
        if at % 500 == 499:
            sender.settle()
    sender.settle()
    print("announced", flush=True)
    turn = beats = 0
    began = time.monotonic()
    while True:
        some = reporters[turn % SLICES :: SLICES]
        for one in some:
            one.beat(moved_past_ms=start, holds=holds)
        sender.settle()
        turn += 1
        beats += len(some)
        print(beats, time.monotonic() - began, flush=True)
        time.sleep(max(0.0, began + turn * BEAT_S / SLICES - time.monotonic()))


if __name__ == "__main__":
    main()
