"""RabbitMQ: one node with its own epmd, home, names and folders, all on loopback; driven with librabbitmq.

CPU and memory are those of `beam.smp`. epmd is a companion: without one, Erlang starts an epmd that outlives the node.
"""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..drivers.build import built
from ..drivers.run import Driven, drive
from ..harness.child import BenchFault, Child, free_port
from ..harness.proc_meters import descendants, program
from ..harness.unavailable import Unavailable, program_path
from .disk_bytes import bytes_of
from .lifecycle import LoopbackServer
from .way import Way, drive_client

_INSTALLED = Path("/usr/lib/rabbitmq")
_UNCONFIRMED = 2000
_PREFETCH = 1000


class RabbitMQ(LoopbackServer):
    """One node and its epmd."""

    name = "RabbitMQ"
    start_within_s = 90.0
    stop_within_s = 30.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._mapper_port = free_port()
        self._distribution_port = free_port()
        self._plugins = folder / "enabled_plugins"
        self._configuration = folder / "rabbitmq.conf"

    def version(self) -> str:
        _script()
        libraries = sorted((_INSTALLED / "lib").glob("rabbitmq_server-*"))
        return f"RabbitMQ {libraries[-1].name.partition('-')[2]}" if libraries else "RabbitMQ"

    def prepare(self) -> None:
        _script()
        epmd = program_path("epmd", otherwise="RabbitMQ: there is no epmd on the path (Debian: erlang-base)")
        self._plugins.write_text("[].\n")
        self._configuration.write_text(f"listeners.tcp.1 = 127.0.0.1:{self.port}\n")
        command = [epmd, "-port", str(self._mapper_port), "-address", "127.0.0.1"]
        self.start_companion(Child(command, self.folder / "epmd.log", port=self._mapper_port))

    def command(self) -> Sequence[str]:
        return [str(_script())]

    def environment(self) -> Mapping[str, str]:
        return {
            "HOME": str(self.folder),
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"bench{os.getpid()}@localhost",
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_MNESIA_BASE": str(self.data),
            "RABBITMQ_LOG_BASE": str(self.folder / "logs"),
            "RABBITMQ_CONFIG_FILE": str(self._configuration),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._plugins),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
        }

    def wait_until_ready(self, within_s: float) -> None:
        super().wait_until_ready(within_s)
        time.sleep(1.0)  # the port opens a moment before the default user may log in

    @property
    def pids(self) -> Sequence[int]:
        found = [pid for pid in descendants(self.broker.pid) if program(pid) == "beam.smp"]
        if not found:
            raise BenchFault(f"RabbitMQ has no beam.smp:\n{self.broker.tail()}")
        return found

    def ways(self) -> list[Way]:
        """Return how it is used. Raises Unavailable when its client cannot be built."""
        built("rabbitmq_produce"), built("rabbitmq_consume")
        confirmed = f"persistent, {_UNCONFIRMED} unconfirmed; prefetch {_PREFETCH}"
        return [
            self._way("RabbitMQ classic", "persistent, confirms off; consumer without acks", "classic", 40_000, 0, 0),
            self._way("RabbitMQ classic, confirms", confirmed, "classic", 40_000),
            self._way("RabbitMQ lazy v2, confirms", confirmed, "lazy", 60_000),
            self._way("RabbitMQ stream", f"{_UNCONFIRMED} unconfirmed; prefetch {_PREFETCH}", "stream", 80_000),
        ]

    def _way(
        self, subject: str, how: str, kind: str, count: int, unconfirmed: int = _UNCONFIRMED, prefetch: int = _PREFETCH
    ) -> Way:
        def produce(topic: str, messages: int) -> Driven:
            self._bytes_before = bytes_of(self.data)
            return drive_client(self, "rabbitmq_produce", topic, messages, kind, unconfirmed)

        def consume(topic: str, messages: int) -> Driven:
            return drive_client(self, "rabbitmq_consume", topic, messages, prefetch, *(["first"] if kind == "stream" else []))

        return Way(
            subject=subject,
            how=how,
            count=count,
            produce=produce,
            consume=consume,
            disk_bytes=lambda _: bytes_of(self.data) - self._bytes_before,
            forget=self._forget,
            consuming_empties=kind != "stream",
        )

    def _forget(self, topic: str) -> None:
        drive([str(built("rabbitmq_forget")), str(self.port), topic], lambda: self.pids)


def _script() -> Path:
    script = _INSTALLED / "bin" / "rabbitmq-server"
    if not script.exists():
        raise Unavailable("RabbitMQ: there is no rabbitmq-server (Debian: rabbitmq-server, librabbitmq-dev)")
    return script
