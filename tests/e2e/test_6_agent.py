"""The platform's agent: what an application journals and what a log file holds, whoever is killed and however it is rotated."""

import re
import signal
import sys
from collections import Counter
from pathlib import Path

from tests.support.access_logs import generate, time_ms, window_counts
from tests.support.platform import Platform
from tests.support.processes import Process, eventually

TOPIC = "tailed_access_log"
"""Of deploy/local/agent.toml."""
TIERS = {"producer", "live", "mirror", "offline", "warehouse"}
LINES = 20_000
BAD_LINE = 12_000


def said(file: Path, mark: str) -> set[int]:
    """Return the numbers that the application attempted (?) or was told True for (+)."""
    return (
        {int(number) for number in re.findall(rf"^\{mark} (\d+)\n", file.read_text(), re.MULTILINE)} if file.exists() else set()
    )


def counted(platform: Platform, tier: str) -> int:
    return sum(window["tiers"].get(tier) or 0 for window in platform.windows(TOPIC).values())


def test_what_is_journaled_and_what_is_tailed_is_complete_though_application_and_agent_are_killed(
    platform: Platform, tmp_path: Path
) -> None:
    log = generate(tmp_path / "whole.log", lines=LINES, hours=3, seed=6, year=2018, bad_every=BAD_LINE)
    content, bad_line = log.read_bytes(), log.read_bytes().split(b"\n")[BAD_LINE - 1]
    half = len(content) // 2
    rotation = content.index(b"\n", half + half // 2) + 1
    tailed = platform.layout.home / "access_logs" / "site.log"
    tailed.write_bytes(content[:half])  # in the midst of a line, as a web server's buffer may end

    attempts = tmp_path / "attempts"
    words = ["-m", "tests.e2e.journaling_application", str(platform.layout.home / "journals"), TOPIC, str(attempts)]
    application = Process([sys.executable, *words], tmp_path / "application.log").start()
    try:
        eventually(lambda: len(said(attempts, "+")) > 300, what=f"the application journals: {application.output()}")
        agent_pid = platform.signal("agent", signal.SIGKILL)
        begun = len(said(attempts, "+"))
        eventually(lambda: len(said(attempts, "+")) > begun + 300, what="the application journals on while no agent runs")
    finally:
        application.kill()
    with tailed.open("ab") as file:
        file.write(content[half:rotation])
    tailed.rename(tailed.with_name("site.log.1"))
    tailed.write_bytes(content[rotation:])
    platform.await_restart("agent", agent_pid)

    attempted, taken = said(attempts, "?"), said(attempts, "+")
    eventually(lambda: counted(platform, "offline") >= LINES - 1 + len(taken), within_ms=120_000, what="all of it offline")
    platform.headrace("load", TOPIC)
    windows = platform.await_complete(TOPIC)
    lines = window_counts(log)
    lines[time_ms(bad_line) - time_ms(bad_line) % 600_000] -= 1
    for start, count in lines.items():
        assert windows[start]["tiers"].keys() == TIERS
        assert set(windows[start]["tiers"].values()) == {count}, windows[start]
    assert sum(window["quarantined"] for window in windows.values()) == 1, "the cut line"

    journaled = platform.query(f"SELECT path, count(*) AS n FROM {TOPIC}_all WHERE path LIKE '/journaled/%' GROUP BY path")
    times = Counter({int(row["path"].rpartition("/")[2]): row["n"] for row in journaled})
    assert set(times.values()) == {1}, "doubled"
    assert taken <= times.keys() <= attempted
    assert len(attempted) <= len(taken) + 1
    assert sum(windows[start]["tiers"]["warehouse"] for start in windows.keys() - lines.keys()) == len(times)
    statuses = platform.query(f"SELECT status, count(*) AS n FROM {TOPIC}_all WHERE client_ip <> '10.0.0.1' GROUP BY status")
    # an independent reading of the file: the status is the first number after the quoted request
    of_file = Counter(int(one.split(b'" ', 1)[1].split()[0]) for one in content.splitlines() if one != bad_line)
    assert {row["status"]: row["n"] for row in statuses} == of_file

    shown = platform.headrace("agent", "status", str(platform.layout.home / "agent" / "agent.toml"))
    assert "ready" in shown
    assert f"acknowledged {LINES - 1 + len(times)} records; ambiguous 0" in shown
