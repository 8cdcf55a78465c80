"""A platform for faults: ZooKeepers, brokers, registry, audit and mirror, as `make up` runs them, without Airflow and consumers.

At the end of the run a table says how soon each fault was told.
"""

from collections.abc import Iterator

import pytest

from tests.support.platform import Platform, free_shift, table_of

from .host_clock import HostClock
from .topics import TOLD

WITH_WAREHOUSE = (
    "swapped",
    "expired_early",
    "rolled_back",
    "twice_on_main",
    "twice_on_loads",
    "stray_row",
    "row_rewritten_away",
    "rewritten",
    "rotten_file",
    "qcase",
    "Qcase",
    "odd_fields",
)
"""The topics of which the warehouse is expected."""

PARTS = ("zookeeper-live", "zookeeper-offline", "broker-live", "broker-offline", "registry", "audit", "mirror")
SCAN_EVERY_S = 10
RETIRED_AFTER_S = 60
CATTLE = "cattle"
"""The application whose dead runs a rule retires."""
SETTINGS = f"""
[service]
discover_ms = 500
judge_every_ms = 250
scan_every_ms = {SCAN_EVERY_S * 1000}
[deadlines_ms]
default = 10000
[topics.default]
tiers = ["producer", "live", "mirror", "offline"]
[[retire]]
applications = "{CATTLE}"
after_ms = {RETIRED_AFTER_S * 1000}
reason = "hosts are cattle"
"""
SETTINGS += "".join(f'[topics.{name}]\nadds = ["warehouse"]\n' for name in WITH_WAREHOUSE)


@pytest.fixture(scope="session")
def audit_clock(tmp_path_factory: pytest.TempPathFactory) -> HostClock:
    """The clock of the host on which the platform's audit service runs."""
    return HostClock(tmp_path_factory.mktemp("clock"))


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory, audit_clock: HostClock) -> Iterator[Platform]:
    """The running platform; each test has topics of its own. Stopped at the end, its logs left in pytest's folder."""
    folder = tmp_path_factory.mktemp("platform")
    settings = folder / "audit.toml"
    settings.write_text(SETTINGS)
    with pytest.MonkeyPatch.context() as patch:
        variables = "".join(f'{name} = "{value}", ' for name, value in audit_clock.environment().items())
        changes = {
            "{deploy}/audit.toml": str(settings),
            'name = "audit"': f'name = "audit"\nenvironment = {{ {variables.removesuffix(", ")} }}',
        }
        table = table_of(folder / "table.toml", PARTS, changes)
        patch.setenv("HEADRACE_PROCESS_TABLE", str(table))
        running = Platform(folder / "home", free_shift())
        try:
            yield running.up()
        finally:
            running.down()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for what, seconds in TOLD.items():
        terminalreporter.write_line(f"told after {seconds:5.1f} s: {what}")
