"""`kafka-acls.sh` on our broker, unchanged: by the class behind it, of Apache Kafka's jars. Real broker and ZooKeeper."""

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.harness.unavailable import Unavailable
from bench.peers import maven
from tests.support.broker import BrokerProcess

from .kafka import TOOLS, VERSION


@pytest.fixture(scope="module")
def jars() -> Path:
    try:
        maven.java()
        return maven.jars(f"kafka-tools-{VERSION}", TOOLS, what="Kafka's command line tools")
    except Unavailable as error:
        pytest.skip(f"wants Kafka's command line tools: {error}")


@pytest.fixture(scope="module")
def broker(jars: Path, zookeeper_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    chroot = f"{zookeeper_address}/rights-{uuid.uuid4().hex[:8]}"
    with BrokerProcess(tmp_path_factory.mktemp("broker"), chroot, settings=settings) as running:
        yield running


def test_kafka_acls_adds_lists_and_removes_rules(broker: BrokerProcess, jars: Path) -> None:
    def acls(*words: str) -> str:
        command = [maven.java(), "-Xmx128M", "-cp", f"{jars}/*", "org.apache.kafka.tools.AclCommand"]
        words = ("--bootstrap-server", broker.address, *words)
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
        return done.stdout

    acls("--add", "--allow-principal", "User:shop", "--producer", "--topic", "clicks")
    acls(
        "--add",
        "--allow-principal",
        "User:fraud",
        "--consumer",
        "--topic",
        "cl",
        "--group",
        "*",
        "--resource-pattern-type",
        "prefixed",
    )
    acls("--add", "--deny-principal", "User:shop", "--deny-host", "10.0.0.9", "--operation", "All", "--cluster")
    listed = acls("--list", "--topic", "clicks", "--resource-pattern-type", "match")
    assert "User:shop" in listed
    assert "User:fraud" in listed
    assert "operation=WRITE" in listed
    assert "patternType=PREFIXED" in listed
    assert "permissionType=DENY" in acls("--list", "--cluster")
    acls("--remove", "--force", "--allow-principal", "User:shop", "--producer", "--topic", "clicks")
    left = acls("--list")
    assert "principal=User:shop, host=*" not in left
    assert "User:fraud" in left
    acls("--remove", "--force", "--topic", "cl", "--resource-pattern-type", "prefixed")
    assert "User:fraud" not in acls("--list", "--topic", "clicks", "--resource-pattern-type", "match")
