"""Sessions over TLS with a real ZooKeeper, and what each role's certificate may do with the tree."""

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.coordination import paths
from headrace.coordination.access_rules import AccessRules
from headrace.coordination.errors import CoordinationError, NodeForbidden, ZooKeeperUnreachable
from headrace.coordination.leader_seat import LeaderSeat
from headrace.coordination.mirror_sources import MirrorSources
from headrace.coordination.node_rights import TABLE, rights_of
from headrace.coordination.operations import Create, Write
from headrace.coordination.positions import AuditPositions
from headrace.coordination.producer_ids import cluster_id
from headrace.coordination.restate_requests import RestateRequests
from headrace.coordination.security import default_identities
from headrace.coordination.session import Session
from headrace.coordination.topics import TopicRegistry
from headrace.coordination.tree_rights import OPEN, carry_out, planned
from headrace.coordination.users import UserRegistry
from headrace.local.security.certificates import Authority
from tests.support.secured_zookeeper import SecuredZooKeeper

Opened = Callable[..., Session]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredZooKeeper]:
    made = SecuredZooKeeper(tmp_path_factory.mktemp("secured-zookeeper"))
    try:
        yield made.start()
    finally:
        made.process.stop()


@pytest.fixture
def chroot() -> str:
    return f"/test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def opened(server: SecuredZooKeeper, chroot: str) -> Iterator[Opened]:
    """Opens a role's session in this test's chroot; the broker's comes first, as in a platform."""
    sessions: list[Session] = []

    def open_one(role: str, *, sets_rights: bool = True) -> Session:
        session = server.session(role, chroot, sets_rights=sets_rights)
        sessions.append(session)
        return session.start()

    yield open_one
    for session in sessions:
        session.close()


def test_many_calls_at_once_are_answered_over_tls(opened: Opened) -> None:
    tree = opened("broker").tree
    values = {f"/consumers/g/offsets/t/{number}": str(number).encode() for number in range(300)}
    tree.put_many(values)
    assert {path: node.data for path, node in tree.read_many(values).items()} == values
    assert len(tree.delete_many(values)) == 300


def test_each_node_gets_the_rights_of_its_path(opened: Opened) -> None:
    broker = opened("broker")
    cluster_id(broker)
    TopicRegistry(broker).create("clicks", {0: [1]}, {})
    UserRegistry(broker).change("shop", lambda _: {"SCRAM-SHA-512": "x"})
    identities = default_identities()
    made = (paths.CLUSTER_ID, paths.topic("clicks"), paths.user("shop"), *TABLE)
    for path in made:
        assert broker.tree.rights(path) == rights_of(path, identities), path


REFUSED_TO_OTHERS: dict[str, Callable[[Session], object]] = {
    "register as a broker": lambda session: session.tree.create(paths.broker(7), b"{}", ephemeral=True),
    "raise a broker's start number": lambda session: session.tree.create(paths.broker_life(1), b"{}"),
    "change a topic": lambda session: TopicRegistry(session).set_config("clicks", {"retention.ms": "1"}),
    "delete a topic": lambda session: TopicRegistry(session).delete("clicks"),
    "add a user": lambda session: UserRegistry(session).change("thief", lambda _: {"SCRAM-SHA-512": "x"}),
    "read users": lambda session: UserRegistry(session).read_each(["shop"]),
    "read the secret of logins": lambda session: session.tree.read(paths.LOGIN_SECRET),
    "read access rules": lambda session: AccessRules(session).read(),
    "change access rules": lambda session: session.tree.transact([Write(path=paths.ACCESS_RULES, data=b"{}")]),
    "take over a partition": lambda session: session.tree.transact([Write(path="/replicas/an-id/0", data=b"{}")]),
    "make a replica's state": lambda session: session.tree.transact([Create(path="/replicas/an-id/1", data=b"{}")]),
    "take producer ids": lambda session: session.tree.create(paths.NEXT_PRODUCER_ID, b"1"),
    "give itself rights": lambda session: session.tree.set_rights("/rights", OPEN),
    "make a node beside the roots": lambda session: session.tree.create("/mine", b""),
}


@pytest.mark.parametrize("role", ["mirror", "reader", "registry", "stranger"])
def test_no_other_role_passes_for_a_broker(opened: Opened, role: str) -> None:
    """Fault of an earlier design: a mirror's key for ZooKeeper could pass for a broker's."""
    broker = opened("broker")
    TopicRegistry(broker).create("clicks", {0: [1]}, {})
    users = UserRegistry(broker)
    users.change("shop", lambda _: {"SCRAM-SHA-512": "x"})
    users.secret()
    AccessRules(broker).change(lambda _: [["TOPIC"]])
    broker.tree.create("/replicas/an-id/0", b"{}")
    other = opened(role)
    for what, attempt in REFUSED_TO_OTHERS.items():
        with pytest.raises(NodeForbidden, match="headrace zookeeper secure"):
            pytest.fail(f"a {role} could {what}: {attempt(other)!r}")


def test_each_role_does_its_own_work_and_not_anothers(opened: Opened) -> None:
    opened("broker")
    mirror, reader, registry = (opened(role) for role in ("mirror", "reader", "registry"))
    MirrorSources(mirror).write_many({("clicks", 0): "id"})
    AuditPositions(mirror).write("mirror", "clicks", 0, 7)
    RestateRequests(opened("operator")).ask("mirror", "clicks", 0)
    (asked,) = RestateRequests(mirror).open("mirror")
    assert RestateRequests(mirror).end(asked)
    with pytest.raises(CoordinationError):
        MirrorSources(reader).write_many({("clicks", 0): "other"})
    AuditPositions(reader).write("consumer:rates", "clicks", 0, 7)
    reader.tree.put("/consumers/rates/offsets/clicks/0", b"7")
    with pytest.raises(NodeForbidden):
        AuditPositions(reader).write("mirror", "clicks", 0, 1)
    with pytest.raises(NodeForbidden):
        mirror.tree.put("/consumers/rates/offsets/clicks/0", b"0")
    seat = LeaderSeat(registry, "schema-registry", "http://one")
    assert (seat.take() or seat.take()) is not None
    with pytest.raises(NodeForbidden):
        LeaderSeat(mirror, "schema-registry", "http://two").take()


def test_an_open_tree_is_taken_over_and_opened_again(server: SecuredZooKeeper, opened: Opened, chroot: str) -> None:
    """With a dry run, by the command."""
    older = opened("broker", sets_rights=False)
    older.tree.put("/consumers/g/offsets/clicks/0", b"1")
    UserRegistry(older).change("shop", lambda _: {"SCRAM-SHA-512": "x"})
    assert older.tree.rights("/config/users/shop") == OPEN

    def secure(*words: str, role: str = "operator") -> "subprocess.CompletedProcess[str]":
        flags = ["--zookeeper", server.address + chroot, "--zookeeper-config", str(server.folder / role / "zookeeper.properties")]
        command = [sys.executable, "-m", "headrace.cli.main", "zookeeper", "secure", *flags, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    dry = secure("--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "/config/users/shop  anyone: cdrwa  ->  CN=headrace-broker: cdrwa; CN=headrace-operator: cdrwa\n" in dry.stdout
    assert older.tree.rights("/config/users/shop") == OPEN
    done = secure()
    assert done.returncode == 0, done.stderr
    identities = default_identities()
    for path in ("/", "/config/users/shop", "/consumers/g/offsets/clicks/0"):
        assert older.tree.rights(path) == rights_of(path, identities)
    assert secure("--dry-run").stdout == "0 nodes would get rights\n"
    refused = secure("--open", role="mirror")
    assert refused.returncode == 1
    assert "was denied" in refused.stderr
    assert secure("--open").returncode == 0
    assert older.tree.rights("/config/users/shop") == OPEN
    security = server.security("operator")
    changes = list(planned(older, security))
    carry_out(older, changes[0])
    assert len(list(planned(older, security))) == len(changes) - 1


def test_a_mirror_that_comes_before_the_brokers_is_denied_until_they_came(opened: Opened) -> None:
    mirror = opened("mirror")
    with pytest.raises(NodeForbidden):
        AuditPositions(mirror).write("mirror", "clicks", 0, 7)
    opened("broker")
    AuditPositions(mirror).write("mirror", "clicks", 0, 7)


def test_a_client_in_the_clear_is_told_to_speak_tls(server: SecuredZooKeeper) -> None:
    with pytest.raises(ZooKeeperUnreachable, match="it speaks TLS, and this process speaks in the clear: name the file"):
        Session(server.address, name="old", session_timeout_ms=1_000).start(1_500)


def test_tls_towards_a_server_in_the_clear_says_so(server: SecuredZooKeeper, zookeeper_address: str) -> None:
    with pytest.raises(ZooKeeperUnreachable, match="does not speak TLS on this port"):
        Session(zookeeper_address, name="new", session_timeout_ms=1_000, security=server.security("broker")).start(1_500)


def test_certificates_of_another_ca_are_refused_on_both_sides(server: SecuredZooKeeper, tmp_path: Path) -> None:
    other = SecuredZooKeeper(tmp_path)
    right = server.security("broker")
    wrong = replace(right, truststore=other.folder / "ca.pem")
    with pytest.raises(ZooKeeperUnreachable, match="its certificate is refused"):
        Session(server.address, name="strange", session_timeout_ms=1_000, security=wrong).start(1_500)
    wrong = replace(right, keystore=other.folder / "broker" / "keystore.pem")
    with pytest.raises(ZooKeeperUnreachable, match=r"of a CA that the server knows|closed the connection"):
        Session(server.address, name="strange", session_timeout_ms=1_000, security=wrong).start(1_500)
    with pytest.raises(ZooKeeperUnreachable, match=r"certificate is refused: .*localhost"):
        Session(f"localhost:{server.port}", name="host", session_timeout_ms=1_000, security=right).start(1_500)


def test_a_renewed_certificate_is_shown_by_the_next_connection(server: SecuredZooKeeper, opened: Opened) -> None:
    broker = opened("broker")
    before = (server.folder / "broker" / "keystore.pem").read_bytes()
    Authority.read(server.folder).issue(server.folder / "broker" / "keystore.pem", "headrace-broker", hosts=(), days=2)
    assert (server.folder / "broker" / "keystore.pem").read_bytes() != before
    client = broker._client
    assert client is not None
    client._connection._socket.shutdown(2)
    broker.tree.put("/config/users/later", b"{}")
    assert broker.tree.read("/config/users/later") is not None
