"""A platform with SECURE=1: what its processes are started with, and which homes take it."""

from pathlib import Path

import pytest

from headrace.local import control
from headrace.local.control import PlatformError
from headrace.local.kafka import secured, server
from headrace.local.security.files import make_current, password_of
from headrace.local.security.roles import ROLES
from headrace.local.supervisor import process_table
from headrace.runtime.layout import ENGINE_FILE, SECURED_FILE, Layout


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    make_current(folder / "security")
    return folder


def test_each_process_gets_the_files_of_its_role_and_no_secret(home: Path) -> None:
    specs = {spec.name: spec for spec in process_table.load(Layout(home=home, is_secured=True, brokers=3))}
    security = home / "security"
    for name, role in (("registry", "registry"), ("mirror", "mirror"), ("consumer-1", "reader"), ("airflow-scheduler", "loads")):
        assert specs[name].environment["HEADRACE_CLIENT_CONFIG"] == str(security / role / "client.properties")
    assert specs["mirror"].environment["HEADRACE_ZOOKEEPER_CONFIG"] == str(security / "mirror" / "zookeeper.properties")
    assert "HEADRACE_ZOOKEEPER_CONFIG" not in specs["audit"].environment
    for name in ("broker-live", "broker-live-2", "broker-live-3", "broker-offline"):
        words = list(specs[name].command)
        assert words[words.index("--config") + 1] == str(security / "broker" / "broker.properties")
        assert any(word.startswith("listeners=SASL_SSL://127.0.0.1:") for word in words)
    assert specs["zookeeper-live"].command[-1] == str(security)
    for name in ("registry", "audit", "console"):
        assert specs[name].command[-1] == "--logins"
    assert specs["consumer-1"].environment["HEADRACE_REGISTRY_LOGIN_FILE"] == str(security / "reader" / "login")
    assert specs["console"].environment["HEADRACE_AUDIT_LOGIN_FILE"] == str(security / "console" / "login")
    passwords = [(security / role.name / "password").read_text().strip() for role in ROLES if role.has_user]
    for spec in specs.values():
        shown = " ".join([*spec.command, *spec.environment.values()])
        assert not any(password in shown for password in passwords), spec.name


def test_a_node_of_apache_kafka_is_secured_and_no_password_is_in_its_settings_or_command(home: Path) -> None:
    security = home / "security"
    layout = Layout(home=home, is_secured=True, engine="kafka")
    specs = {spec.name: spec for spec in process_table.load(layout)}
    for cluster in ("live", "offline"):
        spec = specs[f"broker-{cluster}"]
        status = layout.run / f"{spec.name}.json"
        assert list(spec.command[-3:]) == [str(security), cluster, str(status)]
        assert (spec.probe.status_file, spec.probe.kafka_port) == (status, None), "ready when it has users and rules"
    assert specs["mirror"].environment["HEADRACE_CLIENT_CONFIG"] == str(security / "mirror" / "client.properties")
    settings = server.properties(9092, 9093, home / "data", security)
    said = " ".join(settings.values())
    assert "PLAINTEXT" not in said
    assert settings["listener.security.protocol.map"] == "SASL_SSL:SASL_SSL,CONTROLLER:SSL"
    assert settings["super.users"] == "User:broker;User:operator"
    assert not [role.name for role in ROLES if role.has_user and password_of(security, role.name) in said]
    assert [word.split('"')[1] for word in secured.first_users(security) if "name=" in word] == ["broker", "operator"]


def test_without_it_nothing_changes(home: Path) -> None:
    specs = {spec.name: spec for spec in process_table.load(Layout(home=home))}
    assert all("security" not in " ".join(spec.command) and not spec.environment for spec in specs.values())
    assert Layout(home=home).as_role("mirror") == {}


def test_a_home_stays_secured_and_a_child_knows_it(tmp_path: Path) -> None:
    assert not Layout.from_environment({"HEADRACE_HOME": str(tmp_path), "HEADRACE_SECURE": "0"}).is_secured
    (tmp_path / SECURED_FILE).write_text("1\n")
    layout = Layout.from_environment({"HEADRACE_HOME": str(tmp_path)})
    assert layout.is_secured
    assert Layout.from_environment(layout.environment()) == layout


def test_a_home_of_a_platform_without_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / ENGINE_FILE).write_text("headrace\n")
    with pytest.raises(PlatformError, match="has the data of a platform without SECURE=1"):
        control._check_secured(Layout(home=tmp_path, is_secured=True))


def test_files_that_are_there_and_valid_stay(home: Path) -> None:
    before = {path: path.read_bytes() for path in (home / "security").rglob("*") if path.is_file()}
    make_current(home / "security")
    assert {path: path.read_bytes() for path in before} == before
    (home / "security" / "mirror" / "login").unlink()
    make_current(home / "security")
    assert {path: path.read_bytes() for path in before} == before, "a file that an older version did not make"
    (home / "security" / "mirror" / "keystore.pem").unlink()
    make_current(home / "security")
    changed = {path.parent.name for path, text in before.items() if path.read_bytes() != text}
    assert changed == {"mirror"}
