"""A peer whose client cannot be built is skipped by name, and only that peer."""

from collections.abc import Iterator

import pytest

from bench.harness.servers import Servers
from bench.harness.unavailable import Unavailable
from bench.measures.ceiling import Ceiling
from bench.measures.other_peers import ways_of
from bench.peers.nats import Nats
from bench.peers.way import Way


class _WithoutClient(Nats):
    def version(self) -> str:
        return "nats-server 2"

    def start(self) -> None:
        self.folder.mkdir()

    def ways(self) -> list[Way]:
        raise Unavailable("driver nats_produce does not compile (Debian: libnats-dev)")


@pytest.fixture
def servers() -> Iterator[Servers]:
    made = Servers({Nats.name: _WithoutClient}, rounds=1, quick=True)
    yield made
    made.close()


def test_a_peer_without_its_client_has_no_ways_and_is_named(servers: Servers) -> None:
    assert ways_of(servers) == []
    assert servers.skipped == {Nats.name: "driver nats_produce does not compile (Debian: libnats-dev)"}


def test_a_peer_without_its_client_does_not_take_the_brokers_own_rows_along(servers: Servers) -> None:
    """The whole measure was skipped, ours included, where NATS's library could not be linked."""
    with Ceiling().cases(servers) as cases:
        assert cases == []
    assert list(servers.skipped) == [Nats.name]
