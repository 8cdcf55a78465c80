"""HAProxy with `deploy/haproxy/haproxy.cfg` in front of two brokers and a registry: a broker that is killed is taken out, and
clients continue bootstrapping through the same address.
"""

import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.integration.deploy.haproxy import running
from tests.integration.deploy.site import Site
from tests.support.broker import BrokerProcess
from tests.support.processes import Process, eventually
from tests.support.registry import RegistryProcess

pytestmark = pytest.mark.needs("haproxy")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def brokers(site: Site, zookeeper_chroot: str) -> Iterator[list[BrokerProcess]]:
    """The two brokers that the file names, on the ports that it names."""
    made = [
        BrokerProcess(
            site.folder / f"broker-{broker_id}",
            zookeeper_chroot,
            broker_id=broker_id,
            port=site.port(port),
            settings={"http.port": site.port(http_port)},
        )
        for broker_id, port, http_port in ((1, 9092, 9094), (2, 9292, 9294))
    ]
    try:
        yield [one.start() for one in made]
    finally:
        for one in made:
            one.kill()


@pytest.fixture
def registry(site: Site, brokers: list[BrokerProcess]) -> Iterator[RegistryProcess]:
    made = RegistryProcess(site.folder / "registry", brokers[0].address)
    site.set_port(8081, made.port)
    yield made.start()
    made.process.kill()


@pytest.fixture
def haproxy(site: Site, registry: RegistryProcess) -> Iterator[Process]:
    yield from running(site, "haproxy/haproxy.cfg")


def states(site: Site, proxy: str) -> dict[str, str]:
    """Return what HAProxy itself says of the servers behind one of its addresses."""
    with urlopen(f"http://127.0.0.1:{site.port(8405)}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    name = f'haproxy_server_status{{proxy="{proxy}",server="'
    found = [line.split('"') for line in lines if line.startswith(name) and line.endswith(" 1")]
    return {words[3]: words[5] for words in found}


def bootstrap(site: Site) -> set[int]:
    """Return the brokers that a new client hears of."""
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{site.port(9090)}", "log_level": 0})
    try:
        return set(admin.list_topics(timeout=5).brokers)
    except KafkaException as error:
        raise AssertionError(str(error)) from error


def test_clients_bootstrap_through_it_while_a_broker_is_killed_and_comes_back(
    site: Site, brokers: list[BrokerProcess], haproxy: Process
) -> None:
    up, down = "UP", "DOWN"
    eventually(lambda: states(site, "bootstrap-live") == {"broker-1": up, "broker-2": up}, what="both brokers up")
    assert bootstrap(site) == {1, 2}
    brokers[0].kill()
    eventually(lambda: states(site, "bootstrap-live") == {"broker-1": down, "broker-2": up}, what="the killed one taken out")
    for _ in range(5):
        assert bootstrap(site) >= {2}
    topic = f"clicks-{uuid.uuid4().hex[:8]}"
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{site.port(9090)}", "log_level": 0})
    eventually(lambda: bootstrap(site) == {2}, within_ms=60_000, what="the cluster without the killed one")
    for number in range(100):
        producer.produce(topic, f"event {number}".encode())
    assert producer.flush(30) == 0
    brokers[0].start()
    eventually(lambda: states(site, "bootstrap-live") == {"broker-1": up, "broker-2": up}, what="taken in again")
    eventually(lambda: bootstrap(site) == {1, 2}, what="both brokers again")


def test_the_registry_answers_through_it(site: Site, haproxy: Process) -> None:
    eventually(lambda: states(site, "registry") == {"registry-1": "UP"}, what="the registry up")
    with urlopen(f"http://127.0.0.1:{site.port(8082)}/subjects", timeout=5) as answer:
        assert (answer.status, answer.read()) == (200, b"[]")
