"""`headrace broker run --processes N`: N brokers of one cluster on one machine, each a process with its own id, ports and folder.

A broker works on one core, so this is how the cores of a machine are used. Ids and ports count up: with two listeners on 9092 and
9093, the second broker has 9094 and 9095. This process only starts the brokers, starts one again that ended unexpectedly, and
passes the stop on.
"""

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ..broker.errors import SettingsRefused
from ..broker.settings.broker_settings import BrokerSettings
from ..broker.settings.listeners import Listener
from ..runtime.backoff import Backoff
from ..runtime.clock import Clock
from ..runtime.lifecycle import StopSignal, end_with_parent
from ..runtime.logs import get_logger

log = get_logger(__name__)

MOST_PROCESSES = 64
HIGHEST_PORT = 65_535
RESTART = Backoff(first_ms=1_000, longest_ms=30_000)
CALM_MS = 60_000
"""After a broker has lived so long, its next end counts as the first."""
LOOK_MS = 100
KILL_AFTER_MS = 2_000
"""Beyond `shutdown.timeout.ms`, at which a broker ends itself."""
WRONG_SETTINGS = 2
"""The exit code of `headrace broker run`; another try would end the same way."""


def words_of(settings: BrokerSettings, index: int, given: Sequence[str]) -> list[str]:
    """Return the words of `headrace broker run` for the broker `index` of those that `settings` describes.

    `given`: `--config` and `--set` with their values, as they were given; what differs from broker to broker comes behind them.
    """
    shift, number = index * len(settings.listeners), settings.broker_id + index
    listeners = ",".join(_shown(one, one.host, one.port, shift) for one in settings.listeners)
    advertised = ",".join(_shown(one, one.advertised_host, one.advertised_port or 0, shift) for one in settings.listeners)
    words = [*given, "--set", f"listeners={listeners}", "--set", f"advertised.listeners={advertised}"]
    words += ["--id", str(number), "--data", str(settings.data / f"broker-{number}"), "--zookeeper", settings.zookeeper]
    if settings.http_port is not None:
        words += ["--http-port", str(_port(settings.http_port, index))]
    if settings.status_file is not None:
        file = settings.status_file
        words += ["--status-file", str(file.with_name(f"{file.stem}-{number}{file.suffix}"))]
    return words


def check(settings: BrokerSettings, count: int) -> None:
    """Raise SettingsRefused if `count` brokers cannot have the ids and ports that count up."""
    faults = []
    if not 1 <= count <= MOST_PROCESSES:
        faults.append(f"--processes {count} is not from 1 to {MOST_PROCESSES}")
    stride = len(settings.listeners)
    taken: dict[int, str] = {}
    for index in range(min(max(count, 0), MOST_PROCESSES)):
        ports = [
            (f"{one.name} of broker {settings.broker_id + index}", _port(one.port, index * stride)) for one in settings.listeners
        ]
        if settings.http_port is not None:
            ports.append((f"http.port of broker {settings.broker_id + index}", _port(settings.http_port, index)))
        for what, port in ports:
            if port > HIGHEST_PORT:
                faults.append(f"--processes {count}: {what} would be port {port}, above {HIGHEST_PORT}: choose lower ports")
            elif port and port in taken:
                faults.append(f"--processes {count}: {what} and {taken[port]} would have port {port}: choose ports further apart")
            taken[port] = what
    if faults:
        raise SettingsRefused(faults)


class Brokers:
    """The processes of one command. `run` returns when all have ended."""

    def __init__(self, commands: Sequence[Sequence[str]], *, stop_ms: int, clock: Clock) -> None:
        """`stop_ms`: how long after the stop a broker may run before it is killed."""
        self._clock = clock
        self._stop_ms = stop_ms
        self._all = [_Broker(command) for command in commands]

    def run(self, stop: StopSignal) -> int:
        """Start all, start again what ends unexpectedly, and end all at `stop`. Return the highest exit code of the stop.

        Wrong settings of one broker end all with 2.
        """
        code = 0
        while not stop.is_set() and code != WRONG_SETTINGS:
            now_ms = self._clock.monotonic_ms()
            if WRONG_SETTINGS in [one.turn(now_ms) for one in self._all]:
                code = WRONG_SETTINGS
            stop.wait(LOOK_MS)
        ends = self._end()  # one that had not come to its handlers yet dies of the signal
        return code or max(ends)

    def _end(self) -> list[int]:
        for one in self._all:
            one.signal(signal.SIGTERM)
        deadline_ms = self._clock.monotonic_ms() + self._stop_ms
        return [one.end(lambda: max(0, deadline_ms - self._clock.monotonic_ms())) for one in self._all]


class _Broker:
    """One of them: runs, or waits for its next start."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._born_ms = 0
        self._ends = 0
        self._next_start_ms: int | None = None

    def turn(self, now_ms: int) -> int:
        """Start the process where it is due. Return the exit code of one that ended, else 0."""
        if self._process is None:
            if self._next_start_ms is None or now_ms >= self._next_start_ms:
                self._process = subprocess.Popen(self._command, start_new_session=True, preexec_fn=end_with_parent)
                self._born_ms = now_ms
            return 0
        code = self._process.poll()
        if code is None:
            return 0
        self._ends = 0 if now_ms - self._born_ms > CALM_MS else self._ends
        self._next_start_ms = now_ms + RESTART.wait_ms(self._ends)
        self._ends += 1
        log.error("broker_ended", pid=self._process.pid, exit_code=code, starts_again_in_ms=self._next_start_ms - now_ms)
        self._process = None
        return code

    def signal(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def end(self, left_ms: Callable[[], int]) -> int:
        """Wait for the end, at most so long; then kill. Return the exit code; 0 where nothing ran."""
        if self._process is None:
            return 0
        try:
            return abs(self._process.wait(left_ms() / 1000))
        except subprocess.TimeoutExpired:
            log.error("broker_killed", pid=self._process.pid)
            self._process.kill()
            return abs(self._process.wait())


def run(settings: BrokerSettings, count: int, given: Sequence[str], clock: Clock) -> int:
    """Run `count` brokers until SIGTERM or SIGINT. Raises SettingsRefused."""
    check(settings, count)
    stop = StopSignal(second_ends=True).install()
    program = [sys.executable, "-m", "headrace.cli.main", "broker", "run"]
    commands = [[*program, *words_of(settings, index, given)] for index in range(count)]
    return Brokers(commands, stop_ms=settings.shutdown_timeout_ms + KILL_AFTER_MS, clock=clock).run(stop)


def given_words(configs: Sequence[Path], words: Sequence[str]) -> list[str]:
    """Return the flags that all brokers share, as they were given."""
    files = (part for config in configs for part in ("--config", str(config)))
    return [*files, *(part for word in words for part in ("--set", word))]


def _shown(listener: Listener, host: str, port: int, shift: int) -> str:
    return f"{listener.name}://{f'[{host}]' if ':' in host else host}:{_port(port, shift)}"


def _port(port: int, shift: int) -> int:
    """0 stays 0: the system chooses."""
    return port and port + shift
