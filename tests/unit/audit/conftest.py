"""Empty stores of both kinds, of PostgreSQL in each version that can be had, and the audit service's parts on each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.audit_parts import Service
from tests.support.postgresql import PostgresqlServer, PostgresqlServers, each_version


@pytest.fixture(params=["sqlite", *each_version()])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What `--store` is given: an empty store, once of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "audit" / "books.sqlite")
    servers: PostgresqlServers = request.getfixturevalue("postgresql_servers")
    return servers.of(request.param).new_database()


@pytest.fixture
def postgresql_alone() -> Iterator[PostgresqlServer]:
    """A server that only this test uses: the test may kill it."""
    server = PostgresqlServer()
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture
def service(store: str) -> Iterator[Service]:
    made = Service(store)
    yield made
    made.database.close()
