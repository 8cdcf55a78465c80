"""One whole platform for the end-to-end tests of a session: ZooKeepers, brokers, registry, audit, mirror, consumers, Airflow."""

from collections.abc import Iterator

import pytest

from headrace.local import preflight
from headrace.local.supervisor import process_table
from headrace.runtime.layout import Layout
from tests.support.platform import Platform


def free_shift(above: int = 10_000) -> int:
    """Return a port shift under which every port of the platform is free now."""
    for shift in range(above, 50_000, 500):
        layout = Layout.from_environment({"PORT_SHIFT": str(shift)})
        ports = [spec.port for spec in process_table.load(layout) if spec.port is not None] + [layout.port(8000)]
        if all(preflight.is_free(port) for port in ports):
            return shift
    raise AssertionError("no free range of ports on this machine")


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """The running platform; stopped at the end, its logs left in pytest's folder."""
    running = Platform(tmp_path_factory.mktemp("platform"), free_shift())
    try:
        yield running.up()
    finally:
        running.down()
