"""`headrace topic …` against a real broker; another client checks the changes."""

import json
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from headrace.cli.main import main
from headrace.client.connection.cluster import Cluster
from headrace.client.producer.producer import Producer
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually, free_port

Out = pytest.CaptureFixture[str]


class Command:
    """Runs `headrace topic …` on the broker."""

    def __init__(self, bootstrap: str, capsys: Out) -> None:
        self._bootstrap = bootstrap
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *words: str) -> int:
        code = main(["topic", *words, "--bootstrap", self._bootstrap])
        self.out, self.err = self._capsys.readouterr()
        assert "Traceback" not in self.err
        return code

    def json(self, *words: str) -> Any:
        assert self(*words, "--json") == 0, self.err
        return json.loads(self.out)


@pytest.fixture
def command(broker: BrokerProcess, capsys: Out) -> Command:
    return Command(broker.address, capsys)


def settings(broker: BrokerProcess, topic: str) -> dict[str, str]:
    """Return the topic's own settings, as librdkafka sees them."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": broker.address})
    ((_, answer),) = admin.describe_configs([resource]).items()
    return {name: entry.value for name, entry in answer.result(timeout=20).items() if entry.source == 1}


def topics(broker: BrokerProcess) -> dict[str, int]:
    found = AdminClient({"bootstrap.servers": broker.address}).list_topics(timeout=20).topics
    return {name: len(topic.partitions) for name, topic in found.items()}


def test_a_topic_is_created_as_asked_and_seen_by_others(broker: BrokerProcess, command: Command, topic: str) -> None:
    words = [
        "--partitions",
        "4",
        "--replication-factor",
        "1",
        "--config",
        "retention.ms=60000",
        "--config",
        "segment.bytes=100000",
    ]
    assert command("create", topic, *words) == 0
    assert command.out == f"{topic} is created: 4 partitions, 1 replica each\n"
    assert topics(broker)[topic] == 4
    assert settings(broker, topic) == {"retention.ms": "60000", "segment.bytes": "100000"}


def test_without_numbers_the_cluster_s_own_defaults_are_taken(broker: BrokerProcess, command: Command, topic: str) -> None:
    told = command.json("create", topic)
    assert told == {"name": topic, "is_new": True, "partitions": topics(broker)[topic], "replication_factor": 1}


def test_a_topic_that_exists_stays_as_it_is_and_that_is_a_failure_unless_allowed(command: Command, topic: str) -> None:
    command("create", topic, "--partitions", "2")
    assert command("create", topic, "--partitions", "7") == 1
    assert f"topic {topic!r} exists" in command.err
    assert "--if-not-exists" in command.err
    assert command.json("create", topic, "--partitions", "7", "--if-not-exists")["partitions"] == 2


def test_list_names_each_topic_with_its_size(broker: BrokerProcess, command: Command, topic: str) -> None:
    command("create", topic, "--partitions", "2")
    command("create", f"{topic}.quarantine", "--partitions", "1")
    rows = {row["name"]: row for row in command.json("list")}
    assert rows[topic] == {"name": topic, "partitions": 2, "replication_factor": 1, "is_internal": False}
    assert rows[f"{topic}.quarantine"]["is_internal"]
    assert rows.keys() == topics(broker).keys()
    assert command("list", "--exclude-internal") == 0
    assert [line.split() for line in command.out.splitlines() if line.startswith(topic)] == [[topic, "2", "1"]]


def test_describe_shows_offsets_and_own_settings(broker: BrokerProcess, command: Command, topic: str) -> None:
    command("create", topic, "--partitions", "2", "--config", "flush.ms=7")
    cluster = Cluster(broker.address)
    producer = Producer(cluster)
    producer.send(topic, b"v", partition=1, timestamp_ms=1)
    producer.close()
    cluster.close()
    # The broker shows a record under a flush policy once it is flushed, which may be after its acknowledgement.
    eventually(lambda: command.json("describe", topic)["partitions"][1]["log_end_offset"], what="the record is shown")
    told = command.json("describe", topic)
    assert (told["name"], told["config"], told["replication_factor"]) == (topic, {"flush.ms": "7"}, 1)
    first, second = told["partitions"]
    assert (first["log_start_offset"], first["log_end_offset"]) == (0, 0)
    assert (second["leader"], second["replicas"], second["in_sync_replicas"]) == (1, [1], [1])
    assert command("describe", topic) == 0
    assert "flush.ms=7" in command.out
    assert len(command.out.splitlines()) == 4


def test_config_shows_sets_and_unsets_and_leaves_the_rest(broker: BrokerProcess, command: Command, topic: str) -> None:
    command("create", topic, "--config", "retention.ms=60000", "--config", "flush.ms=7")
    assert command("config", topic, "--set", "segment.bytes=200000", "--set", "flush.ms=8", "--unset", "retention.ms") == 0
    assert settings(broker, topic) == {"segment.bytes": "200000", "flush.ms": "8"}
    assert [line.split()[0] for line in command.out.splitlines()] == ["flush.ms", "retention.ms", "segment.bytes"]
    shown = {one["name"]: one for one in command.json("config", topic)["config"]}
    assert shown["flush.ms"] == {"name": "flush.ms", "value": "8", "source": "topic"}
    assert shown["retention.ms"]["source"] != "topic"


def test_delete_takes_it_away_and_a_second_time_it_is_unknown(broker: BrokerProcess, command: Command, topic: str) -> None:
    command("create", topic)
    assert command.json("delete", topic) == {"name": topic, "is_deleted": True}
    assert topic not in topics(broker)
    assert command("delete", topic) == 2
    assert f"there is no topic {topic!r}" in command.err


def test_the_platform_s_own_topics_are_deleted_by_force_only(broker: BrokerProcess, command: Command, topic: str) -> None:
    command("create", f"_{topic}")
    assert command("delete", f"_{topic}") == 2
    assert "--force" in command.err
    assert f"_{topic}" in topics(broker)
    assert command("delete", f"_{topic}", "--force") == 0
    assert f"_{topic}" not in topics(broker)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["create", "bad topic!"], "may only have letters"),
        (["describe", "bad topic!"], "INVALID_TOPIC_EXCEPTION"),
        (["create", "x", "--replication-factor", "3"], "INVALID_REPLICATION_FACTOR"),
        (["create", "x", "--partitions", "100000"], "the cluster's own policy forbids it"),
        (["create", "x", "--config", "no.such.thing=1"], "no.such.thing: there is no such topic setting"),
        (["create", "x", "--config", "retention.ms=soon"], "retention.ms: 'soon' is not a whole number"),
        (["create", "x", "--config", "flush.ms=1", "--config", "flush.ms=2"], "given more than once"),
        (["config", "x", "--set", "flush.ms=1", "--unset", "flush.ms"], "set and unset at once"),
        (["config", "nowhere"], "there is no topic 'nowhere'"),
        (["config", "nowhere", "--set", "flush.ms=1"], "there is no topic 'nowhere'"),
        (["describe", "nowhere"], "there is no topic 'nowhere'"),
    ],
)
def test_what_cannot_be_is_exit_code_2_and_says_why(command: Command, words: list[str], why: str) -> None:
    assert command(*words) == 2
    assert why in command.err
    assert command.out == ""


@pytest.mark.parametrize(
    "words", [["create", "x", "--partitions", "0"], ["create", "x", "--config", "novalue"], ["list", "extra"]]
)
def test_words_that_mean_nothing_are_exit_code_2(command: Command, words: list[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        command(*words)
    assert raised.value.code == 2


def test_a_refusal_by_policy_gives_no_advice_for_producers(command: Command) -> None:
    assert command("create", "x", "--partitions", "100000") == 2
    assert "POLICY_VIOLATION" in command.err
    assert "producer" not in command.err


def test_a_mistyped_name_is_guessed_at(command: Command) -> None:
    command("create", "checkouts", "--if-not-exists")
    for action in ("describe", "delete", "config"):
        assert command(action, "chekouts") == 2
        assert "Did you mean 'checkouts'?" in command.err


def test_a_cluster_that_does_not_answer_is_named_with_exit_code_1(capsys: Out) -> None:
    address = f"127.0.0.1:{free_port()}"
    assert main(["topic", "list", "--bootstrap", address]) == 1
    assert f"connect to broker {address} failed: Connection refused" in capsys.readouterr().err
