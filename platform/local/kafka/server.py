"""Runs one node of Apache Kafka (KRaft, broker and controller in one process, loopback only) with its data in one folder.

`python -m headrace.local.kafka.server PORT CONTROLLER_PORT FOLDER` formats the folder if needed and becomes the node by `exec`,
so the supervisor knows the JVM's own pid. With `SECURITY CLUSTER STATUS` behind these, the node is secured (`secured.py`).
`KAFKA_HEAP_OPTS` and `KAFKA_OPTS` mean what they mean in Kafka's own scripts.
"""

import os
import shlex
import subprocess
import sys
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import HeadraceError
from ...runtime.layout import LOOPBACK
from ..security.certificates import write_secret
from ..supervisor.zookeeper import java
from . import jars, secured

HEAP = "-Xmx512m -Xms128m"
FLAGS = ("-server", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
"""Two nodes share a machine with Spark and Airflow: the serial collector needs no threads of its own."""
LOG_FLAGS = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server=info",
    "-Dorg.slf4j.simpleLogger.log.kafka.authorizer.logger=info",  # who was denied what
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
)
MAIN_CLASS = "kafka.Kafka"
FORMAT_CLASS = "kafka.tools.StorageTool"
FORMAT_MS = 120_000


class KafkaError(HeadraceError):
    """A node of Apache Kafka cannot be started."""


def properties(port: int, controller_port: int, data: Path, security: Path | None = None) -> Mapping[str, str]:
    """Return the node's `server.properties`; with `security`, a folder of `headrace security init`, a secured one.

    What differs from Kafka's defaults has its reason here.
    Retention is off by time, because Kafka's age is the event's: a replayed log of 2015 would be deleted within minutes. Our
    clients say so for each topic they make, and the node says it for topics that others make by naming them.
    """
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(data),
        "num.partitions": "3",
        "log.retention.ms": "-1",
        "log.retention.check.interval.ms": "5000",  # what would delete young topics shows itself soon
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "log.segment.delete.delay.ms": "1000",
        **({} if security is None else secured.properties(port, controller_port, security)),
    }


def command(main_class: str, *words: str) -> list[str]:
    """Return the command line of one of Kafka's programs. Raises KafkaUnavailable."""
    heap = shlex.split(os.environ.get("KAFKA_HEAP_OPTS") or HEAP)
    more = shlex.split(os.environ.get("KAFKA_OPTS") or "")
    return [java(), *heap, *FLAGS, *LOG_FLAGS, *more, "-cp", f"{jars.fetched()}/*", main_class, *words]


def prepared(port: int, controller_port: int, folder: Path, security: Path | None = None) -> Path:
    """Write `server.properties` into the folder and format its data once; return the file. Raises KafkaError."""
    folder.mkdir(parents=True, exist_ok=True)
    data, written = folder / "data", folder / "server.properties"
    settings = properties(port, controller_port, data, security)
    write_secret(written, "".join(f"{name}={value}\n" for name, value in settings.items()).encode())
    if not (data / "meta.properties").exists():
        # Of the folder's path: two nodes of one home are two clusters. An id that begins with '-' would be taken for an option.
        identity = "H" + urlsafe_b64encode(uuid.uuid5(uuid.NAMESPACE_URL, str(folder.absolute())).bytes).decode()[1:22]
        words = ["format", "-t", identity, "-c", str(written), "--ignore-formatted"]
        if security is not None:
            words += secured.first_users(security)
        # From a file: other users of the machine see the command line.
        said = folder / "format.words"
        write_secret(said, "".join(f"{word}\n" for word in words).encode())
        line = command(FORMAT_CLASS, f"@{said}")
        done = subprocess.run(line, capture_output=True, text=True, timeout=FORMAT_MS / 1000, check=False)
        said.unlink()
        if done.returncode:
            raise KafkaError(f"Kafka's StorageTool refused to format {data}: {(done.stdout + done.stderr)[-2_000:]}")
    return written


def main(words: Sequence[str]) -> None:
    """Become a node of Apache Kafka."""
    if len(words) not in (3, 6):
        sys.exit("usage: python -m headrace.local.kafka.server PORT CONTROLLER_PORT FOLDER [SECURITY CLUSTER STATUS]")
    port, controller_port, folder = int(words[0]), int(words[1]), Path(words[2])
    security = Path(words[3]) if words[3:] else None
    try:
        line = command(MAIN_CLASS, str(prepared(port, controller_port, folder, security)))
    except HeadraceError as error:
        sys.exit(f"headrace: {error}")
    if security is not None:
        secured.begin(security, words[4], port, Path(words[5]))
    os.execv(line[0], line)


if __name__ == "__main__":
    main(sys.argv[1:])
