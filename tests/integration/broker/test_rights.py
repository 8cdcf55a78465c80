"""Two brokers with access rules, quotas and users that log in, and clients of every kind. Real processes and ZooKeeper."""

import base64
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.schema_registry import SchemaRegistryClient
from kafka import KafkaProducer as PythonProducer
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
)
from kafka.admin import ResourceType as PythonResourceType

from headrace.cli.main import main
from headrace.schema_registry.client.registry_client import RegistryClient
from tests.support.broker import BrokerProcess
from tests.support.login_broker import log_in
from tests.support.processes import Process, eventually, free_port
from tests.support.raw_kafka import RawClient, batch
from tests.support.registry import RegistryProcess

SECRET = "planted-rights-8123"
DENIED = 29


class WithRights(BrokerProcess):
    """A broker whose clients log in, and need rights."""

    def __init__(self, folder: Path, zookeeper: str, number: int) -> None:
        port = free_port()
        words = {
            "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
            "sasl.inter.broker.username": "broker",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:broker;User:admin",
        }
        environment = {"HEADRACE_BROKER_SASL_INTER_BROKER_PASSWORD": SECRET}
        super().__init__(folder / str(number), zookeeper, broker_id=number, port=port, settings=words, environment=environment)


def client_settings(brokers: list[WithRights], user: str) -> dict[str, str]:
    return {
        "bootstrap.servers": ",".join(one.address for one in brokers),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": SECRET,
    }


@pytest.fixture(scope="module")
def brokers(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[WithRights]]:
    folder = tmp_path_factory.mktemp("brokers")
    (folder / "password").write_text(SECRET)
    for user in ("broker", "admin", "alice"):
        assert main(["user", "add", user, "--zookeeper", zookeeper, "--password-file", str(folder / "password")]) == 0
    started = [WithRights(folder, zookeeper, number).start() for number in (1, 2)]
    yield [*started]  # type: ignore[list-item]
    for one in started:
        one.stop()


@pytest.fixture
def admin(brokers: list[WithRights]) -> AdminClient:
    return AdminClient(client_settings(brokers, "admin"))


def binding(topic: str, operation: AclOperation, *, principal: str = "User:alice") -> AclBinding:
    allow, literal = AclPermissionType.ALLOW, ResourcePatternType.LITERAL
    return AclBinding(ResourceType.TOPIC, topic, literal, principal, "*", operation, allow)


def test_a_right_that_is_given_and_taken_is_known_to_all_brokers_within_a_second(
    brokers: list[WithRights], admin: AdminClient, topic: str
) -> None:
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(20)
    clients = [RawClient(one.port) for one in brokers]
    for client in clients:
        log_in(client, "alice", SECRET)

    def errors() -> set[int]:
        asked = {"replica_id": -1, "isolation_level": 0, "topics": []}
        found = set()
        for client in clients:
            partitions = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]
            answer = client.ask(2, 5, {**asked, "topics": [{"name": topic, "partitions": partitions}]})
            found.add(int(answer.topics[0].partitions[0].error_code))
        return found

    assert errors() == {DENIED}
    rule = binding(topic, AclOperation.DESCRIBE)
    for begin, wanted in ((lambda: admin.create_acls([rule])[rule], False), (lambda: deleted(admin, topic), True)):
        begin().result(20)
        begun = time.monotonic()
        eventually(lambda wanted=wanted: (DENIED in errors()) is wanted and len(errors() & {DENIED}) == wanted, within_ms=5_000)
        took = time.monotonic() - begun
        print(f"known to both brokers after {took * 1000:.0f} ms")
    for client in clients:
        client.close()


def deleted(admin: AdminClient, topic: str) -> object:
    any_, all_ = AclPermissionType.ANY, ResourcePatternType.ANY
    wanted = AclBindingFilter(ResourceType.TOPIC, topic, all_, None, None, AclOperation.ANY, any_)
    return admin.delete_acls([wanted])[wanted]


def test_confluents_admin_client_makes_finds_and_deletes_rules(admin: AdminClient, topic: str) -> None:
    rules = [binding(topic, AclOperation.READ), binding(topic, AclOperation.WRITE)]
    for future in admin.create_acls(rules).values():
        future.result(20)
    match = AclBindingFilter(
        ResourceType.TOPIC, topic, ResourcePatternType.MATCH, None, None, AclOperation.ANY, AclPermissionType.ANY
    )

    def found() -> set[AclBinding]:
        return {*admin.describe_acls(match).result(20)}

    # Another broker than the one that made the change may answer, and knows it a little later.
    eventually(lambda: found() == {*rules}, within_ms=30_000, what="the rules")
    assert {*deleted(admin, topic).result(20)} == {*rules}  # type: ignore[attr-defined]
    eventually(lambda: found() == set(), within_ms=30_000, what="no rules")


def test_kafka_pythons_admin_client_makes_finds_and_deletes_rules(brokers: list[WithRights], topic: str) -> None:
    python = KafkaAdminClient(
        bootstrap_servers=brokers[0].address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username="admin",
        sasl_plain_password=SECRET,
    )
    rule = ACL(
        principal="User:alice",
        host="*",
        operation=ACLOperation.READ,
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=ResourcePattern(PythonResourceType.TOPIC, topic),
    )
    wanted = ACLFilter(
        principal=None,
        host=None,
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
        resource_pattern=ResourcePatternFilter(PythonResourceType.TOPIC, topic, ACLResourcePatternType.ANY),
    )
    try:
        made = python.create_acls([rule])
        assert made["failed"] == []
        found, _ = python.describe_acls(wanted)
        assert [(one.principal, one.operation) for one in found] == [("User:alice", ACLOperation.READ)]
        assert len(python.delete_acls([wanted])[0][1]) == 1
        assert python.describe_acls(wanted)[0] == []
    finally:
        python.close()


def test_a_client_without_a_right_is_told_and_the_denial_is_in_the_log(
    brokers: list[WithRights],
    admin: AdminClient,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
    told: list[str] = []
    alice = AdminClient(client_settings(brokers, "alice"))
    producer = Producer(client_settings(brokers, "alice"))
    with pytest.raises(Exception, match=r"TOPIC_AUTHORIZATION_FAILED|authorization"):
        alice.create_topics([NewTopic("mine", 1, 1)])["mine"].result(20)
    rule = binding(topic, AclOperation.DESCRIBE)
    admin.create_acls([rule])[rule].result(20)
    producer.produce(topic, b"a", on_delivery=lambda error, _: told.append(error.name()))
    producer.flush(20)
    assert told == ["TOPIC_AUTHORIZATION_FAILED"]
    eventually(lambda: any('"kind": "denied"' in one.log and topic in one.log for one in brokers), what="the denial is logged")
    assert not any(SECRET in one.log for one in brokers)
    file = tmp_path / "admin.properties"
    words = {**client_settings(brokers, "admin"), "bootstrap.servers": brokers[0].address}
    file.write_text("".join(f"{name}={value}\n" for name, value in words.items()))
    file.chmod(0o600)
    monkeypatch.setenv("HEADRACE_CLIENT_CONFIG", str(file))

    def tailed() -> list[tuple[str, str]]:
        if main(["access", "tail", "--json", "--bootstrap", brokers[0].address]) != 0:
            return []
        events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return [(one["principal"], one["name"]) for one in events if one["kind"] == "denied"]

    eventually(lambda: ("User:alice", topic) in tailed(), within_ms=20_000, what="the denial is a record")


def test_rules_stay_in_force_over_a_restart(brokers: list[WithRights], admin: AdminClient, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
    rule = binding(topic, AclOperation.WRITE)
    admin.create_acls([rule])[rule].result(20)
    for one in brokers:
        one.kill()
        one.restart()
    partition_errors = set()
    for one in brokers:
        with RawClient(one.port) as client:
            log_in(client, "alice", SECRET)
            partition_errors.add(int(client.produce(topic, batch(b"a")).error_code))
            assert client.produce("other", batch(b"a")).error_code == DENIED
    assert 0 in partition_errors
    assert DENIED not in partition_errors


@pytest.fixture
def as_admin(brokers: list[WithRights], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Commands are the administrator's. Returns the address for them."""
    file = tmp_path / "admin.properties"
    words = client_settings(brokers, "admin")
    del words["bootstrap.servers"]  # for every cluster that a command asks
    file.write_text("".join(f"{name}={value}\n" for name, value in words.items()))
    file.chmod(0o600)
    monkeypatch.setenv("HEADRACE_CLIENT_CONFIG", str(file))
    return brokers[0].address


def known_quotas(brokers: list[WithRights]) -> list[dict[str, float]]:
    """Return alice's quotas as each broker knows them."""
    found = []
    for one in brokers:
        with RawClient(one.port) as client:
            log_in(client, "admin", SECRET)
            exactly_alice = {"entity_type": "user", "match_type": 0, "match": "alice"}
            entries = client.ask(48, 1, {"components": [exactly_alice], "strict": True}).entries
            found.append({value.key: value.value for entry in entries for value in entry.values})
    return found


def test_quotas_slow_down_real_clients_on_every_broker(
    brokers: list[WithRights], admin: AdminClient, topic: str, as_admin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(20)
    for operation in (AclOperation.READ, AclOperation.WRITE):
        rule = binding(topic, operation)
        admin.create_acls([rule])[rule].result(20)
    whose = ["--user", "alice", "--bootstrap", as_admin]
    rates = {"producer_byte_rate": 100_000.0, "consumer_byte_rate": 100_000.0}
    flags = [word for key, rate in rates.items() for word in (f"--{key.replace('_', '-')}", str(rate))]
    assert main(["quota", "set", *whose, *flags, "--dry-run"]) == 0
    assert known_quotas(brokers) == [{}, {}]
    assert main(["quota", "set", *whose, *flags]) == 0
    eventually(lambda: known_quotas(brokers) == [rates, rates], within_ms=30_000, what="both brokers know the quotas")
    throttled: dict[str, set[str]] = {"producer": set(), "consumer": set()}
    settings = {**client_settings(brokers, "alice"), "linger.ms": 5}
    told = {"throttle_cb": lambda event: throttled["producer"].add(event.broker_name)}
    producer = Producer({**settings, **told})
    failed: list[object] = []
    for number in range(40):
        note = lambda error, _: failed.append(error) if error else None  # noqa: E731
        producer.produce(topic, b"x" * 10_000, partition=number % 2, on_delivery=note)
        producer.flush(30)
    assert failed == []
    assert len(throttled["producer"]) == 2, "each broker asked the producer to wait"
    told = {"throttle_cb": lambda event: throttled["consumer"].add(event.broker_name)}
    consumer = Consumer({**client_settings(brokers, "alice"), **told, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(2)])
    read: list[bytes] = []

    def all_read() -> bool:
        read.extend(one.value() for one in consumer.consume(100, 0.5) if one.error() is None)
        return len(read) == 40 and len(throttled["consumer"]) > 0

    eventually(all_read, within_ms=60_000, what="all records are read, and the consumer was asked to wait")
    consumer.close()
    python = PythonProducer(
        bootstrap_servers=as_admin,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username="alice",
        sasl_plain_password=SECRET,
    )
    for _ in range(20):
        python.send(topic, b"y" * 20_000).get(60)
    python.close()
    capsys.readouterr()
    assert main(["quota", "list", "--bootstrap", as_admin, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"user": "alice", "quotas": rates}]
    assert main(["quota", "remove", *whose]) == 0
    eventually(lambda: known_quotas(brokers) == [{}, {}], within_ms=30_000, what="both brokers forgot the quotas")
    assert main(["quota", "remove", *whose]) == 2
    with RawClient(brokers[0].port) as client:
        assert log_in(client, "alice", SECRET).error_code == 0, "the user's credentials are in the same node, and stay"


def test_the_command_for_rules_has_the_words_of_kafkas_own(
    brokers: list[WithRights], topic: str, as_admin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def acl(*words: str) -> list[str]:
        capsys.readouterr()
        assert main(["acl", *words, "--bootstrap", as_admin]) == 0
        return capsys.readouterr().out.splitlines()

    rule = f"User:alice from * may {{}} TOPIC LITERAL:{topic}"
    producer = ["add", "--allow-principal", "User:alice", "--producer", "--topic", topic]
    whole = [rule.format(operation) for operation in ("WRITE", "CREATE", "DESCRIBE")]
    assert acl(*producer, "--dry-run") == [f"would add {one}" for one in whole]
    assert acl("list", "--topic", topic) == ["there are no such rules"]
    assert acl(*producer) == [f"added {one}" for one in whole]
    assert acl("list", "--topic", topic, "--principal", "User:alice") == whole
    assert acl("list", "--topic", topic, "--principal", "User:bob") == ["there are no such rules"]
    create = ["remove", "--allow-principal", "User:alice", "--operation", "Create", "--topic", topic]
    assert acl(*create, "--dry-run") == [f"would remove {whole[1]}"]
    assert acl(*create) == [f"removed {whole[1]}"]
    assert acl("remove", "--topic", topic) == [f"removed {whole[0]}", f"removed {whole[2]}"]
    prefixed = ["--resource-pattern-type", "prefixed", "--topic", "shop-", "--operation", "Read"]
    assert acl("add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.7", *prefixed, "--json") == [
        json.dumps(
            [
                {
                    "resource": "TOPIC",
                    "pattern": "PREFIXED",
                    "name": "shop-",
                    "principal": "User:bob",
                    "host": "10.0.0.7",
                    "operation": "READ",
                    "permission": "DENY",
                }
            ]
        )
    ]
    assert len(acl("list", "--topic", "shop-7", "--resource-pattern-type", "match")) == 1
    assert len(acl("remove", "--deny-principal", "User:bob", "--deny-host", "10.0.0.7", *prefixed)) == 1
    assert main(["acl", "add", "--topic", topic, "--bootstrap", as_admin]) == 2
    assert main(["acl", "remove", "--bootstrap", as_admin]) == 2


def basic(user: str, password: str = SECRET) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def answered(url: str, method: str, path: str, who: Mapping[str, str], body: object = None) -> tuple[int, bytes]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json", **who}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def status(url: str, method: str, path: str, who: Mapping[str, str], body: object = None) -> int:
    return answered(url, method, path, who, body)[0]


def test_the_registry_has_the_clusters_users_and_rights(
    brokers: list[WithRights], admin: AdminClient, topic: str, as_admin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
    new, subject = f"{topic}-new", f"{topic}-value"
    registry = RegistryProcess(tmp_path / "registry", as_admin, f"schemas-{topic}", "--logins")
    schema = {"type": "record", "name": "Click", "fields": [{"name": "a", "type": "int"}]}
    alice, root = basic("alice"), basic("admin")

    with registry:
        refused = {answered(registry.url, "GET", "/subjects", who) for who in ({}, basic("alice", "wrong"), basic("nobody"))}
        assert {code for code, _ in refused} == {401}
        assert len(refused) == 1, "a refusal does not say which users there are"
        body = {"schema": json.dumps(schema)}
        assert status(registry.url, "POST", f"/subjects/{subject}/versions", alice, body) == 403
        assert status(registry.url, "GET", f"/subjects/{subject}/versions", alice) == 403
        grant = ["acl", "add", "--allow-principal", "User:alice", "--bootstrap", as_admin, "--resource-pattern-type", "prefixed"]
        assert main([*grant, "--topic", topic, "--operation", "Write", "--operation", "Create"]) == 0
        eventually(
            lambda: status(registry.url, "POST", f"/subjects/{subject}/versions", alice, body) == 200,
            within_ms=30_000,
            what="the right is in force at the registry",
        )
        assert status(registry.url, "POST", f"/subjects/{new}-value/versions", alice, body) == 200, (
            "of a topic that it may create"
        )
        assert status(registry.url, "POST", "/subjects/other-value/versions", root, body) == 200
        assert status(registry.url, "DELETE", f"/subjects/{subject}", alice) == 403
        assert status(registry.url, "PUT", "/config", alice, {"compatibility": "NONE"}) == 403
        assert status(registry.url, "PUT", "/config", root, {"compatibility": "FULL"}) == 200
        confluent = SchemaRegistryClient({"url": registry.url, "basic.auth.user.info": f"alice:{SECRET}"})
        assert confluent.get_subjects() == [subject]
        assert confluent.get_latest_version(subject).schema_id == 1
        (tmp_path / "login").write_text(f"alice:{SECRET}\n")
        monkeypatch.setenv("HEADRACE_REGISTRY_LOGIN_FILE", str(tmp_path / "login"))
        ours = RegistryClient(registry.url, cache_folder=None)
        assert ours.schema(1) is not None
        monkeypatch.delenv("HEADRACE_REGISTRY_LOGIN_FILE")
        (tmp_path / "password").write_text("first-8123")
        carol = ["user", "add", "carol", "--bootstrap", as_admin, "--password-file", str(tmp_path / "password")]
        assert main(carol) == 0
        eventually(
            lambda: status(registry.url, "GET", "/subjects", basic("carol", "first-8123")) == 200,
            within_ms=30_000,
            what="a new user",
        )
        assert status(registry.url, "GET", "/schemas/ids/1", basic("carol", "first-8123")) == 404, "no subject of it is hers"
        assert main(["user", "remove", "carol", "--bootstrap", as_admin]) == 0
        eventually(
            lambda: status(registry.url, "GET", "/subjects", basic("carol", "first-8123")) == 401,
            within_ms=30_000,
            what="she is gone",
        )
        assert main(["acl", "remove", "--topic", topic, "--resource-pattern-type", "prefixed", "--bootstrap", as_admin]) == 0
        eventually(
            lambda: status(registry.url, "GET", f"/subjects/{subject}/versions", alice) == 403,
            within_ms=30_000,
            what="the right is gone",
        )
        assert SECRET not in registry.process.output()


def test_audit_and_console_show_what_their_caller_may_read(
    brokers: list[WithRights], admin: AdminClient, topic: str, as_admin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
    monkeypatch.setenv("HEADRACE_LIVE_BOOTSTRAP", as_admin)
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    command = [sys.executable, "-m", "headrace.cli.main"]
    alice, root = basic("alice"), basic("admin")
    urls, processes = {}, []
    live = ["--live", as_admin, "--offline", "", "--store", str(tmp_path / "books.sqlite")]
    for name, words in (("audit", live), ("console", [])):
        port = free_port()
        urls[name] = f"http://127.0.0.1:{port}"
        processes.append(Process([*command, name, "run", "--port", str(port), "--logins", *words], tmp_path / f"{name}.log"))
        processes[-1].start()
    of_topic = {
        "audit": [f"/api/completeness?topic={topic}", f"/api/tiers?topic={topic}"],
        "console": [f"/messages?topic={topic}", f"/settings?topic={topic}"],
    }
    of_all = {"audit": ["/api/problems", "/api/unsealed", "/metrics"], "console": ["/topics", "/groups"]}
    try:
        for name, url in urls.items():
            eventually(lambda url=url: is_up(url), within_ms=30_000, what=f"{name} is up")
            for path in (*of_topic[name], *of_all[name]):
                assert status(url, "GET", path, {}) == 401, path
                assert status(url, "GET", path, basic("alice", "wrong")) == 401, path
                assert status(url, "GET", path, alice) == 403, path
                assert status(url, "GET", path, root) == 200, path
        code, body = answered(urls["audit"], "GET", "/api/topics", alice)
        assert code == 200
        assert topic not in json.loads(body)
        assert status(urls["audit"], "POST", f"/api/recount?tier=live&topic={topic}", alice) == 403
        rule = binding(topic, AclOperation.READ)
        admin.create_acls([rule])[rule].result(20)
        for name, url in urls.items():
            for path in of_topic[name]:
                may = lambda url=url, path=path: status(url, "GET", path, alice) == 200  # noqa: E731
                eventually(may, within_ms=30_000, what=f"alice may see {path}")
            for path in of_all[name]:
                assert status(url, "GET", path, alice) == 403, path
        assert not any(SECRET in one.output() for one in processes)
    finally:
        for one in processes:
            one.stop()


def is_up(url: str) -> bool:
    try:
        return status(url, "GET", "/healthz", {}) == 200
    except OSError:
        return False
