"""ActiveMQ Classic with KahaDB, driven with its own Java client. One client process serves all runs, so that its JIT is warm.

KahaDB enlarges a file before it writes into it, so bytes on disk are counted in blocks.
"""

import hashlib
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE, Popen

from ..drivers.build import SOURCES
from ..drivers.run import Driven
from ..harness.cache import cache_folder
from ..harness.child import BenchFault
from ..harness.proc_meters import cpu_s
from ..harness.unavailable import Unavailable, program_path
from .disk_bytes import allocated_bytes_of
from .lifecycle import LoopbackServer
from .maven import java
from .way import MESSAGE_BYTES, Way

_JARS = Path("/usr/share/java")
_NEEDED = (
    "activemq-broker",
    "activemq-client",
    "activemq-kahadb-store",
    "activemq-openwire-legacy",
    "activemq-protobuf",
    "hawtbuf",
    "geronimo-jms_1.1_spec",
    "geronimo-j2ee-management-1.1-spec",
    "slf4j-api",
    "slf4j-nop",
)


class ActiveMQ(LoopbackServer):
    """One server and one client process."""

    name = "ActiveMQ"

    def __init__(self, folder: Path, *, warm_up_messages: int = 0) -> None:
        """`warm_up_messages`: sent and read at the start, so that both JVMs have compiled what runs hot."""
        super().__init__(folder)
        self._warm_up_messages = warm_up_messages
        self._client: Popen[str] | None = None
        self._in_queue: dict[str, int] = {}
        self._grown = 0

    def version(self) -> str:
        _class_path()
        found = sorted(_JARS.glob("activemq-broker-*.jar"))
        return f"ActiveMQ {found[-1].stem.rpartition('-')[2]}" if found else "ActiveMQ"

    def command(self) -> Sequence[str]:
        return [java(), "-Xmx1G", "-Xms1G", "-cp", _classes(), "ActiveMqServer", str(self.port), str(self.data)]

    def start(self) -> None:
        super().start()
        self._client = Popen([java(), "-cp", _classes(), "ActiveMqClient", str(self.port)], stdin=PIPE, stdout=PIPE, text=True)
        assert self._client.stdout is not None
        if self._client.stdout.readline().strip() != "ready":
            raise BenchFault("ActiveMQ's client did not start")
        if self._warm_up_messages:
            self._ask(f"produce warm {self._warm_up_messages} {MESSAGE_BYTES} 0", self._warm_up_messages)
            self._ask(f"consume warm {self._warm_up_messages} {MESSAGE_BYTES}", self._warm_up_messages)

    def stop(self) -> None:
        try:
            if self._client is not None and self._client.stdin is not None:
                self._client.stdin.close()
                self._client.terminate()
                self._client.wait(timeout=20)
        finally:
            super().stop()

    def ways(self) -> list[Way]:
        """Return how it is used."""
        return [
            self._way("ActiveMQ", "KahaDB without forced sync, asynchronous sends; optimizeAcknowledge, prefetch 1000", 0),
            self._way("ActiveMQ, transactions of 50", "KahaDB without forced sync, a commit each 50 messages", 50, False),
        ]

    def _way(self, subject: str, how: str, transaction: int, consumes: bool = True) -> Way:
        def produce(topic: str, messages: int) -> Driven:
            before = allocated_bytes_of(self.data)
            driven = self._ask(f"produce {topic} {messages} {MESSAGE_BYTES} {transaction}", messages)
            self._grown = allocated_bytes_of(self.data) - before
            self._in_queue[topic] = self._in_queue.get(topic, 0) + messages
            return driven

        def consume(topic: str, messages: int) -> Driven:
            self._in_queue[topic] -= messages
            return self._ask(f"consume {topic} {messages} {MESSAGE_BYTES}", messages)

        return Way(
            subject=subject,
            how=how,
            count=40_000,
            produce=produce,
            consume=consume if consumes else None,
            disk_bytes=lambda _: self._grown,
            forget=self._drain,
            consuming_empties=True,
        )

    def _drain(self, topic: str) -> None:
        """Read what is left: KahaDB deletes a journal file only when every message in it was read."""
        count = self._in_queue.pop(topic, 0)
        if count:
            self._ask(f"consume {topic} {count} {MESSAGE_BYTES}", count)

    def _ask(self, task: str, count: int) -> Driven:
        client = self._client
        assert client is not None
        assert client.stdin is not None
        assert client.stdout is not None
        before = cpu_s(self.pids)
        client.stdin.write(task + "\n")
        client.stdin.flush()
        line = client.stdout.readline()
        used = cpu_s(self.pids) - before
        if not line.startswith("{"):
            raise BenchFault(f"ActiveMQ's client failed at '{task}':\n{self.broker.tail()}")
        words = json.loads(line)
        if words["count"] != count:
            raise BenchFault(f"ActiveMQ's client did {words['count']} of {count} at '{task}'")
        return Driven(server_cpu_s=used, more={"client": f"its Java client {self.version().split()[-1]}"}, **words)


def _class_path() -> str:
    absent = [name for name in _NEEDED if not (_JARS / f"{name}.jar").exists()]
    if absent:
        raise Unavailable(f"ActiveMQ: no {', '.join(absent)} in {_JARS} (Debian: activemq, libactivemq-java, libslf4j-java)")
    return ":".join(str(_JARS / f"{name}.jar") for name in _NEEDED)


def _classes() -> str:
    return f"{_class_path()}:{_compiled()}"


def _compiled() -> Path:
    compiler = program_path(
        "javac", otherwise="ActiveMQ: its Java client cannot be built without javac (Debian: default-jdk-headless)"
    )
    sources = sorted((SOURCES / "java").glob("*.java"))
    mark = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    folder = cache_folder() / "drivers" / f"activemq-{mark}"
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [compiler, "-cp", _class_path(), "-d", str(folder), *map(str, sources)], capture_output=True, text=True
        )
        if done.returncode:
            raise Unavailable(f"ActiveMQ: its Java client does not compile: {done.stderr.strip()[:400]}")
        (folder / "complete").touch()
    return folder
