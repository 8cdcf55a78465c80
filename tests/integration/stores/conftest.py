"""The same tests over a local folder with SQLite and an object store with PostgreSQL; over a REST catalog if it is `whole`."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.spark.warehouse.settings import sqlite
from tests.support.postgresql import PostgresqlServer
from tests.support.rest_catalog import RestCatalogServer
from tests.support.versitygw import S3Server
from tests.support.warehouse_worlds import World, forget, s3_world

PASSWORD = "s3cret-of-the-catalog"
LOCAL = "local+sqlite"
S3 = pytest.param("s3+postgresql", marks=[pytest.mark.needs("s3"), pytest.mark.needs("postgresql")])
REST = pytest.param("s3+rest", marks=[pytest.mark.needs("s3"), pytest.mark.needs("rest catalog"), pytest.mark.whole])


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3-compatible server that lives as long as the test session."""
    server = S3Server(tmp_path_factory.mktemp("s3"))
    try:
        yield server.start()
    finally:
        server.kill()


@pytest.fixture
def rest(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalogServer]:
    bucket = s3.new_bucket(f"rest-{uuid.uuid4().hex[:8]}")
    server = RestCatalogServer(tmp_path_factory.mktemp("rest") / "server", f"s3://{bucket}/", s3.environment())
    try:
        yield server.start()
    finally:
        server.kill()


@pytest.fixture(params=[LOCAL, S3, REST])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = _made(request, tmp_path)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield made
    forget(made)


def _made(request: pytest.FixtureRequest, home: Path) -> World:
    if request.param == LOCAL:
        return World(home=home)
    s3: S3Server = request.getfixturevalue("s3")
    if request.param == "s3+rest":
        rest: RestCatalogServer = request.getfixturevalue("rest")
        return s3_world(home, s3, rest.uri, HEADRACE_LEASES_URI=sqlite(home / "leases.db"))
    postgresql: PostgresqlServer = request.getfixturevalue("postgresql")
    # Its server trusts everybody: the password is there to be looked for.
    return s3_world(home, s3, postgresql.new_database().replace("@", f":{PASSWORD}@"))
