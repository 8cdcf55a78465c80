"""Empty stores of both kinds, and the audit service's parts on each, closed at the end of the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgresql import PostgresqlServer
from tests.unit.audit.service_parts import Service


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("postgresql"))])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What `--store` is given: an empty store, once of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "audit" / "books.sqlite")
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return server.new_database()


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
