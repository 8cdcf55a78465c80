"""What is behind the live cluster: the schema registry, a mirror to an offline cluster of one broker, and the audit of both.

The check after a round asks two witnesses. The audit must have every window of the SDK's loggers, and of the other producers,
COMPLETE, with as many records in each tier as were logged. And librdkafka reads the copy.
"""

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headrace.audit.model.windows import WINDOW_MS
from tests.support.audit_service import AuditService
from tests.support.broker import BrokerProcess
from tests.support.mirror import MirrorProcess
from tests.support.processes import Process, eventually
from tests.support.registry import RegistryProcess
from tests.support.zookeeper import ZooKeeperProcess

from .clients import Readable, Reading, read_all
from .cluster import TOPIC
from .growing_check import LoggedCheck
from .history import Row, faults_of_logged
from .logging_rounds import LOGGED, Logging, first_window_ms, id_of

READY_MS = 90_000
TIERS = ("producer", "live", "mirror", "offline")
AUDIT = f"""
[service]
discover_ms = 500
judge_every_ms = 500
scan_every_ms = 20000
keep_windows_days = 30
[topics.default]
tiers = {list(TIERS)}
[topics.{TOPIC}]
tiers = {list(TIERS[1:])}
"""
"""No warehouse. The producers of other projects report nothing."""


class Downstream:
    """Runs while entered. The live cluster has both topics then. Readers of the offline cluster ask this object."""

    def __init__(self, folder: Path, live: Readable) -> None:
        self.partitions = live.partitions
        self._live = live
        self._keeper = ZooKeeperProcess(folder / "zookeeper")
        self.broker = BrokerProcess(folder / "broker", self._keeper.address)
        self.registry = RegistryProcess(folder / "registry", live.addresses)
        self.mirror = MirrorProcess(folder / "mirror", live.addresses, self.broker, live.addresses)
        self.audit = AuditService(folder / "audit", live.addresses, self.broker.address, AUDIT)
        self._processes: dict[str, tuple[Process, Callable[[], object], Callable[[], bool]]] = {
            "offline broker": (self.broker.process, self.broker.launch, self.broker.is_ready),
            "registry": (self.registry.process, self.registry.launch, self.registry.is_ready),
            "mirror": (self.mirror.process, self.mirror.launch, self.mirror.is_ready),
            "audit": (self.audit.process, self.audit.launch, self.audit.is_ready),
        }
        """By name: the process, what starts it, and whether it is ready."""
        self._killed: set[str] = set()
        self._frozen: set[str] = set()
        self._ended: list[str] = []
        """What a process said that ended and was not killed."""
        self._first_window_ms = first_window_ms()
        self._logged: dict[int, Logging] = {}
        """By round, in order."""
        self.copied: list[Row] = []
        """What was read of the copy of the topic of events."""
        self._copied_logged: list[Row] = []
        self._logged_check = LoggedCheck(self._copied_logged)
        self._stack = ExitStack()

    @property
    def addresses(self) -> str:
        return self.broker.address

    def __enter__(self) -> "Downstream":
        with ExitStack() as stack:
            for process, _, _ in self._processes.values():
                stack.callback(process.kill)
            stack.enter_context(self._keeper)
            for name in self._processes:
                self._start(name)
            eventually(self._has_topics, within_ms=READY_MS, what="the copies of both topics")
            stack.enter_context(Reading(self, self.copied))
            stack.enter_context(Reading(self, self._copied_logged, LOGGED, id_of))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for logging in self._logged.values():
            logging.stop()
        for name in self._frozen:
            os.kill(self._processes[name][0].pid, signal.SIGCONT)
        self._stack.close()

    def _has_topics(self) -> bool:
        try:
            topics = AdminClient({"bootstrap.servers": self.addresses, "log_level": 0}).list_topics(timeout=5).topics
        except KafkaException:
            return False
        return all(name in topics and len(topics[name].partitions) == self.partitions for name in (TOPIC, LOGGED))

    def _start(self, name: str) -> None:
        process, launch, is_ready = self._processes[name]
        launch()
        eventually(is_ready, within_ms=READY_MS, what=f"{name} ready; {process.output()[-2000:]}")

    def kill(self, name: str) -> None:
        self._processes[name][0].kill()
        self._killed.add(name)
        self._frozen.discard(name)

    def freeze(self, name: str) -> None:
        if self._processes[name][0].is_running():
            os.kill(self._processes[name][0].pid, signal.SIGSTOP)
            self._frozen.add(name)

    def heal(self) -> None:
        """Start what was killed, and let what is frozen run. A process that has ended without being killed is a fault."""
        for name in self._frozen:
            os.kill(self._processes[name][0].pid, signal.SIGCONT)
        self._frozen.clear()
        for name, (process, _, _) in self._processes.items():
            if not process.is_running():
                if name not in self._killed:
                    self._ended.append(f"{name} ended: {process.output()[-2000:]}")
                self._start(name)
        self._killed.clear()

    def log(self, number: int) -> Logging:
        """Begin the logger of a round; the next round's window is the next one."""
        start_ms = self._first_window_ms + len(self._logged) * WINDOW_MS
        self._logged[number] = Logging(self._live.addresses, self.registry.url, number=number, window_start_ms=start_ms)
        return self._logged[number].begin()

    def faults(self) -> list[str]:
        """Return what is wrong now with windows and copies, of all loggers that have ended."""
        taken = {number: logging.taken for number, logging in self._logged.items()}
        return [*self._ended, *self._of_windows(), *self._logged_check.faults(taken)]

    def final_faults(self, wanted: set[str], within_s: float = 60) -> list[str]:
        """Read everything again from the start, the copy of the events until all `wanted` are there; return what is wrong.
        What is not there is waited for `within_s`.
        """
        self.copied = read_all(self, wanted, within_s=within_s)
        found = []
        for where, name in ((self._live, "live"), (self, "offline")):
            rows = read_all(where, self._taken(), LOGGED, id_of, within_s)
            found += [f"{name}: {fault}" for fault in faults_of_logged(self._taken(), rows)]
        return found

    def _taken(self) -> set[str]:
        return {value for logging in self._logged.values() for value in logging.taken}

    def _of_windows(self) -> list[str]:
        try:
            windows, others = self.audit.windows(LOGGED), self.audit.windows(TOPIC)
        except OSError as error:
            return [f"the audit does not answer: {error}"]
        found = []
        for number, logging in self._logged.items():
            window = windows.pop(logging.window_start_ms, None)
            wanted = dict.fromkeys(TIERS, len(logging.taken))
            if window is None or window["verdict"] != "COMPLETE" or window["tiers"] != wanted:
                found.append(f"window of round {number}: {window}, not COMPLETE with {wanted}")
        found += [f"a window of nothing that was logged: {window}" for window in windows.values()]
        return found + [f"window of {TOPIC}: {one}" for one in others.values() if one["verdict"] != "COMPLETE"]
