"""RabbitMQ: one node by hand, with its own epmd, home, names and folders, all on loopback; driven with librabbitmq.

CPU and memory are those of `beam.smp` and what it has started. epmd is started before it, as a child: otherwise Erlang starts one
that outlives everybody.
"""

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from ..drivers.build import built
from ..drivers.run import Driven, drive
from ..harness.child import BenchFault, Child, descendants, free_port, program
from ..harness.missing import Missing
from .peer import MESSAGE_BYTES, Way, bytes_of

_SCRIPTS = Path("/usr/lib/rabbitmq/bin")
_UNCONFIRMED = 2000
_PREFETCH = 1000


class RabbitMQ:
    """One node on free loopback ports, everything below `folder`."""

    name = "RabbitMQ"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._mapper_port = free_port()
        self._distribution_port = free_port()
        self._mapper = Child(["epmd"], folder / "epmd.log", port=self._mapper_port)
        self._server = Child(["rabbitmq-server"], folder / "log", port=self.port)

    def version(self) -> str:
        _script()
        libraries = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
        return f"RabbitMQ {libraries[-1].name.partition('-')[2]}" if libraries else "RabbitMQ"

    def start(self) -> None:
        script, epmd = _script(), shutil.which("epmd")
        if epmd is None:
            raise Missing("RabbitMQ: there is no epmd on the path (Debian: erlang-base)")
        self.folder.mkdir(parents=True, exist_ok=True)
        plugins = self.folder / "enabled_plugins"
        plugins.write_text("[].\n")
        configuration = self.folder / "rabbitmq.conf"
        configuration.write_text(f"listeners.tcp.1 = 127.0.0.1:{self.port}\n")
        environment = {
            "HOME": str(self.folder),
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"bench{os.getpid()}@localhost",
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "logs"),
            "RABBITMQ_CONFIG_FILE": str(configuration),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
        }
        self._mapper = Child(
            [epmd, "-port", str(self._mapper_port), "-address", "127.0.0.1"], self.folder / "epmd.log", port=self._mapper_port
        ).start()
        self._server = Child([str(script)], self.folder / "log", port=self.port, environment=environment).start(90)
        time.sleep(1.0)  # the port opens a moment before the default user may log in

    def stop(self) -> None:
        self._server.stop(30)
        self._mapper.stop()

    @property
    def pids(self) -> Sequence[int]:
        found = [pid for pid in descendants(self._server.pid) if program(pid) == "beam.smp"]
        if not found:
            raise BenchFault(f"RabbitMQ has no beam.smp:\n{self._server.tail()}")
        return found

    def ways(self) -> list[Way]:
        """Return how it is used. Raises Missing when its client cannot be built."""
        built("rabbitmq_produce"), built("rabbitmq_consume")
        return [
            self._way("RabbitMQ classic", "persistent, confirms off; consumer without acks", "classic", 40_000, 0, 0),
            self._way(
                "RabbitMQ classic, confirms", f"persistent, {_UNCONFIRMED} unconfirmed; prefetch {_PREFETCH}", "classic", 40_000
            ),
            self._way(
                "RabbitMQ lazy v2, confirms", f"persistent, {_UNCONFIRMED} unconfirmed; prefetch {_PREFETCH}", "lazy", 60_000
            ),
            self._way("RabbitMQ stream", f"{_UNCONFIRMED} unconfirmed; prefetch {_PREFETCH}", "stream", 80_000),
        ]

    def _way(
        self, subject: str, how: str, kind: str, count: int, unconfirmed: int = _UNCONFIRMED, prefetch: int = _PREFETCH
    ) -> Way:
        def produce(topic: str, messages: int) -> Driven:
            self._written_before = self._on_disk()
            words = [str(self.port), topic, str(messages), str(MESSAGE_BYTES), kind, str(unconfirmed)]
            return drive([str(built("rabbitmq_produce")), *words], lambda: self.pids)

        def consume(topic: str, messages: int) -> Driven:
            words = [str(self.port), topic, str(messages), str(MESSAGE_BYTES), str(prefetch)]
            return drive([str(built("rabbitmq_consume")), *words, *(["first"] if kind == "stream" else [])], lambda: self.pids)

        return Way(
            subject=subject,
            how=how,
            count=count,
            produce=produce,
            consume=consume,
            disk_bytes=lambda _: self._on_disk() - self._written_before,
            forget=self._forget,
            consuming_empties=kind != "stream",
        )

    def _on_disk(self) -> int:
        return bytes_of(self.folder / "data")

    def _forget(self, topic: str) -> None:
        drive([str(built("rabbitmq_forget")), str(self.port), topic], lambda: self.pids)


def _script() -> Path:
    script = _SCRIPTS / "rabbitmq-server"
    if not script.exists():
        raise Missing("RabbitMQ: there is no rabbitmq-server (Debian: rabbitmq-server, librabbitmq-dev)")
    return script
