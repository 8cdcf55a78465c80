"""Kills that provably landed: every process is killed with -9 while it works, and nothing is lost or doubled."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from headrace.local.airflow import processes
from headrace.local.supervisor.descendants import descendants
from tests.support.access_logs import generate, window_counts
from tests.support.platform import Platform
from tests.support.processes import Process, eventually

TOPIC = "access_log"


def ends(platform: Platform) -> tuple[int, int]:
    live = sum(platform.log_ends(platform.layout.live_bootstrap, TOPIC).values())
    offline = sum(platform.log_ends(platform.layout.offline_bootstrap, TOPIC).values())
    return live, offline


def freeze_mirror_behind(platform: Platform, began_at: int) -> int:
    """Freeze the mirror while the offline log is longer than at the start and shorter than the live one."""
    eventually(lambda: ends(platform)[1] > began_at, what="the mirror under way")
    pid = platform.signal("mirror", signal.SIGSTOP)

    def behind() -> bool:
        live, offline = ends(platform)
        return began_at < offline < live

    eventually(behind, what="offline log end between the start and the live log end")
    return pid


def family(pid: int) -> list[int]:
    """Return the pid and all its descendants: the Python driver's JVM and workers."""
    return [pid, *descendants(pid)]


def kill_load_at(platform: Platform, failpoint: str) -> None:
    """Trigger the DAG, kill the load job's driver, JVM and workers at the failpoint, and let Airflow's retry finish the run."""
    armed = platform.layout.home / "failpoints" / failpoint
    armed.parent.mkdir(exist_ok=True)
    reached = armed.with_name(f"{failpoint}.reached")
    reached.unlink(missing_ok=True)
    armed.touch()
    run_id = processes.trigger(platform.layout, "load_events")
    eventually(reached.exists, within_ms=300_000, what=f"the load job held at {failpoint}")
    for pid in family(int(reached.read_text())):
        os.kill(pid, signal.SIGKILL)
    armed.unlink()
    assert processes.wait(platform.layout, "load_events", run_id, timeout_ms=600_000) == "success"


def replay(platform: Platform, log: Path, rate: int) -> Process:
    return platform.in_background("replay", str(log), "--topic", TOPIC, "--rate", str(rate))


@pytest.mark.situation(
    "audit's own data",
    "a mirror, a broker or the audit service is killed at work",
    shown="nothing once it is back",
    when="after its restart",
    do="nothing",
)
def test_nothing_is_lost_or_doubled_whatever_is_killed_on_the_way(platform: Platform, tmp_path: Path) -> None:
    rows_before = Counter({row["h"]: row["n"] for row in rows_by_year(platform)}) if platform.windows(TOPIC) else Counter()
    log = generate(tmp_path / "kills.log", lines=40_000, hours=5, seed=3, year=2016)
    expected = window_counts(log)
    began_live, began_offline = ends(platform) if platform.windows(TOPIC) else (0, 0)
    replaying = replay(platform, log, rate=1_500)

    eventually(lambda: ends(platform)[0] > began_live, what="the replay under way")
    platform.kill("broker-live")
    assert replaying.is_running(), "the live broker was killed while the SDK was sending"

    platform.kill("consumer-1")
    assert replaying.is_running()

    pid = freeze_mirror_behind(platform, began_offline)
    platform.signal("mirror", signal.SIGKILL)
    platform.await_restart("mirror", pid)

    freeze_mirror_behind(platform, began_offline)
    broker_pid = platform.signal("broker-offline", signal.SIGKILL)
    platform.signal("mirror", signal.SIGCONT)
    platform.await_restart("broker-offline", broker_pid)

    platform.kill("audit")
    assert replaying.is_running(), "every kill landed while events were on their way"
    assert replaying.wait(within_ms=300_000) == 0, replaying.output()

    eventually(lambda: ends(platform)[0] == ends(platform)[1], within_ms=180_000, what="the mirror level with the live cluster")
    kill_load_at(platform, "load.before_commit")

    more = generate(tmp_path / "more.log", lines=2_000, hours=1, seed=4, year=2017)
    assert replay(platform, more, rate=100_000).wait(within_ms=180_000) == 0
    eventually(lambda: ends(platform)[0] == ends(platform)[1], within_ms=180_000, what="the mirror level with the live cluster")
    kill_load_at(platform, "load.after_commit")

    expected += window_counts(more)
    windows = platform.await_complete(TOPIC)
    for start, lines in expected.items():
        assert set(windows[start]["tiers"].values()) == {lines}, windows[start]
    rows = Counter({row["h"]: row["n"] for row in rows_by_year(platform)})
    rows.subtract(rows_before)
    assert {year: n for year, n in rows.items() if n} == {2016: 40_000, 2017: 2_000}
    assert platform.query(f"SELECT _topic_partition, _offset FROM {TOPIC}_all GROUP BY ALL HAVING count(*) > 1") == []


def rows_by_year(platform: Platform) -> list[dict[str, int]]:
    return platform.query(f"SELECT year(_timestamp) AS h, count(*) AS n FROM {TOPIC}_all GROUP BY 1")
