"""Mirrors between two brokers: ours, and Kafka's MirrorMaker 2 in a Connect worker of its own (standalone: no topics of Connect).

MirrorMaker 2 keeps names (identity policy) and copies records alone: no offset syncs, no topic settings, no ACLs.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from headrace.local.kafka.jars import VERSION

from ..harness.child import Child, free_port
from . import maven
from .headrace import Headrace
from .maven import Artifact

MIRROR = "headrace mirror"
MIRROR_MAKER = "MirrorMaker 2"


def mirror(folder: Path, source: Headrace, destination: Headrace, topic: str) -> Child:
    """Return ours, not started: it copies every topic."""
    command = [sys.executable, "-m", "headrace.cli.main", "mirror", "run", "--status-file", str(folder / "status.json")]
    command += ["--source", source.bootstrap, "--destination", destination.bootstrap]
    command += ["--destination-zookeeper", f"127.0.0.1:{destination.zookeeper.port}"]
    return Child(command, folder / "log", port=free_port())


def mirror_maker(folder: Path, source: Headrace, destination: Headrace, topic: str) -> Child:
    """Return MirrorMaker 2, not started: it copies this topic. Raises Unavailable."""
    jars = maven.jars(
        f"mirror-maker-{VERSION}",
        [
            Artifact("org.apache.kafka", "connect-mirror", VERSION),
            Artifact("org.apache.kafka", "connect-runtime", VERSION),
            Artifact("org.slf4j", "slf4j-simple", "1.7.36"),
        ],
        what=f"MirrorMaker {VERSION}",
    )
    port = free_port()
    bytes_as_they_are = "org.apache.kafka.connect.converters.ByteArrayConverter"
    worker = {
        "bootstrap.servers": destination.bootstrap,
        "key.converter": bytes_as_they_are,
        "value.converter": bytes_as_they_are,
        "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": "1000",
        "listeners": f"http://127.0.0.1:{port}",
    }
    connector = {
        "name": "mirror",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "tasks.max": "1",
        "source.cluster.alias": "source",
        "target.cluster.alias": "destination",
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.bootstrap.servers": destination.bootstrap,
        "topics": topic,
        "replication.factor": "1",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "emit.offset-syncs.enabled": "false",
        "emit.heartbeats.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "sync.topic.configs.enabled": "false",
        "refresh.topics.interval.seconds": "2",
    }
    words = [_written(folder / "worker.properties", worker), _written(folder / "connector.properties", connector)]
    flags = ["-Xmx2G", "-server", "-XX:+UseG1GC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    command: Sequence[str] = [maven.java(), *flags, "-cp", f"{jars}/*", "org.apache.kafka.connect.cli.ConnectStandalone", *words]
    return Child(command, folder / "log", port=port)


def _written(path: Path, settings: dict[str, str]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)
