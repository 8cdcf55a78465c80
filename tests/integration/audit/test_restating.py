"""An operator has the mirror report again: where nothing was wrong, nothing changes; a mirror that is down does it later."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from tests.support.audit_service import AuditService
from tests.support.audited_application import AuditedApplication, W
from tests.support.broker import BrokerProcess
from tests.support.processes import Process, eventually

from .conftest import SETTINGS

ALL = SETTINGS.replace('["producer", "live"]', '["producer", "live", "mirror", "offline"]').replace("4000", "60000")


@pytest.fixture
def mirror(live: BrokerProcess, offline: BrokerProcess, zookeeper_chroot: str, tmp_path: Path) -> Iterator[Process]:
    command = [sys.executable, "-m", "headrace.cli.main", "mirror", "run", "--source", live.address]
    command += ["--destination", offline.address, "--destination-zookeeper", f"{zookeeper_chroot}-offline"]
    one = Process(command, tmp_path / "mirror.log")
    yield one.start()
    one.kill()


@pytest.fixture
def restate(mirror: Process, zookeeper_chroot: str) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "headrace.cli.main", "audit", "restate", "mirror", *words]
        command += ["--destination-zookeeper", f"{zookeeper_chroot}-offline"]
        return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)

    return run


@pytest.mark.situation("groups and sinks", "a group is rewound")
def test_restating_changes_no_cell_and_is_shown_as_redelivered(
    live: BrokerProcess,
    offline: BrokerProcess,
    mirror: Process,
    audit: Callable[..., AuditService],
    restate: Callable[..., "subprocess.CompletedProcess[str]"],
) -> None:
    """Names a lack of the issue's section 5: an operator could not have a mirror restate."""
    service = audit(live.address, offline=offline.address, settings=ALL)
    cluster = Cluster(live.address)
    create_topic(cluster, "clicks", 2)
    cluster.close()
    application = AuditedApplication(live.address, "clicks")
    counts = application.log(sorted(number % 7 * W for number in range(700)))
    application.seal()
    application.close()

    def cells() -> dict[int, tuple[str, Any]]:
        assert {window["doubled"] for window in service.windows("clicks").values()} <= {0}
        return {start: (window["verdict"], window["tiers"]) for start, window in service.windows("clicks").items()}

    def redelivered() -> dict[int, int]:
        return {start: window["redelivered"] for start, window in service.windows("clicks").items()}

    expected = {start: ("COMPLETE", dict.fromkeys(("producer", "live", "mirror", "offline"), n)) for start, n in counts.items()}
    eventually(lambda: cells() == expected, within_ms=40_000, what="every window COMPLETE")
    assert set(redelivered().values()) == {0}

    done = restate("clicks", "--wait", "60")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "the mirror has reported again what it holds of clicks, partition 0, 1\n"
    eventually(lambda: redelivered() == counts, what="each record told again")
    assert cells() == expected

    assert mirror.stop() == 0
    late = restate("clicks", "--partition", "1", "--wait", "0.2")
    assert (late.returncode, "after 0.2 s the mirror has not reported again of partition 1" in late.stderr) == (1, True)
    mirror.start()
    eventually(lambda: mirror.output().count('"restated"') == 3, what="partition 1 said again by the next mirror")
    again = next(line for line in reversed(mirror.output().splitlines()) if '"restated"' in line)
    assert '"partition": 1' in again
    eventually(lambda: sum(redelivered().values()) > 700, what="partition 1 told again")
    assert cells() == expected


def test_what_the_mirror_never_reported_of_is_refused(restate: Callable[..., "subprocess.CompletedProcess[str]"]) -> None:
    done = restate("nothing")
    assert (done.returncode, "has never reported of topic 'nothing'" in done.stderr) == (2, True)
