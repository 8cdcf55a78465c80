"""The settings of TLS and rights towards ZooKeeper, and the table of rights of its nodes."""

from pathlib import Path

import pytest

from headrace.coordination import security
from headrace.coordination.errors import ZooKeeperConfigRefused
from headrace.coordination.node_rights import ALL, ANYONE, KEEPERS, READ, TABLE, Entry, in_words, rights_of
from headrace.coordination.security import BROKER, MIRROR, OPERATOR, READER, default_identities, of_environment, of_file
from headrace.local.security.certificates import Authority, make_folder

KEEPERS_NAMES = {"CN=headrace-broker", "CN=headrace-operator"}


def file_of(folder: Path, text: str) -> Path:
    path = folder / "zookeeper.properties"
    path.write_text(text)
    return path


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    make_folder(tmp_path / "pem")
    authority = Authority.made(tmp_path / "pem")
    authority.issue(tmp_path / "pem" / "mirror.pem", "headrace-mirror", hosts=(), days=2)
    return tmp_path / "pem"


def test_a_file_gives_the_settings(tmp_path: Path, pem: Path) -> None:
    lines = (
        "# a comment",
        "zookeeper.ssl.client.enable=true",
        f"zookeeper.ssl.truststore.location={pem / 'ca.pem'}",
        f"zookeeper.ssl.keystore.location = {pem / 'mirror.pem'}",
        "zookeeper.set.acl=true",
        "zookeeper.ssl.endpoint.identification.algorithm=",
        "zookeeper.acl.identities=reader:CN=shop,O=Example; reader:CN=rates;mirror:CN=copier",
    )
    found = of_file(file_of(tmp_path, "\n".join(lines)))
    assert found is not None
    assert (found.sets_rights, found.checks_host_names) == (True, False)
    assert found.identities[READER] == ("CN=shop,O=Example", "CN=rates")
    assert found.identities[MIRROR] == ("CN=copier",)
    assert found.identities[BROKER] == ("CN=headrace-broker",)
    environment = {security.VARIABLE: str(tmp_path / "zookeeper.properties")}
    assert of_environment(environment) == found
    assert of_environment({}) is None


def test_every_fault_is_named_at_once_and_no_line_is_repeated(tmp_path: Path) -> None:
    """Fault: a password alone on a line was repeated in the error of a settings file."""
    lines = ("planted-password", "zookeeper.ssl.client.enable=true", "zookeeper.set.acl=true")
    text = "\n".join((*lines, "zookeeper.ssl.ca=x", "zookeeper.acl.identities=all"))
    with pytest.raises(ZooKeeperConfigRefused) as refused:
        of_file(file_of(tmp_path, text))
    said = str(refused.value)
    assert len(refused.value.faults) == 5, said
    for words in ("line 1 is not name=value", "'zookeeper.ssl.ca'", "truststore.location is not given", "'all' is not ROLE:NAME"):
        assert words in said
    assert "planted-password" not in said


@pytest.mark.parametrize("text", ["zookeeper.set.acl=true", "zookeeper.ssl.client.enable=yes"])
def test_rights_without_tls_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ZooKeeperConfigRefused, match="knows clients by their certificates"):
        of_file(file_of(tmp_path, text))


def test_files_that_cannot_be_used_are_refused_at_the_start(tmp_path: Path, pem: Path) -> None:
    with pytest.raises(ZooKeeperConfigRefused, match="it cannot be read: FileNotFoundError"):
        of_file(tmp_path / "nothing")
    text = f"zookeeper.ssl.client.enable=true\nzookeeper.ssl.truststore.location={pem}/none.pem"
    with pytest.raises(ZooKeeperConfigRefused, match=r"none\.pem cannot be used"):
        of_file(file_of(tmp_path, text))


def test_keepers_may_do_everything_everywhere() -> None:
    identities = default_identities()
    for path in (*TABLE, "/consumers/g/offsets/t/0", "/config/users/a", "/leaders/other/holder"):
        all_of = {entry.identity for entry in rights_of(path, identities) if entry.permissions == ALL}
        assert all_of == KEEPERS_NAMES, path


@pytest.mark.parametrize(
    "path",
    ["/config/users/a", "/config/login_secret", "/rights/rules", "/replicas/id/0", "/brokers/lives/1", "/producer_ids/next"],
)
def test_what_is_the_brokers_own_nobody_else_reads(path: str) -> None:
    assert {entry.identity for entry in rights_of(path, default_identities())} == KEEPERS_NAMES


def test_a_path_has_the_rights_of_the_longest_entry_that_it_begins_with() -> None:
    identities = {BROKER: ("CN=b",), OPERATOR: (), READER: ("CN=r",), MIRROR: ("CN=m",)}
    assert rights_of("/audit/positions/mirror/t/0", identities) == (
        Entry(identity="CN=b", permissions=ALL),
        Entry(identity="CN=m", permissions=15),
    )
    assert rights_of("/audit/positions/mirrors", identities)[1].identity == "CN=r"
    assert rights_of("/brokers/ids/1", identities) == (
        Entry(identity="CN=b", permissions=ALL),
        Entry(identity=ANYONE, permissions=READ),
    )
    assert rights_of("/other", identities) == rights_of("/", identities)
    assert in_words(rights_of("/audit/positions/mirror", identities)) == "CN=b: cdrwa; CN=m: cdrw"


def test_a_keepers_rights_are_not_lessened_by_another_role_of_its_name() -> None:
    identities = {BROKER: ("CN=one",), OPERATOR: ("CN=one",), READER: ("CN=one",)}
    assert rights_of("/consumers/g", identities) == (Entry(identity="CN=one", permissions=ALL),)
    assert set(KEEPERS) == {BROKER, OPERATOR}


def test_each_path_of_the_table_comes_after_its_parent() -> None:
    seen: set[str] = set()
    for path in TABLE:
        parent = path.rpartition("/")[0] or "/"
        assert path == "/" or parent in seen, path
        seen.add(path)
