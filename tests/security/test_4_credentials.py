"""Credentials that are revoked, expire or are rotated while the platform runs: told clearly, tried seldom, used again at once.

One platform for all tests: live behind SCRAM over TLS, offline behind client certificates. A broker is killed each time, because
Kafka looks at credentials only when a connection begins.
"""

import re
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.local.supervisor.state import ProcessState
from tests.security.looking import in_text
from tests.security.secured_platform import SCRAM_PASSWORD, SECOND_PASSWORD, SecuredPlatform
from tests.support.access_logs import generate, window_counts
from tests.support.processes import accepts, eventually
from tests.support.tier_counts import in_cluster

pytestmark = pytest.mark.whole

CLIENTS_OF_LIVE = ("registry", "audit", "mirror", "consumer-1", "consumer-2", "agent")
CLIENTS_OF_OFFLINE = ("audit", "mirror")
MEASURED_S = 60
MOST_A_MINUTE = 10
"""Refused logins of one process in its first minute: pauses of 1, 2, 4, 8, 16 and 32 s, and what threads began together."""


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredPlatform]:
    folder = tmp_path_factory.mktemp("credentials")
    running = SecuredPlatform(folder / "home", folder / "outside", has_airflow=False)
    try:
        yield running.up()
    finally:
        running.down()


def by_name(platform: SecuredPlatform) -> dict[str, ProcessState]:
    return {one.name: one for one in platform.state().processes}


def status_of(platform: SecuredPlatform, name: str) -> str:
    """Return what the process tells of itself: its page, where it has one, else its status file."""
    layout = platform.layout
    pages = {"registry": f"{layout.registry_url}/readyz", "agent": f"http://{layout.address(9097)}/status"}
    if name not in pages:
        return (layout.run / f"{name}.json").read_text()
    with urllib.request.urlopen(pages[name], timeout=20) as answer:
        return str(answer.read().decode())


def refused_logins(platform: SecuredPlatform, broker: str) -> int:
    return len(re.findall("Failed authentication", (platform.layout.logs / f"{broker}.log").read_text()))


def restart_behind(platform: SecuredPlatform, broker: str, clear_port: int) -> None:
    """Kill the broker; return when it is back. The supervisor cannot see it: its own login is refused, too."""
    pid = platform.signal(broker, signal.SIGKILL)
    eventually(lambda: by_name(platform)[broker].pid not in (None, pid), within_ms=60_000, what=f"{broker} started again")
    eventually(lambda: accepts(clear_port), within_ms=120_000, what=f"{broker} back")


def assert_told_and_tried_seldom(platform: SecuredPlatform, broker: str, clients: tuple[str, ...], words: str) -> None:
    """Wait until each client says so in its status, and for a minute; then count the attempts by the server's log."""
    began = time.monotonic()
    before = refused_logins(platform, broker)

    def is_told(name: str) -> bool:
        said = status_of(platform, name)
        assert re.search(words, said), f"{name} says {said!r}"
        logged = (platform.layout.logs / f"{name}.log").read_text()
        return any("refused_by_broker" in line and re.search(words, line) for line in logged.splitlines())

    for name in clients:
        eventually(lambda name=name: is_told(name), within_ms=120_000, what=f"{name} tells")  # type: ignore[misc]
    if broker == "broker-live":
        for name in ("consumer-1", "consumer-2", broker):
            eventually(lambda name=name: re.search(words, by_name(platform)[name].reason or ""), what=f"{name} is not ready")  # type: ignore[misc]
    eventually(lambda: time.monotonic() - began > MEASURED_S, within_ms=2 * MEASURED_S * 1_000)
    minutes = (time.monotonic() - began) / 60
    attempts = refused_logins(platform, broker) - before
    assert 0 < attempts <= MOST_A_MINUTE * (len(clients) + 1) * minutes, f"{attempts} attempts in {minutes:.1f} minutes"
    said = "\n".join(status_of(platform, name) for name in clients)
    said += "\n".join(one.reason or "" for one in platform.state().processes)
    assert in_text("status", said, platform.secrets()) == []


def assert_all_ready(platform: SecuredPlatform, pids: dict[str, int | None]) -> None:
    """Wait until everything is ready; none of the clients may have been started again."""

    def is_ready() -> bool:
        return not [f"{one.name}: {one.reason}" for one in platform.state().processes if one.state != "ready"]

    eventually(is_ready, within_ms=120_000, what="every process ready again")
    now = {name: one.pid for name, one in by_name(platform).items()}
    assert {name: now[name] for name in pids} == pids, "a client was started anew"


def assert_all_mirrored(platform: SecuredPlatform, topic: str, raw: Path) -> None:
    expected = window_counts(raw)
    assert in_cluster(platform.layout.live_bootstrap, topic, platform.live_words(platform.password)) == expected
    eventually(
        lambda: in_cluster(platform.layout.offline_bootstrap, topic, platform.offline_words()) == expected,
        within_ms=120_000,
        what=f"{topic} in the offline cluster",
    )
    eventually(
        lambda: all(platform.windows(topic)[start]["tiers"].get("offline") == count for start, count in expected.items()),
        within_ms=120_000,
        what=f"{topic} counted by the audit",
    )


def test_a_revoked_password_is_told_and_its_successor_is_used_at_once(platform: SecuredPlatform, tmp_path: Path) -> None:
    raw = generate(tmp_path / "before.log", lines=300, hours=1, seed=71)
    platform.headrace("replay", str(raw), "--topic", "access_log")
    assert_all_mirrored(platform, "access_log", raw)
    pids = {name: by_name(platform)[name].pid for name in CLIENTS_OF_LIVE}
    platform.replace_password(SECOND_PASSWORD)
    restart_behind(platform, "broker-live", platform.live.clear_port)
    assert_told_and_tried_seldom(platform, "broker-live", CLIENTS_OF_LIVE, "SCRAM-SHA-512")
    platform.write_live(SECOND_PASSWORD)
    assert_all_ready(platform, pids)
    more = generate(tmp_path / "after.log", lines=300, hours=1, seed=72)
    platform.headrace("replay", str(more), "--topic", "after_password")
    assert_all_mirrored(platform, "after_password", more)


@pytest.mark.parametrize("fault", ["expired", "of_a_stranger"])
def test_a_certificate_that_is_refused_is_told_and_its_successor_is_used_at_once(
    platform: SecuredPlatform, tmp_path: Path, fault: str
) -> None:
    pids = {name: by_name(platform)[name].pid for name in CLIENTS_OF_LIVE}
    if fault == "expired":
        platform.replace_certificate(platform.authority, is_expired=True)
    else:
        platform.replace_certificate(platform.stranger)
    restart_behind(platform, "broker-offline", platform.offline.clear_port)
    raw = generate(tmp_path / "meanwhile.log", lines=300, hours=1, seed=73)
    platform.headrace("replay", str(raw), "--topic", f"meanwhile_{fault}")
    assert_told_and_tried_seldom(platform, "broker-offline", CLIENTS_OF_OFFLINE, "certificate|refuses")
    platform.replace_certificate(platform.authority)
    assert_all_ready(platform, pids)
    assert_all_mirrored(platform, f"meanwhile_{fault}", raw)


def test_logs_grew_little_and_hold_no_secret(platform: SecuredPlatform) -> None:
    """In minutes of refusals nobody wrote a line for each try."""
    for path in platform.layout.logs.glob("*.log"):
        text = path.read_text(errors="replace")
        assert in_text(path.name, text, platform.secrets() | {"first": SCRAM_PASSWORD.encode()}) == []
        if not path.name.startswith("broker-"):
            assert len(text.splitlines()) < 600, path.name
