"""`headrace up` with SECURE=1: our brokers and ZooKeepers over TLS, each process with the least rights of its role. Nothing is
denied, records are equal in every tier, and no password is where it does not belong. `make demo SECURE=1` adds Airflow and Spark.
"""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.coordination.errors import ZooKeeperUnreachable
from headrace.coordination.session import Session
from headrace.local.security.files import password_of
from headrace.local.security.roles import ROLES
from headrace.runtime.layout import Layout
from tests.security.looking import Watch, in_files, in_text
from tests.support.access_logs import generate, window_counts
from tests.support.platform import Platform, free_shift, table_of
from tests.support.processes import eventually

TOPIC = "access_log"
NAMES = (
    "zookeeper-live",
    "zookeeper-offline",
    "broker-live",
    "broker-offline",
    "registry",
    "audit",
    "mirror",
    "consumer-1",
    "agent",
)


class SecuredPlatform(Platform):
    """Without Airflow and console, which takes half a minute less."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "home", free_shift(14_000))
        self.layout = Layout(home=folder / "home", port_shift=self.layout.port_shift, is_secured=True)
        self.environment |= {"HEADRACE_SECURE": "1", "HEADRACE_PROCESS_TABLE": str(table_of(folder / "table.toml", NAMES))}

    def as_role(self, role: str, *words: str) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            self.command(*words),
            env={**self.environment, **self.layout.as_role(role)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.said += [done.stdout, done.stderr]
        return done

    def secrets(self) -> dict[str, bytes]:
        found = {role.name: password_of(self.layout.security, role.name).encode() for role in ROLES if role.has_user}
        keys = {role.name: (self.layout.security / role.name / "keystore.pem").read_bytes() for role in ROLES}
        return found | {f"key of {name}": text.splitlines()[1] for name, text in keys.items()}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredPlatform]:
    running = SecuredPlatform(tmp_path_factory.mktemp("our-own"))
    try:
        running.headrace("up", within_s=300)
        yield running
    finally:
        running.down()


@pytest.fixture(scope="module", autouse=True)
def watch(platform: SecuredPlatform) -> Iterator[Watch]:
    watching = Watch(platform.secrets(), besides=b"no process of this test").start()
    try:
        yield watching
    finally:
        watching.stop()


def test_what_an_application_logs_is_the_same_in_every_tier(platform: SecuredPlatform, tmp_path: Path) -> None:
    raw = generate(tmp_path / "access.log", lines=300, hours=1, seed=65)
    done = platform.as_role("application", "replay", str(raw), "--topic", TOPIC)
    assert done.returncode == 0, done.stderr
    expected = window_counts(raw)
    tiers = ("producer", "live", "mirror", "offline")

    def counted() -> bool:
        windows = platform.windows(TOPIC)
        return {start: [windows[start]["tiers"].get(tier) for tier in tiers] for start in expected if start in windows} == {
            start: [count] * 4 for start, count in expected.items()
        }

    eventually(counted, within_ms=120_000, what="every tier counted everything")


def test_nobody_was_denied_what_its_role_needs(platform: SecuredPlatform) -> None:
    denied = []
    for name in ("broker-live", "broker-offline"):
        for line in (platform.layout.logs / f"{name}.log").read_text().splitlines():
            words = json.loads(line) if line.startswith("{") else {}
            if words.get("event") == "access" and words.get("kind") != "changed":
                denied.append((words.get("principal"), words.get("operation"), words.get("resource"), words.get("name")))
    # An application asks whether brokers create topics by first use, and does without the answer.
    assert set(denied) <= {("User:application", "DESCRIBE_CONFIGS", "CLUSTER", "kafka-cluster")}


def test_a_role_cannot_do_anothers_work_and_a_client_without_a_file_reaches_nothing(platform: SecuredPlatform) -> None:
    refused = platform.as_role("application", "topic", "delete", TOPIC, "--yes")
    assert refused.returncode != 0
    bare = subprocess.run(
        platform.command("topic", "list"), env=platform.environment, capture_output=True, text=True, timeout=120
    )
    assert bare.returncode == 1
    listed = platform.as_role("operator", "topic", "list")
    assert listed.returncode == 0, listed.stderr
    assert TOPIC in listed.stdout
    with pytest.raises(ZooKeeperUnreachable, match="it speaks TLS"):
        Session(platform.layout.live_zookeeper, name="bare", session_timeout_ms=1_000).start(1_500)


def test_no_password_is_in_logs_metrics_pages_titles_or_errors(platform: SecuredPlatform, watch: Watch, tmp_path: Path) -> None:
    layout, secrets = platform.layout, platform.secrets()
    folders = [path for path in layout.home.iterdir() if path.is_dir() and path != layout.security]
    found, count = in_files(folders, secrets)
    assert found == []
    assert count > 20
    pages = [f"http://{layout.address(port)}{path}" for port in (9094, 9194) for path in ("/metrics", "/healthz", "/readyz")]
    pages += [f"{layout.audit_url}/metrics", f"{layout.registry_url}/subjects", f"http://{layout.address(9097)}/status"]
    for url in pages:
        with urllib.request.urlopen(url, timeout=30) as answer:
            assert in_text(url, answer.read().decode(), secrets) == []
    assert in_text("output", "\n".join(platform.said), secrets) == []
    assert watch.found == set()
    assert any(b"headrace.cli.main" in command for command in watch.commands)
    planted, _ = in_files([layout.security], secrets)
    assert len(planted) >= len(ROLES), "the search finds what is there"
    spoiled = tmp_path / "broker.properties"
    spoiled.write_text(f"log.dirs={tmp_path}/data\n{secrets['broker'].decode()}\n")
    said = platform.as_role("operator", "broker", "config", "--config", str(spoiled))
    assert said.returncode != 0
    assert "it is not name=value" in said.stderr
    assert in_text("the error of a settings file", said.stdout + said.stderr, secrets) == []
