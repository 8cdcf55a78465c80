"""One whole platform for the end-to-end tests of a session: ZooKeepers, brokers, registry, audit, mirror, consumers, Airflow."""

from collections.abc import Iterator

import pytest

from tests.support.platform import Platform, free_shift


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """The running platform; stopped at the end, its logs left in pytest's folder."""
    running = Platform(tmp_path_factory.mktemp("platform"), free_shift())
    try:
        yield running.up()
    finally:
        running.down()
