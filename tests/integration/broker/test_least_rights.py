"""A broker, its ZooKeeper and every role, secured by `headrace security`: each role may do its work, and each right that is taken
away stops one named thing. Real processes over TLS.
"""

import base64
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.audit.service.web.endpoints import FOR_ALL, OF_TOPIC
from headrace.broker.rights.rule import Operation, Resource, Rule
from headrace.client import access_rules, scram_users
from headrace.client.access_rules import Row
from headrace.client.admin import create_topic
from headrace.client.callers import Callers
from headrace.client.connection.cluster import Cluster
from headrace.client.errors import ClientError
from headrace.client.topic_logins import TopicLogins
from headrace.local.security.apply import by_brokers, wanted
from headrace.local.security.files import password_of
from headrace.local.security.roles import LIVE, OFFLINE, ROLES, Right, Role, principal, role_of, rules_for, rules_of
from headrace.runtime.http_access import Refused
from headrace.schema_registry.service.web.rights import RegistryLogins
from headrace.wire.messages import describe_damage
from tests.support.broker import BrokerProcess
from tests.support.login_broker import log_in
from tests.support.processes import free_port
from tests.support.raw_kafka import RawClient, batch
from tests.support.secured_zookeeper import SecuredZooKeeper

TOPICS, GROUPS = ("clicks",), ("rates",)
DENIED = {29, 30, 31, 53}
"""Kafka's errors of a topic, a group, the cluster and a transactional id that are not authorized."""
OF_GROUP = 30
CHROOT = "/live"


class Secured:
    """One broker over SASL_SSL, with the rights of the live cluster or of the offline one."""

    def __init__(self, folder: Path) -> None:
        self.zookeeper = SecuredZooKeeper(folder)
        self.folder = self.zookeeper.folder
        port = free_port()
        lines = (self.folder / "broker" / "broker.properties").read_text().splitlines()
        settings = {"listeners": f"SASL_SSL://127.0.0.1:{port}", **dict(line.split("=", 1) for line in lines)}
        secret = {"HEADRACE_BROKER_SASL_INTER_BROKER_PASSWORD": settings.pop("sasl.inter.broker.password")}
        self.broker = BrokerProcess(
            folder / "broker", self.zookeeper.address + CHROOT, port=port, settings=settings, environment=secret
        )
        self.tls = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))

    def start(self) -> "Secured":
        self.zookeeper.start()
        self.apply("--zookeeper", self.zookeeper.address + CHROOT)
        self.broker.start(60_000)
        return self

    def stop(self) -> None:
        self.broker.kill()
        self.zookeeper.process.stop()

    def apply(self, *words: str) -> str:
        """Run `headrace security apply` with the names of this test's topics and groups."""
        names = [word for topic in TOPICS for word in ("--topic", topic)] + [word for one in GROUPS for word in ("--group", one)]
        command = [sys.executable, "-m", "headrace.cli.main", "security", "apply", str(self.folder), *names, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert password_of(self.folder, "agent") not in done.stdout + done.stderr
        return done.stdout

    def cluster(self, role: str) -> Cluster:
        return Cluster(self.broker.address, security=self.folder / role / "client.properties")

    def client(self, role: str) -> RawClient:
        client = RawClient(self.broker.port, tls=self.tls, timeout_ms=30_000)
        assert log_in(client, role, password_of(self.folder, role)).error_code == 0
        return client


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture(scope="module")
def operator(secured: Secured) -> Iterator[Cluster]:
    cluster = secured.cluster("operator")
    yield cluster
    cluster.close()


Attempt = Callable[[RawClient, str], int]
"""Returns the error code."""


def _create(client: RawClient, name: str) -> int:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    (answer,) = client.ask(19, 4, {"topics": [topic], "timeout_ms": 10_000, "validate_only": True}).topics
    return int(answer.error_code)


def _delete_records(client: RawClient, name: str) -> int:
    topic = {"name": name, "partitions": [{"partition_index": 0, "offset": 0}]}
    return int(client.ask(21, 2, {"topics": [topic], "timeout_ms": 10_000}).topics[0].partitions[0].error_code)


def _settings(client: RawClient, name: str) -> int:
    asked = {"resources": [{"resource_type": 2, "resource_name": name, "configuration_keys": None}]}
    (answer,) = client.ask(32, 1, {**asked, "include_synonyms": False}).results
    return int(answer.error_code)


def _offsets(client: RawClient, name: str) -> int:
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    asked = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": name, "partitions": [partition]}]}
    return int(client.ask(2, 5, asked).topics[0].partitions[0].error_code)


def _more_partitions(client: RawClient, name: str) -> int:
    topic = {"name": name, "count": 2, "assignments": None}
    (answer,) = client.ask(37, 1, {"topics": [topic], "timeout_ms": 10_000, "validate_only": True}).results
    return int(answer.error_code)


def _change_settings(client: RawClient, name: str) -> int:
    change = {"name": "retention.ms", "config_operation": 0, "value": "1000000"}
    resource = {"resource_type": 2, "resource_name": name, "configs": [change]}
    (answer,) = client.ask(44, 0, {"resources": [resource], "validate_only": True}).responses
    return int(answer.error_code)


def _commit(client: RawClient, group: str) -> int:
    partition = {"partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1, "committed_metadata": None}
    asked = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    topics = [{"name": "_headrace.audit" if group.startswith("_") else "clicks", "partitions": [partition]}]
    answer = client.ask(8, 7, {**asked, "topics": topics}).topics[0].partitions[0]
    return int(answer.error_code) if answer.error_code == OF_GROUP else 0  # the topic's right is another attempt's


def _describe_group(client: RawClient, group: str) -> int:
    (answer,) = client.ask(15, 0, {"groups": [group]}).groups
    return int(answer.error_code)


def _damage(client: RawClient, _: str) -> int:
    body = client.request(describe_damage.KEY, describe_damage.VERSION, describe_damage.encode_request(0))
    return int(describe_damage.decode_response(body).error_code)


def _transactions(client: RawClient, name: str) -> int:
    """Without the right it is denied; with it the broker says that it has no transactions."""
    (answer,) = client.ask(10, 4, {"key_type": 1, "coordinator_keys": [name]}).coordinators
    return int(answer.error_code)


ATTEMPTS: dict[tuple[Resource, Operation], Attempt] = {
    (Resource.TOPIC, Operation.WRITE): lambda client, name: int(client.produce(name, batch(b"value")).error_code),
    (Resource.TOPIC, Operation.READ): lambda client, name: int(client.fetch(name, 0).error_code),
    (Resource.TOPIC, Operation.CREATE): _create,
    (Resource.TOPIC, Operation.DELETE): _delete_records,
    (Resource.TOPIC, Operation.DESCRIBE): _offsets,
    (Resource.TOPIC, Operation.DESCRIBE_CONFIGS): _settings,
    (Resource.TOPIC, Operation.ALTER): _more_partitions,
    (Resource.TOPIC, Operation.ALTER_CONFIGS): _change_settings,
    (Resource.GROUP, Operation.READ): _commit,
    (Resource.GROUP, Operation.DESCRIBE): _describe_group,
    (Resource.CLUSTER, Operation.DESCRIBE): _damage,
    (Resource.TRANSACTIONAL_ID, Operation.WRITE): _transactions,
}


def refused(client: RawClient, rights: list[Right], role: Role) -> set[str]:
    """Return what is refused of all that the role does."""
    found = set()
    for right in rights:
        (rule,) = rules_for(role, right, TOPICS, GROUPS)
        if ATTEMPTS[right.resource, right.operation](client, rule.name) in DENIED:
            found.add(right.breaks)
    return found


@pytest.fixture(scope="module")
def topics(operator: Cluster) -> None:
    for name in ("clicks", "clicks.quarantine", "_headrace.audit", "_headrace.audit.checkpoint", "_headrace.schemas"):
        create_topic(operator, name, 1, {}, timeout_ms=30_000)


WITH_RIGHTS = [(role.name, cluster) for role in ROLES for cluster in (LIVE, OFFLINE) if rules_of(role, cluster)]


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize(("name", "cluster"), WITH_RIGHTS)
def test_each_right_that_is_removed_stops_one_named_thing(secured: Secured, operator: Cluster, name: str, cluster: str) -> None:
    role = role_of(name)
    rights = [right for right in role.rights if right.cluster == cluster]
    by_brokers(operator, wanted(secured.folder, cluster, roles=[name], topics=TOPICS, groups=GROUPS))
    with secured.client(name) as client:
        assert refused(client, rights, role) == set()
        for right in rights:
            (rule,) = rules_for(role, right, TOPICS, GROUPS)
            access_rules.remove(operator, [Row(*rule)])
            assert refused(client, rights, role) == {right.breaks}, f"{name} without {right}"
            access_rules.add(operator, [Row(*rule)])


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize(
    ("name", "service", "method", "path", "breaks"),
    [
        ("application", "registry", "POST", "/subjects/clicks-value/versions", "log an event"),
        ("agent", "registry", "POST", "/subjects/clicks-value/versions", "log an event"),
        ("reader", "registry", "GET", "/subjects/clicks-value/versions/1", "read events"),
        ("loads", "registry", "GET", "/subjects/clicks-value/versions/1", "see a live topic's partitions"),
        ("loads", "audit", "GET", "/api/completeness", "see the audit's verdicts"),
        ("console", "registry", "GET", "/subjects/clicks-value/versions", "show a topic's events"),
        ("console", "audit", "GET", "/api/problems", "see the audit's verdicts"),
    ],
)
def test_registry_and_audit_serve_a_role_by_the_same_rights(
    secured: Secured, operator: Cluster, name: str, service: str, method: str, path: str, breaks: str
) -> None:
    role = role_of(name)
    by_brokers(operator, wanted(secured.folder, LIVE, roles=[name], topics=TOPICS, groups=GROUPS))
    (right,) = (one for one in role.rights if one.cluster == LIVE and one.breaks == breaks)
    (rule,) = rules_for(role, right, TOPICS, GROUPS)
    login = (secured.folder / name / "login").read_text().strip()
    shown = f"Basic {base64.b64encode(login.encode()).decode()}"

    def ask() -> None:
        """Do what the service does, with a login of its own. Raises Refused."""
        callers = Callers(secured.broker.address, security=secured.folder / service / "client.properties")
        guard = RegistryLogins(callers) if service == "registry" else TopicLogins(callers, of_topic=OF_TOPIC, for_all=FOR_ALL)
        try:
            with guard.admitted(shown, "127.0.0.1") as caller:
                guard.check(caller, method, path, b"")
        finally:
            callers.close()

    ask()
    access_rules.remove(operator, [Row(*rule)])
    with pytest.raises(Refused):
        ask()


def test_roles_without_a_right_to_something_do_not_get_it_by_others(secured: Secured, operator: Cluster) -> None:
    by_brokers(operator, wanted(secured.folder, LIVE, roles=["application"], topics=TOPICS, groups=GROUPS))
    with secured.client("application") as client:
        assert client.fetch("clicks", 0).error_code in DENIED
        assert client.produce("_headrace.schemas", batch(b"value")).error_code in DENIED
        assert _commit(client, "rates") in DENIED


def test_a_second_apply_takes_away_what_a_role_no_longer_has(secured: Secured, operator: Cluster) -> None:
    mine = principal(role_of("application"))
    strange = Rule(*rules_of(role_of("application"), LIVE, TOPICS)[0])._replace(operation=Operation.DELETE)
    others = strange._replace(principal="User:alice")
    access_rules.add(operator, [Row(*strange), Row(*others)])
    secured.apply("--bootstrap", secured.broker.address, "--role", "application")

    def found(who: str) -> set[Row]:
        return set(access_rules.find(operator, Row(1, None, 1, who, None, 1, 1)))

    assert found(mine) == {Row(*rule) for rule in rules_of(role_of("application"), LIVE, TOPICS, GROUPS)}
    assert found("User:alice") == {Row(*others)}
    assert set(scram_users.users(operator)) == {role.name for role in ROLES if role.has_user}


def test_a_role_that_is_no_operator_cannot_apply(secured: Secured) -> None:
    cluster = secured.cluster("mirror")
    try:
        with pytest.raises(ClientError, match="AUTHORIZATION"):
            access_rules.add(cluster, [Row(*rules_of(role_of("application"), LIVE, TOPICS)[0])])
    finally:
        cluster.close()
