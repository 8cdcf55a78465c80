"""`headrace up` with SECURE=1, on our brokers and on Apache Kafka: everything over TLS, each process with the least rights of its
role. Nothing is denied, records are equal in every tier, and no password is where it does not belong. `make demo SECURE=1` adds
Airflow and Spark.
"""

import base64
import json
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.coordination.errors import ZooKeeperUnreachable
from headrace.coordination.session import Session
from headrace.local.security.files import make_current, password_of
from headrace.local.security.roles import ROLES
from headrace.runtime.layout import Engine, Layout
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
    "console",
    "mirror",
    "consumer-1",
    "agent",
)

OF_KAFKA = re.compile(r"Principal = (\S+) is Denied operation = (\w+) from .* on resource = (\w+):LITERAL:(\S+)")
"""A denial in Kafka's log."""


class SecuredPlatform(Platform):
    """Without Airflow, which takes half a minute less."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        super().__init__(folder / "home", free_shift(14_000), engine)
        self.layout = Layout(home=folder / "home", port_shift=self.layout.port_shift, engine=engine, is_secured=True)
        names = [name for name in NAMES if engine == "headrace" or not name.startswith("zookeeper")]
        table = table_of(folder / "table.toml", names, engine=engine)
        self.environment |= {"HEADRACE_SECURE": "1", "HEADRACE_PROCESS_TABLE": str(table)}
        make_current(self.layout.security)
        self.watch = Watch(self.secrets(), besides=b"no process of this test")
        """From before the start."""

    @property
    def has_kafka(self) -> bool:
        return self.layout.engine == "kafka"

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


@pytest.fixture(scope="module", params=["headrace", pytest.param("kafka", marks=(pytest.mark.needs("kafka"), pytest.mark.whole))])
def platform(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredPlatform]:
    running = SecuredPlatform(tmp_path_factory.mktemp(request.param), request.param)
    running.watch.start()
    try:
        running.headrace("up", within_s=300)
        with pytest.MonkeyPatch.context() as patched:
            login = "HEADRACE_AUDIT_LOGIN_FILE"  # what the tests ask the audit
            patched.setenv(login, running.layout.as_role("operator")[login])
            yield running
    finally:
        running.down()
        running.watch.stop()


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
        text = (platform.layout.logs / f"{name}.log").read_text()
        denied += [(who, what, kind.upper(), name) for who, what, kind, name in OF_KAFKA.findall(text)]
        for line in text.splitlines():
            words = json.loads(line) if line.startswith("{") else {}
            if words.get("event") == "access" and words.get("kind") != "changed":
                denied.append((words.get("principal"), words.get("operation"), words.get("resource"), words.get("name")))
    # An application asks whether brokers create topics by first use, and does without the answer.
    questions = {("User:application", "DESCRIBE_CONFIGS", "CLUSTER", "kafka-cluster")}
    if platform.has_kafka:
        # The registry asks what its callers may do with the cluster, and Kafka logs that as a denial.
        questions |= {(f"User:{role.name}", "DESCRIBE", "CLUSTER", "kafka-cluster") for role in ROLES}
    assert set(denied) <= questions


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
    if platform.has_kafka:
        assert "User:application is Denied" in (platform.layout.logs / "broker-live.log").read_text()
        return
    with pytest.raises(ZooKeeperUnreachable, match="it speaks TLS"):
        Session(platform.layout.live_zookeeper, name="bare", session_timeout_ms=1_000).start(1_500)


def answered(url: str, login: str | None = None) -> tuple[int, str]:
    shown = {} if login is None else {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=shown), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_registry_audit_and_console_serve_users_by_their_rights(platform: SecuredPlatform) -> None:
    layout = platform.layout
    logins = {role: (layout.security / role / "login").read_text().strip() for role in ("operator", "application", "reader")}
    verdicts = f"{layout.audit_url}/api/completeness?topic={TOPIC}"
    schemas = f"{layout.registry_url}/subjects/{TOPIC}-value/versions/latest"
    for url in (verdicts, schemas, f"{layout.console_url}/"):
        assert answered(url)[0] == answered(url, "operator:wrong")[0] == 401, url
        assert answered(url, logins["operator"])[0] == 200, url
    assert [answered(schemas, logins[role])[0] for role in ("application", "reader")] == [200, 200]
    assert [answered(verdicts, logins[role])[0] for role in ("application", "reader")] == [403, 200]


def test_no_password_is_in_logs_metrics_pages_titles_or_errors(platform: SecuredPlatform, tmp_path: Path) -> None:
    layout, watch, secrets = platform.layout, platform.watch, platform.secrets()
    folders = [path for path in layout.home.iterdir() if path.is_dir() and path != layout.security]
    found, count = in_files(folders, secrets)
    assert found == []
    assert count > 20
    ports = () if platform.has_kafka else (9094, 9194)
    pages = [f"http://{layout.address(port)}{path}" for port in ports for path in ("/metrics", "/healthz", "/readyz")]
    pages += [f"http://{layout.address(9097)}/status", f"{layout.audit_url}/healthz"]
    with_login = [f"{layout.audit_url}/metrics", f"{layout.registry_url}/subjects", f"{layout.console_url}/"]
    login = (layout.security / "operator" / "login").read_text().strip()
    for url in [*pages, *with_login]:
        code, text = answered(url, login if url in with_login else None)
        assert code == 200, url
        assert in_text(url, text, secrets) == []
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


def test_a_broker_that_is_killed_comes_back_with_its_users_and_rules(platform: SecuredPlatform) -> None:
    platform.kill("broker-live")
    listed = platform.as_role("reader", "topic", "list")
    assert listed.returncode == 0, listed.stderr
    assert TOPIC in listed.stdout
    assert platform.as_role("application", "topic", "delete", TOPIC, "--yes").returncode != 0
