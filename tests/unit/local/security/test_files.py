"""The folder of `headrace security init`: what is in it, whose it is, and what a second run does."""

import os
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from headrace.broker.settings.broker_settings import from_words
from headrace.cli.main import main
from headrace.client.security.client_security import ClientSecurity
from headrace.coordination import security
from headrace.local.security.certificates import SecurityError, days_left
from headrace.local.security.files import init, password_of
from headrace.local.security.roles import ROLES


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("made") / "security"
    before = os.umask(0)  # the modes are the command's own
    try:
        init(made, hosts={"broker": ("broker-1.example", "10.0.0.7")})
    finally:
        os.umask(before)
    return made


def test_everything_is_its_owners_alone(folder: Path) -> None:
    modes = {path: path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {role.name for role in ROLES}


def test_each_role_has_a_random_password_of_its_own(folder: Path) -> None:
    passwords = [password_of(folder, role.name) for role in ROLES if role.has_user]
    assert len(set(passwords)) == len(ROLES) - 1
    assert min(map(len, passwords)) >= 40


def test_a_certificate_names_its_role_and_only_servers_certificates_name_hosts(folder: Path) -> None:
    for role in ROLES:
        text = (folder / role.name / "keystore.pem").read_bytes()
        found = x509.load_pem_x509_certificate(text[text.index(b"-----BEGIN CERT") :])
        assert found.subject.rfc4514_string() == f"CN=headrace-{role.name}"
        usages = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert (x509.oid.ExtendedKeyUsageOID.SERVER_AUTH in usages) is role.is_server, role.name
        names = [one for one in found.extensions if isinstance(one.value, x509.SubjectAlternativeName)]
        assert bool(names) is role.is_server
        if role.name == "broker":
            value = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            assert value.get_values_for_type(x509.DNSName) == ["broker-1.example"]
            assert [str(one) for one in value.get_values_for_type(x509.IPAddress)] == ["10.0.0.7"]


def test_each_file_is_one_that_its_process_reads(folder: Path) -> None:
    for role in ROLES:
        if role.has_user:
            settings = ClientSecurity(folder / role.name / "client.properties").settings
            assert settings.protocol == "SASL_SSL"
        if role.has_sessions:
            found = security.of_file(folder / role.name / "zookeeper.properties")
            assert found is not None
            assert found.sets_rights
            assert isinstance(found.context(), ssl.SSLContext)
    lines = (folder / "broker" / "broker.properties").read_text()
    words = f"log.dirs=/data\nlisteners=SASL_SSL://0.0.0.0:9093\nadvertised.listeners=SASL_SSL://broker-1.example:9093\n{lines}"
    broker = from_words(files=[(words, "broker.properties")])
    assert broker.super_users == ("User:broker", "User:operator")
    assert broker.zookeeper_security is not None
    assert password_of(folder, "broker") not in repr(broker)


def test_a_second_run_refuses_makes_what_is_missing_or_renews(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(SecurityError, match=r"nothing was made: .* --renew makes new ones; passwords stay"):
        init(folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert main(["security", "init", str(folder), "--role", "mirror", "--renew"]) == 0
    assert "new certificates for mirror\n" in capsys.readouterr().out
    changed = {path.relative_to(folder).as_posix() for path, text in before.items() if path.read_bytes() != text}
    assert changed == {"mirror/keystore.pem"}
    (folder / "agent" / "keystore.pem").unlink()
    assert init(folder).issued == ["agent"]
    assert password_of(folder, "agent") == before[folder / "agent" / "password"].decode().strip()


def test_a_certificate_that_ends_soon_is_renewed_without_being_asked(folder: Path) -> None:
    init(folder, roles=["console"], days=10, renews=True)
    assert days_left(folder / "console" / "keystore.pem") < 10
    assert init(folder).issued == ["console"]
    assert days_left(folder / "console" / "keystore.pem") > 800


def test_paths_in_files_are_those_of_the_machines(tmp_path: Path) -> None:
    init(tmp_path / "made", roles=["mirror", "zookeeper"], installed=Path("/etc/headrace/security"))
    text = (tmp_path / "made" / "mirror" / "zookeeper.properties").read_text()
    assert "zookeeper.ssl.keystore.location=/etc/headrace/security/mirror/keystore.pem\n" in text
    assert "ssl.trustStore.location=/etc/headrace/security/ca.pem\n" in (tmp_path / "made" / "zookeeper" / "zoo.cfg").read_text()
    assert str(tmp_path) not in text


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: folder.chmod(0o755), "other users can enter"),
        (lambda folder: (folder / "ca.key").unlink(), "the CA of .* cannot be read"),
        (lambda folder: [(folder / name).unlink() for name in ("ca.key", "ca.pem")], "files of roles and no CA"),
        (lambda folder: (folder / "ca.key").write_text("planted-key-text"), r"the CA of .* cannot be read \(ValueError\)"),
        (lambda folder: (folder / "mirror" / "keystore.pem").write_text("planted"), "holds no certificate that can be read"),
    ],
)
def test_what_is_wrong_with_a_folder_is_said_and_nothing_is_made(tmp_path: Path, spoil: object, said: str) -> None:
    folder = tmp_path / "security"
    init(folder, roles=["mirror"])
    spoil(folder)  # type: ignore[operator]
    with pytest.raises(SecurityError, match=said) as refused:
        init(folder, roles=["mirror"])
    assert "planted" not in str(refused.value)


@pytest.mark.parametrize("words", [["--host", "mirror=a"], ["--host", "broker="], ["--days", "0"]])
def test_wrong_words_are_refused_before_anything_is_made(tmp_path: Path, words: list[str]) -> None:
    assert main(["security", "init", str(tmp_path / "security"), *words]) == 2
    assert not (tmp_path / "security").exists()
