"""Fixtures that every kind of test may use: a real ZooKeeper, once per session, and a chroot of one's own in it. Leaves out, with
the reason, the tests that need of the machine what it lacks."""

import logging
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import times
from tests.support.machine import NEEDS, OF_ROOT
from tests.support.postgresql import PostgresqlServer, PostgresqlServers
from tests.support.zookeeper import ZooKeeperProcess

# What one test's registry said is nothing to the next one on the same port; the tests of the default name a folder.
os.environ["HEADRACE_SCHEMA_CACHE"] = "off"

OF_MAKE = ("PORT_SHIFT", "HEADRACE_HOME", "KEEP", "LOG", "HEADRACE_ENGINE", "HEADRACE_BROKERS", "HEADRACE_SECURE")
"""What `make` exports for the platform that it starts. A test says for itself which platform it means."""
for name in (*OF_MAKE, "HEADRACE_PROCESS_TABLE"):
    os.environ.pop(name, None)

# A shell's background job ignores SIGINT, and so would every process of the tests: no Ctrl-C would reach one.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No clock decides over a test here. CI takes the same examples every time, so that what lands does not hang on luck; every other
# run searches again and prints what reproduces a failure.
settings.register_profile(
    "headrace",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("headrace-fast", settings.get_profile("headrace"), max_examples=10)
settings.load_profile("headrace-fast" if os.environ.get("HEADRACE_TEST_FAST") else "headrace")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker in item.iter_markers("needs"):
            need = marker.args[0]
            lacking = NEEDS[need]()
            if lacking is not None:
                remedy = ": sudo make test-root" if need in OF_ROOT else ""
                item.add_marker(pytest.mark.skip(reason=f"{lacking}{remedy}"))
    if "PYTEST_XDIST_WORKER" in os.environ:  # the longest file first, so that no worker is left with it at the end
        seconds = times.recorded().files
        items.sort(key=lambda item: -seconds.get(item.path.relative_to(item.config.rootpath).as_posix(), 0))


@pytest.fixture(autouse=True)
def _logs_of_one_test() -> Iterator[None]:
    """Fault: a command that a test had run left its log handler behind, and a later test's stderr got what it could not write."""
    before, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.setLevel(level)
    for handler in logging.root.handlers[:]:
        if handler not in before and not type(handler).__module__.startswith("_pytest"):
            logging.root.removeHandler(handler)


@pytest.fixture(scope="session")
def zookeeper_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`host:port` of a real ZooKeeper that lives as long as the test session."""
    with ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server.address
        server.process.stop()


@pytest.fixture
def zookeeper_chroot(zookeeper_address: str) -> str:
    """`host:port/chroot`, the chroot this test's own."""
    return f"{zookeeper_address}/test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def own_zookeeper(tmp_path: Path) -> Iterator[ZooKeeperProcess]:
    """A ZooKeeper that only this test uses: the test may kill it."""
    with ZooKeeperProcess(tmp_path / "zookeeper") as server:
        yield server


@pytest.fixture(scope="session")
def postgresql_servers() -> Iterator[PostgresqlServers]:
    """Real PostgreSQL servers that live as long as the test session. Tests that use one are marked `needs("postgresql")`."""
    servers = PostgresqlServers()
    try:
        yield servers
    finally:
        servers.remove()


@pytest.fixture(scope="session")
def postgresql(postgresql_servers: PostgresqlServers) -> PostgresqlServer:
    """The one of the newest version that is installed."""
    return postgresql_servers.of()
