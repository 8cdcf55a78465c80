"""Runs one driver against one peer. The driver's clock and the server's CPU meter start and stop together."""

import json
import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..harness.child import BenchFault
from ..harness.proc_meters import cpu_s

DEADLINE_S = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """The result of one run of a driver."""

    count: int
    seconds: float
    client_cpu_s: float
    client_thread_s: float
    server_cpu_s: float
    more: dict[str, Any] = field(default_factory=dict)


def drive(
    command: Sequence[str],
    server_pids: Callable[[], Sequence[int]],
    *,
    deadline_s: float = DEADLINE_S,
    environment: Mapping[str, str] | None = None,
) -> Driven:
    """Run `command` to its end. Return its result with the CPU that the server used meanwhile. Raises BenchFault.

    `environment`: variables for the driver, besides this process's.
    """
    child = subprocess.Popen(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    assert child.stdin is not None
    assert child.stdout is not None
    watchdog = threading.Timer(deadline_s, child.kill)
    watchdog.start()
    try:
        first = child.stdout.readline().strip()
        if first != "ready":
            raise BenchFault(f"{command[0]} was not ready: {first} {child.communicate()[1][-1000:]}")
        before = cpu_s(server_pids())
        child.stdin.write("go\n")
        child.stdin.flush()
        line = child.stdout.readline()
        used = cpu_s(server_pids()) - before
        _, complaint = child.communicate()
    finally:
        watchdog.cancel()
        if child.poll() is None:
            child.kill()
            child.wait()
    if child.returncode or not line.startswith("{"):
        raise BenchFault(f"{' '.join(command[:4])} failed with code {child.returncode}: {line} {complaint[-1000:]}")
    words = json.loads(line)
    return Driven(
        count=words.pop("count"),
        seconds=words.pop("seconds"),
        client_cpu_s=words.pop("client_cpu_s"),
        client_thread_s=words.pop("client_thread_s"),
        server_cpu_s=used,
        more=words,
    )
