"""`headrace status` and readiness of a running platform whose disk is full, and whose mirror cannot continue: what, where,
why.
"""

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.crash.small_disk import MIB, SmallDisk
from tests.support.platform import Platform, free_shift, table_of
from tests.support.processes import eventually

PARTS = ("zookeeper-live", "zookeeper-offline", "broker-live", "broker-offline", "audit", "mirror")
STALL_MS = 3_000
WITHIN_MS = 90_000

pytestmark = pytest.mark.needs("mounted disk")


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """A platform whose home is a small disk of its own, and whose mirror soon says that it makes no progress."""
    folder = tmp_path_factory.mktemp("in-need")
    disk = SmallDisk(folder / "home", mib=512)
    mirror = '"--destination-zookeeper", "127.0.0.1:{port[2182]}"'
    with pytest.MonkeyPatch.context() as patch:
        table = table_of(folder / "table.toml", PARTS, {mirror: f'{mirror}, "--stall-after-ms", "{STALL_MS}"'})
        patch.setenv("HEADRACE_PROCESS_TABLE", str(table))
        running = Platform(disk.folder, free_shift())
        try:
            yield running.up()
        finally:
            running.down()
            disk.end()


def ask(platform: Platform, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run `headrace status`."""
    command = platform.command("status", *words)
    return subprocess.run(command, env=platform.environment, capture_output=True, text=True, timeout=120, check=False)


def status(platform: Platform) -> tuple[int, dict[str, str]]:
    """Return the exit code of `headrace status`, and process → what it says of each that is not well."""
    done = ask(platform, "--json")
    rows = json.loads(done.stdout)
    return done.returncode, {row["name"]: f"{row['state']}: {row['reason']}" for row in rows if row["state"] != "ready"}


ALL_WELL = (0, dict[str, str]())


def readyz(platform: Platform, port: int) -> tuple[int, str]:
    url = f"http://127.0.0.1:{platform.layout.port(port)}/readyz"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.situation(
    "audit's own data",
    "the disk of the audit's store, or of a log, is full",
    shown="the process is not ready (`/readyz`, `headrace status`); verdicts wait",
    when="within seconds",
    do="make room",
)
def test_a_full_disk_is_told_by_status_and_by_each_readyz_until_there_is_room(platform: Platform) -> None:
    assert status(platform) == ALL_WELL
    filler = platform.layout.home / "filler"
    try:
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(MIB))
        for port in (9094, 9194, 8090):
            eventually(lambda port=port: readyz(platform, port)[0] == 503, within_ms=WITHIN_MS, what=f"{port} not ready")
            assert "the disk is full" in readyz(platform, port)[1], port
        done = ask(platform)
        assert done.returncode == 1
        assert f"the disk is full: {platform.layout.home} has" in done.stderr
    finally:
        filler.unlink(missing_ok=True)
    eventually(lambda: status(platform) == ALL_WELL, within_ms=WITHIN_MS, every_ms=500, what="all well by itself")


@pytest.mark.situation(
    "mirror",
    "the mirror makes no progress",
    shown="`headrace status` names the cause; OPEN, then UNKNOWN, `silent: mirror`",
    when="after `--stall-after-ms` (a minute); its deadline",
    do="follow `headrace status`",
)
def test_a_mirror_that_stands_still_is_told_by_status_with_the_partition_until_it_moves(platform: Platform) -> None:
    live = platform.layout.live_bootstrap
    admin = AdminClient({"bootstrap.servers": live})
    admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(30)
    producer = Producer({"bootstrap.servers": live})
    producer.produce("orders", b"1")
    assert producer.flush(20) == 0
    eventually(lambda: "orders" in platform.topics(platform.layout.offline_bootstrap), within_ms=WITHIN_MS, what="mirrored")
    offline = platform.process("broker-offline").pid
    assert offline is not None
    os.killpg(offline, signal.SIGSTOP)
    try:
        producer.produce("orders", b"2")
        assert producer.flush(20) == 0

        def told() -> bool:
            code, seen = status(platform)
            words = seen.get("mirror", "")
            return code == 1 and "has made no progress since 20" in words and "orders-0" in words

        eventually(told, within_ms=WITHIN_MS, every_ms=500, what="the mirror's standstill told")
    finally:
        os.killpg(offline, signal.SIGCONT)
    eventually(lambda: status(platform) == ALL_WELL, within_ms=WITHIN_MS, every_ms=500, what="all well by itself")
