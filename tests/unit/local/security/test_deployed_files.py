"""`deploy/` is secured as it comes: units, compose file and manifests read files that `headrace security init` makes. Each
service sees those of its own role alone, and no secret is in a command or a variable.
"""

import http.server
import re
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from cryptography import x509

from headrace.broker.settings.broker_settings import BrokerSettings, from_words
from headrace.cli.main import main
from headrace.local.security.files import init
from headrace.local.security.roles import ROLES
from tests.support.written_command import init_words

DEPLOY = Path(__file__).parents[4] / "deploy"
ETC = DEPLOY / "etc"
INSTALLED = Path("/etc/headrace/security")
IN_CONTAINERS = Path("/run/security")
COMPOSE = DEPLOY / "containers" / "compose.yaml"
KUBERNETES = DEPLOY / "kubernetes"
UNITS = ("broker", "registry", "mirror", "audit", "console", "agent")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("deployed") / "security"
    init(made, installed=INSTALLED)
    return made


def as_written(file: Path, tmp_path: Path) -> Path:
    """Run the command `headrace security init` of a file's comment; return the folder."""
    words = init_words(file, tmp_path / "security")
    assert main(words) == 0
    return tmp_path / "security"


def names_in(folder: Path, role: str) -> list[str]:
    text = (folder / role / "keystore.pem").read_bytes()
    found = x509.load_pem_x509_certificate(text[text.index(b"-----BEGIN CERT") :])
    return found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)


def is_named(host: str, names: Sequence[str]) -> bool:
    return any(host == one or (one.startswith("*.") and host.partition(".")[2] == one[2:]) for one in names)


# -- units ----------------------------------------


def lines_of(unit: str) -> list[str]:
    """Return what a unit is started with: its own lines and those of its file in `deploy/etc`."""
    file = ETC / ("agent.toml" if unit == "agent" else "broker.properties" if unit == "broker" else f"{unit}.env")
    return [*(DEPLOY / "systemd" / f"headrace-{unit}.service").read_text().splitlines(), *file.read_text().splitlines()]


@pytest.mark.parametrize("role", UNITS)
def test_each_unit_reads_and_sees_the_files_of_its_own_role_alone(folder: Path, role: str) -> None:
    lines = [line for line in lines_of(role) if not line.startswith("#")]
    (seen,) = (line.partition("=")[2].split() for line in lines if line.startswith("BindReadOnlyPaths="))
    assert seen == [f"{INSTALLED}/ca.pem", f"{INSTALLED}/{role}"]
    assert f"TemporaryFileSystem={INSTALLED}:ro" in lines
    used = [Path(path) for line in lines if "Paths=" not in line for path in re.findall(rf"{INSTALLED}/[\w./]+", line)]
    assert used
    for path in used:
        assert path.relative_to(INSTALLED).parts[0] == role
        assert (folder / path.relative_to(INSTALLED)).exists(), path


def test_the_http_services_of_units_ask_for_logins() -> None:
    for unit in ("registry", "audit", "console"):
        assert "--logins" in (ETC / f"{unit}.env").read_text()


def broker_settings(settings: str, folder: Path, *words: str) -> BrokerSettings:
    """Return the settings of a broker with the two files that it is given."""
    second = (folder / "broker" / "broker.properties").read_text()
    return from_words(files=[(settings, "broker.properties"), (second, "security")], words=words)


def asks_everyone(settings: BrokerSettings) -> bool:
    (listener,) = settings.listeners
    secured = settings.zookeeper_security
    return listener.has_tls and listener.has_login and settings.has_access_rules and secured is not None and secured.sets_rights


def test_a_broker_with_the_units_files_asks_everyone_who_they_are(folder: Path) -> None:
    assert asks_everyone(broker_settings((ETC / "broker.properties").read_text(), folder))


# -- containers ----------------------------------------


class Service(NamedTuple):
    """What both kinds of file say of a container."""

    name: str
    command: list[str]
    variables: Mapping[str, str]
    seen: dict[str, str]
    """Path in the container → role, or `ca.pem`."""


def services() -> dict[str, Service]:
    found = {}
    for name, words in yaml.safe_load(COMPOSE.read_text())["services"].items():
        mounts = [one.split(":") for one in words.get("volumes", ()) if one.startswith("./security")]
        assert all(mode == "ro" for _, _, mode in mounts)
        seen = {inside: Path(outside).name for outside, inside, _ in mounts}
        found[name] = Service(name, [*words.get("entrypoint", ()), *words.get("command", ())], words.get("environment", {}), seen)
    return found


def test_each_service_sees_the_files_of_its_own_role_alone() -> None:
    for name, one in services().items():
        role = next((part for part in name.split("-") if part in ("broker", "zookeeper", "security")), name)
        expected = {f"{IN_CONTAINERS}/ca.pem": "ca.pem"}
        if role == "security":
            expected |= {f"{IN_CONTAINERS}/{each.name}": each.name for each in ROLES if each.has_user}
        elif role != "haproxy":
            expected[f"{IN_CONTAINERS}/{role}"] = role
        assert one.seen == expected, name


def files_named(one: Service) -> Iterator[Path]:
    for word in [*one.command, *one.variables.values()]:
        yield from (Path(path) for path in re.findall(rf"{IN_CONTAINERS}/[\w./]+", word))


def check_secrets(one: Service, folder: Path) -> None:
    """Every file that the container names is one that was made and that it sees; no password is said."""
    for path in files_named(one):
        assert (folder / path.relative_to(IN_CONTAINERS)).exists(), (one.name, path)
        assert any(path.is_relative_to(seen) for seen in one.seen), (one.name, path)
    said = " ".join([*one.command, *one.variables.values()])
    for role in ROLES:
        if role.has_user:
            assert (folder / role.name / "password").read_text().strip() not in said
    assert not re.search(r"(?i)password|secret=|token=", said)


def test_the_compose_files_services_name_files_that_its_own_command_makes(tmp_path: Path) -> None:
    folder = as_written(COMPOSE, tmp_path)
    for one in services().values():
        check_secrets(one, folder)
    text = (COMPOSE.parent / "zoo.cfg").read_text() + (COMPOSE.parent / "etc" / "agent.toml").read_text()
    for path in re.findall(rf"{IN_CONTAINERS}/[\w./]+", text):
        assert (folder / Path(path).relative_to(IN_CONTAINERS)).exists(), path
    assert "\nclientPort=" not in text


def test_the_compose_files_hosts_are_in_the_certificates(tmp_path: Path) -> None:
    folder = as_written(COMPOSE, tmp_path)
    for one in services().values():
        for word in [*one.command, *one.variables.values()]:
            for host, port in re.findall(r"([a-z][\w.-]*):(\d{4})\b", word):
                role = {"9092": "broker", "2181": "zookeeper", "8081": "registry", "8090": "audit"}[port]
                assert is_named(host, names_in(folder, role)), (one.name, host, role)
    for role in ("broker", "registry", "audit", "console"):
        assert is_named("haproxy" if role != "console" else "localhost", names_in(folder, role))


def test_a_broker_in_a_container_asks_everyone_who_they_are(tmp_path: Path) -> None:
    folder = as_written(COMPOSE, tmp_path)
    plain = (COMPOSE.parent / "etc" / "broker.properties").read_text()
    assert asks_everyone(broker_settings(plain, folder, "advertised.listeners=SASL_SSL://live-broker-1:9092"))
    assert "insecure" not in plain


# -- Kubernetes ----------------------------------------


def documents() -> list[dict[str, Any]]:
    return [one for path in sorted(KUBERNETES.rglob("*.yaml")) for one in yaml.safe_load_all(path.read_text())]


def pods() -> Iterator[tuple[Service, dict[str, Any], dict[str, Any]]]:
    """Yield each container as a service, itself, and its pod's specification."""
    for one in documents():
        spec = one.get("spec", {}).get("template", {}).get("spec")
        if spec is None:
            continue
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        for container in spec["containers"]:
            seen = {}
            for mount in container["volumeMounts"]:
                secret = volumes.get(mount["name"], {}).get("secret", {}).get("secretName", "")
                if mount["mountPath"].startswith(str(IN_CONTAINERS)):
                    assert mount["readOnly"]
                    seen[mount["mountPath"]] = mount.get("subPath") or secret.removeprefix("headrace-")
            variables = {each["name"]: str(each.get("value", "")) for each in container.get("env", ())}
            command = [*container.get("command", ()), *container.get("args", ())]
            yield Service(container["name"], command, variables, seen), container, spec


def test_each_pod_sees_the_secret_of_its_own_role_alone_and_can_read_it() -> None:
    for one, _, spec in pods():
        assert spec["securityContext"]["fsGroup"] == 10001, "files of Secrets are root's"
        for volume in spec["volumes"]:
            if "headrace-" in str(volume.get("secret", "")):
                assert volume["secret"].get("defaultMode", 0o440) == 0o440
        if one.name == "security":
            sources = [
                source["secret"] for volume in spec["volumes"] for source in volume.get("projected", {}).get("sources", ())
            ]
            assert {source["name"] for source in sources} == {f"headrace-{role.name}" for role in ROLES if role.has_user}
            assert not [each for source in sources for each in source["items"] if each["key"] == "ca.key"]
        else:
            role = one.name
            assert one.seen == {f"{IN_CONTAINERS}/{role}": role, f"{IN_CONTAINERS}/ca.pem": "ca.pem"}


def test_the_manifests_name_files_that_their_own_command_makes(tmp_path: Path) -> None:
    folder = as_written(KUBERNETES / "live" / "kustomization.yaml", tmp_path)
    for one, container, _ in pods():
        check_secrets(one._replace(seen=one.seen or {str(IN_CONTAINERS): ""}), folder)
        if "--logins" in one.command:
            assert all(container[f"{when}Probe"]["httpGet"]["scheme"] == "HTTPS" for when in ("startup", "readiness", "liveness"))
    settings = [one["data"] for one in documents() if one.get("kind") == "ConfigMap"]
    text = "\n".join(str(value) for data in settings for value in data.values())
    for path in re.findall(rf"{IN_CONTAINERS}/[\w./]+", text):
        assert (folder / Path(path).relative_to(IN_CONTAINERS)).exists(), path
    plain = next(data["broker.properties"] for data in settings if "broker.properties" in data)
    names = names_in(folder, "broker")
    for namespace in ("headrace-live", "headrace-offline"):
        host = f"broker-1.broker.{namespace}.svc"
        assert is_named(host, names)
        assert is_named(f"bootstrap.{namespace}.svc", names)
        assert asks_everyone(broker_settings(plain, folder, f"advertised.listeners=SASL_SSL://{host}:9092"))
    assert is_named("bootstrap", names)
    assert all(is_named(f"zookeeper-{number}.zookeeper", names_in(folder, "zookeeper")) for number in range(3))
    assert is_named("registry", names_in(folder, "registry"))
    assert is_named("audit", names_in(folder, "audit"))


class Healthy(http.server.BaseHTTPRequestHandler):
    """Answers 200 on /healthz."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("role", ["registry", "audit", "console", None])
def test_a_health_check_asks_over_tls_where_the_page_is_served_so(folder: Path, role: str | None) -> None:
    """`--tls-cert` and `--tls-key` name the same file. Without a role the page is served in the clear."""
    server = http.server.HTTPServer(("127.0.0.1", 0), Healthy)
    if role is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / role / "keystore.pem", folder / role / "keystore.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        address = f"http://127.0.0.1:{server.server_port}"
        probe = [sys.executable, "-I", str(DEPLOY / "containers" / "probe.py")]
        codes = [subprocess.run([*probe, address + path], capture_output=True).returncode for path in ("/healthz", "/other")]
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
    assert codes == [0, 1]
