"""The memory of a burst of connections returns to the system. A real broker process, real sockets."""

import resource
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient, batch, frame, produce_body

CONNECTIONS = 3_000
CUT = frame(0, 9, 1, produce_body("clicks", batch(b"x" * 9_000)))[:8_000]
"""A request whose end never comes."""


def resident_mb(pid: int) -> float:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


@pytest.fixture
def many_files() -> Iterator[None]:
    """Allow this process as many open files as there are connections."""
    usual, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (usual, most))


@pytest.mark.usefixtures("many_files")
def test_memory_of_three_thousand_connections_is_given_back(zookeeper_address: str, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, f"{zookeeper_address}/memory-{uuid.uuid4().hex[:8]}") as broker:
        before_mb = resident_mb(broker.pid)
        clients = [RawClient(broker.port) for _ in range(CONNECTIONS)]
        for client in clients:
            client.socket.sendall(CUT)
        eventually(lambda: resident_mb(broker.pid) > before_mb + 20, what="the burst takes memory")
        for client in clients:
            client.close()
        eventually(lambda: resident_mb(broker.pid) < before_mb + 10, within_ms=60_000, what="it is given back")
