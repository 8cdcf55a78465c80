"""Applications of their own process for the attacks: they log, say a line, and wait to be frozen, killed or let go."""

import os
import signal
import subprocess
import sys

from .topics import Topic

PROGRAM = """
import os, sys, time
from headrace.runtime.clock import SystemClock
from headrace.sdk import ACCESS_LOG_SCHEMA, EventLogger
class HostClock(SystemClock):
    set_ms = 0
    def now_ms(self):
        return super().now_ms() + self.set_ms
clock = HostClock()
def log(count, at_ms={at_ms}):
    for number in range(count):
        event = {{"client_ip": "127.0.0.1", "method": "GET", "path": "/fault/%06d" % number, "status": 200}}
        assert logger.log(event, event_time_ms=at_ms)
def say(*more):
    print(logger.instance, *more, flush=True)
    sys.stdin.readline()
logger = EventLogger({topic!r}, ACCESS_LOG_SCHEMA, bootstrap={bootstrap!r}, registry_url={registry!r},
    application={application!r}, lateness_ms={lateness_ms!r}, linger_ms=60_000, start_timeout_ms=30_000,
    only_between_ms={between!r}, clock=clock)
{work}
"""
"""`log(n)` logs n events in the window; `say(...)` prints the instance and more, and waits; `clock.set_ms`: how wrong it is."""


def program(
    topic: Topic,
    work: str,
    *,
    window: int = 0,
    between: tuple[int, int] | None = None,
    lateness_ms: int | None = None,
    application: str = "faults",
) -> list[str]:
    """Return the command of an application that opens a logger and then does `work`."""
    layout = topic.platform.layout
    words = PROGRAM.format(
        topic=topic.name,
        bootstrap=layout.live_bootstrap,
        registry=layout.registry_url,
        at_ms=topic.windows[window],
        between=between,
        lateness_ms=lateness_ms,
        application=application,
        work=work,
    )
    return [sys.executable, "-c", words]


class Application:
    """An application that has done its `work` up to a `say`; in a process group of its own."""

    def __init__(self, topic: Topic, command: list[str]) -> None:
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=topic.platform.environment,
            text=True,
            start_new_session=True,
        )
        self.said: list[str] = []
        self._listen()

    @property
    def name(self) -> str:
        """The audit's name for it."""
        return f"producer:{self.said[0]}"

    def continue_(self) -> None:
        """Let it do its work up to its next `say`."""
        assert self._child.stdin is not None
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        self._listen()

    def _listen(self) -> None:
        assert self._child.stdout is not None
        self.said = self._child.stdout.readline().split()
        assert self.said, "it ended before it said anything"

    def freeze(self) -> None:
        os.killpg(self._child.pid, signal.SIGSTOP)

    def kill(self) -> None:
        """`kill -9` it and its children."""
        os.killpg(self._child.pid, signal.SIGKILL)
        self._child.communicate(timeout=30)


def killed(topic: Topic, work: str, *, window: int = 1, lateness_ms: int | None = None) -> Application:
    """Return an application that was killed after its first `say`."""
    application = Application(topic, program(topic, work, window=window, lateness_ms=lateness_ms))
    application.kill()
    return application
