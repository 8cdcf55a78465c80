"""The units of `deploy/systemd`: systemd finds no fault in them, and what each starts says that it is ready, works together with
the others, secured by the files of `headrace security init`, and stops when it is told to.

systemd itself does not run here: the tests take its part, with the unit's own command, files and notification socket.
"""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import confluent_kafka
import pytest

from headrace.cli.main import main
from headrace.local.security.files import password_of
from headrace.local.supervisor import zookeeper
from headrace.sdk import EventLogger, event_schema
from tests.integration.deploy import scraped
from tests.integration.deploy.site import DEPLOY, Site
from tests.support.processes import Process, accepts, eventually
from tests.support.scraping import get

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
PROGRAM = "/opt/headrace/bin/headrace"


class Service:
    """One unit, started as systemd would."""

    def __init__(self, site: Site, name: str) -> None:
        self.name = name
        self.words = _words(site.text(f"systemd/headrace-{name}.service"))
        (site.folder / "var" / name).mkdir(parents=True)
        address = site.folder / f"{name}.notify"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(address))
        self._socket.setblocking(False)
        self.told: list[str] = []
        variables = {"NOTIFY_SOCKET": str(address)}
        if "Environment" in self.words:
            variables |= dict([self.words["Environment"].split("=", 1)])
        if "EnvironmentFile" in self.words:
            file = site.install(f"etc/{Path(self.words['EnvironmentFile']).name}")
            lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
            variables |= {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines)}
        command: list[str] = []
        for word in shlex.split(self.words["ExecStart"]):
            command += variables[word[1:]].split() if word.startswith("$") else [word]
        assert command[0] == PROGRAM
        self.process = Process([sys.executable, "-m", "headrace.cli.main", *command[1:]], site.folder / f"{name}.log", variables)

    def is_told(self, word: str) -> bool:
        while True:
            try:
                self.told += self._socket.recv(65_536).decode().splitlines()
            except BlockingIOError:
                return word in self.told

    def start(self) -> "Service":
        assert self.words["Type"] == "notify"
        self.process.start()
        eventually(lambda: self.is_told("READY=1"), within_ms=60_000, what=f"{self.name} ready: {self.process.output()[-2000:]}")
        return self

    def close(self) -> None:
        self.process.kill()
        self._socket.close()


def _words(unit: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in unit.splitlines() if "=" in line and not line.startswith("#"))  # type: ignore[misc]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A machine with the files of every role, and the ZooKeeper of each cluster, with users and rules."""
    made = Site(tmp_path)
    security = tmp_path / "etc" / "security"
    assert main(["security", "init", str(security)]) == 0
    servers = []
    try:
        for cluster, written in (("live", 2181), ("offline", 2182)):
            command = zookeeper.command(made.port(written), tmp_path / f"zookeeper-{cluster}", secured=security)
            servers.append(Process(command, tmp_path / f"zookeeper-{cluster}.log").start())
            eventually(lambda: accepts(made.port(written)), within_ms=60_000, what="ZooKeeper's port open")  # noqa: B023
            apply = ["security", "apply", str(security), "--cluster", cluster, "--zookeeper", f"127.0.0.1:{made.port(written)}"]
            done = subprocess.run(
                [sys.executable, "-m", "headrace.cli.main", *apply], capture_output=True, text=True, timeout=120
            )
            assert done.returncode == 0, done.stderr
        for name in ("broker.properties", "audit.toml", "agent.toml"):
            made.install(f"etc/{name}")
        yield made
    finally:
        for server in servers:
            server.kill()


def as_role(site: Site, role: str) -> dict[str, str]:
    """Return the variables with which a process is this role."""
    files = site.folder / "etc" / "security" / role
    known = {
        "HEADRACE_CLIENT_CONFIG": files / "client.properties",
        "HEADRACE_ZOOKEEPER_CONFIG": files / "zookeeper.properties",
        "HEADRACE_REGISTRY_LOGIN_FILE": files / "login",
        "HEADRACE_AUDIT_LOGIN_FILE": files / "login",
    }
    return {name: str(path) for name, path in known.items() if path.exists()}


@pytest.fixture
def services(site: Site) -> Iterator[dict[str, Service]]:
    """Everything that has a unit, and the offline cluster's broker; each is ready before the next one starts."""
    offline = Site(site.folder / "offline")
    offline.set_port(2181, site.port(2182))
    offline.set_port(9092, site.port(9192))
    (offline.folder / "etc").mkdir(parents=True)
    (offline.folder / "etc" / "security").symlink_to(site.folder / "etc" / "security")
    offline.install("etc/broker.properties")
    started: dict[str, Service] = {}
    try:
        for name, where, unit in [("broker", site, "broker"), ("offline broker", offline, "broker")] + [
            (name, site, name) for name in ("registry", "audit", "mirror", "agent", "console")
        ]:
            started[name] = Service(where, unit)
            started[name].start()
        yield started
    finally:
        for service in started.values():
            service.close()


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_finds_no_fault(unit: Path, tmp_path: Path) -> None:
    # It wants the program to be there.
    program = tmp_path / "headrace"
    program.touch(mode=0o755)
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace(PROGRAM, str(program)))
    words = ["systemd-analyze", "verify", "--man=no", str(copy)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    faults = [line for line in (done.stdout + done.stderr).splitlines() if unit.name in line]
    assert (done.returncode, faults) == (0, [])


def test_what_the_units_start_says_that_it_is_ready_and_works_together(
    site: Site, services: dict[str, Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in as_role(site, "application").items():
        monkeypatch.setenv(name, value)
    live, registry = f"127.0.0.1:{site.port(9092)}", f"http://127.0.0.1:{site.port(8081)}"
    schema = event_schema("Click", [{"name": "number", "type": "int"}])
    with EventLogger("clicks", schema, bootstrap=live, registry_url=registry, application="shop") as clicks:
        for number in range(50):
            assert clicks.log({"number": number})
    with EventLogger("clicks", schema, journal=site.folder / "var" / "journals", application="shop") as clicks:
        for number in range(50):
            assert clicks.log({"number": number})
    offline = {"bootstrap.servers": f"127.0.0.1:{site.port(9192)}", "group.id": "none", "enable.auto.commit": False}
    offline |= {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(site.folder / "etc" / "security" / "ca.pem"),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "operator",
        "sasl.password": password_of(site.folder / "etc" / "security", "operator"),
    }
    with closing(confluent_kafka.Consumer({**offline, "auto.offset.reset": "earliest"})) as consumer:
        eventually(lambda: "clicks" in consumer.list_topics(timeout=10).topics, within_ms=60_000, what="the topic mirrored")
        consumer.subscribe(["clicks"])
        found: list[bytes] = []

        def has_all() -> bool:
            found.extend(one.value() for one in consumer.consume(100, timeout=0.2) if one.error() is None)  # type: ignore[misc]
            return len(found) >= 100

        eventually(has_all, within_ms=60_000, what="both loggers' events offline")
    _check_what_they_export(site)
    for name, service in reversed(services.items()):
        os.kill(service.process.pid, signal.SIGTERM)
        within_s = {"5min": 300, "30s": 30}[service.words["TimeoutStopSec"]]
        assert service.process.wait(within_s * 1_000) == 0, f"{name}: {service.process.output()[-2000:]}"
        assert service.is_told("STOPPING=1"), name


def _check_what_they_export(site: Site) -> None:
    """Scrape every process, compare numbers with what was sent, and look for each metric that rules and dashboards name."""
    live, registry = f"127.0.0.1:{site.port(9092)}", f"http://127.0.0.1:{site.port(8081)}"
    known = ["--bootstrap", live, "--registry", registry, "--status-file"]
    consumer = _program(
        site, "reader", "consumer", "run", "--topic", "clicks", "--home", str(site.folder / "var" / "consumer"),
        "--zookeeper", f"127.0.0.1:{site.port(2181)}", "--metrics-port", str(site.port(9098)), *known,
        str(site.folder / "consumer.json"),
    )  # fmt: skip
    frontend = _program(
        site, "application", "frontend", "run", "--port", str(site.port(8000)),
        "--schema-cache", str(site.folder / "schemas"), *known,
        str(site.folder / "frontend.json"),
    )  # fmt: skip
    metrics = site.folder / "var" / "metrics"
    places = {"HEADRACE_HOME": str(site.folder / "var" / "load"), "HEADRACE_OFFLINE_BOOTSTRAP": f"127.0.0.1:{site.port(9192)}"}
    places |= as_role(site, "loads") | {
        "HEADRACE_LIVE_BOOTSTRAP": live,
        "HEADRACE_AUDIT_URL": f"http://127.0.0.1:{site.port(8090)}",
    }
    step = ["load", "--all", "--step", "publish", "--metrics-folder", str(metrics)]
    load = Process([sys.executable, "-m", "headrace.cli.main", *step], site.folder / "load.log", places)
    try:
        for one in (consumer, frontend, load):
            one.start()
        ports = {
            "broker": 9094,
            "mirror": 9095,
            "registry": 8081,
            "audit": 8090,
            "agent": 9097,
            "console": 8088,
            "consumer": 9098,
            "frontend": 8000,
        }
        login = (site.folder / "etc" / "security" / "console" / "login").read_text().strip()

        def page(role: str) -> scraped.Page:
            return scraped.page(site.port(ports[role]), login if role in ("registry", "audit", "console") else None)

        eventually(lambda: page("consumer").sum("headrace_consumer_records_total") == 100, within_ms=60_000, what="consumed")
        eventually(lambda: get(site.port(8000), "/readyz")[0] == 200, within_ms=60_000, what="the frontend ready")
        for path in ("/", "/about", "/products", "/healthz", "/metrics"):
            get(site.port(8000), path)
        stored = "headrace_sdk_acknowledged_events_total"
        eventually(lambda: page("frontend").sum(stored, topic="access_log") == 3, what="three of five requests are events")
        assert page("broker").sum("headrace_broker_messages_in_total", topic="clicks") == 100
        assert page("agent").sum("headrace_agent_acknowledged_records_total") == 50
        eventually(lambda: page("mirror").sum("headrace_mirror_records_total", topic="clicks") == 100, what="copied and counted")
        eventually(lambda: page("mirror").sum("headrace_mirror_all_lag_bytes") == 0, what="nothing left to copy")
        assert page("mirror").sum("headrace_mirror_partitions", state="diverged") == 0
        assert page("registry").sum("headrace_registry_subjects") == 2
        assert get(site.port(8081), "/subjects")[0] == get(site.port(8088), "/")[0] == get(site.port(8090), "/metrics")[0] == 401
        assert get(site.port(8081), "/subjects/none/versions", login)[0] == 404
        assert page("registry").sum("headrace_registry_responses_total", code="4xx") >= 1
        for role in ("broker", "mirror", "registry", "audit", "agent", "console", "consumer"):
            eventually(lambda: page(role).sum(f"headrace_{role}_ready") == 1, what=f"{role} ready")  # noqa: B023
            assert get(site.port(ports[role]), "/readyz")[0] == get(site.port(ports[role]), "/healthz")[0] == 200
        home = get(site.port(8088), "/", login)
        assert home[0] == 200
        assert "clicks" in home[1]
        assert get(site.port(8088), "/groups", login)[0] == 200
        eventually(lambda: page("console").sum("headrace_console_page_seconds_count", page="/") >= 1, what="the page counted")
        assert load.wait(60_000) == 0, load.output()
        left = scraped.Page((metrics / "headrace_load_publish.prom").read_text())
        assert left.sum("headrace_load_failed", step="publish") == 0
        assert left.sum("headrace_load_last_success_timestamp_seconds") > time.time() - 120
        exported = left.names()
        for role in ports:
            exported |= page(role).names()
        assert {file: names - exported for file, names in scraped.named().items() if names - exported} == {}
    finally:
        for one in (consumer, frontend, load):
            one.kill()


def _program(site: Site, role: str, name: str, *words: str) -> Process:
    command = [sys.executable, "-m", "headrace.cli.main", name, *words]
    return Process(command, site.folder / f"{name}.log", as_role(site, role))


def test_the_user_that_the_units_name_is_made() -> None:
    users = {_words(unit.read_text())["User"] for unit in UNITS}
    made = [
        line.split()[1] for line in (DEPLOY / "systemd" / "headrace.sysusers").read_text().splitlines() if line.startswith("u ")
    ]
    assert users == {"root", *made}
