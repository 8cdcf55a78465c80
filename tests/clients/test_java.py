"""Apache Kafka's own Java client (its tests are in java/) and the console tools that come with it."""

import subprocess
from pathlib import Path

import pytest

from tests.clients.building import java, maven
from tests.clients.secured import SecuredBroker
from tests.support.broker import BrokerProcess


@pytest.mark.parametrize("suite", ["RecordsTest", "GroupsTest", "AdminTest", "ConsolesTest"])
def test_java_client(broker: BrokerProcess, build_folder: Path, suite: str) -> None:
    maven(
        build_folder / "java",
        "test",
        f"-Dtest={suite}",
        f"-DargLine=-Dbootstrap={broker.address} -Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-DtrimStackTrace=true",
    )


def test_java_client_logs_in(secured: SecuredBroker, build_folder: Path) -> None:
    words = " ".join(f"-D{name.lower()}={value}" for name, value in secured.words.items())
    line = f"-DargLine={words} -Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    maven(build_folder / "java", "test", "-Dtest=LoginsTest", line, "-DtrimStackTrace=true")


def tool(jars: str, main: str, *words: str, stdin: str = "") -> str:
    """Run a console tool by its main class and return its output."""
    command = [java(), "-cp", jars, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", main, *words]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-5_000:]
    return done.stdout


def test_console_tools(broker: BrokerProcess, jars: str) -> None:
    """The usual command-line tools, by the classes behind them: kafka-topics, -console-producer, -console-consumer,
    -consumer-groups, -configs, -get-offsets, -delete-records, -log-dirs, -broker-api-versions, -producer-perf-test.
    """
    server = ("--bootstrap-server", broker.address)
    tools = "org.apache.kafka.tools"
    tool(
        jars, f"{tools}.TopicCommand", *server, "--create", "--topic", "tools", "--partitions", "2", "--config", "retention.ms=-1"
    )
    listed = tool(jars, f"{tools}.TopicCommand", *server, "--describe", "--topic", "tools")
    assert "PartitionCount: 2" in listed
    assert "retention.ms=-1" in listed
    tool(jars, f"{tools}.TopicCommand", *server, "--alter", "--topic", "tools", "--partitions", "3")
    lines = [f"line {number}" for number in range(50)]
    tool(jars, f"{tools}.ConsoleProducer", *server, "--topic", "tools", stdin="\n".join(lines) + "\n")
    read = ("--topic", "tools", "--group", "readers", "--from-beginning", "--max-messages", "50", "--timeout-ms", "30000")
    got = tool(jars, f"{tools}.consumer.ConsoleConsumer", *server, *read)
    assert sorted(got.splitlines()) == sorted(lines)
    described = tool(jars, f"{tools}.consumer.group.ConsumerGroupCommand", *server, "--describe", "--group", "readers")
    assert "tools" in described
    reset = ("--group", "readers", "--reset-offsets", "--to-earliest", "--topic", "tools", "--execute")
    tool(jars, f"{tools}.consumer.group.ConsumerGroupCommand", *server, *reset)
    got = tool(jars, f"{tools}.consumer.ConsoleConsumer", *server, *(word for word in read if word != "--from-beginning"))
    assert sorted(got.splitlines()) == sorted(lines)
    tool(jars, f"{tools}.consumer.group.ConsumerGroupCommand", *server, "--delete", "--group", "readers")
    ends = tool(jars, f"{tools}.GetOffsetShell", *server, "--topic", "tools", "--time", "earliest")
    assert ends.split() == ["tools:0:0", "tools:1:0", "tools:2:0"]
    assert "tools-0" in tool(jars, f"{tools}.LogDirsCommand", *server, "--describe", "--topic-list", "tools")
    perf = ("--topic", "perf", "--num-records", "20000", "--record-size", "200", "--throughput", "-1")
    sent = tool(jars, f"{tools}.ProducerPerformance", *perf, *("--producer-props", f"bootstrap.servers={broker.address}"))
    assert "20000 records sent" in sent
    tool(jars, f"{tools}.TopicCommand", *server, "--delete", "--topic", "tools")


def test_tools_for_replicas_get_an_answer(broker: BrokerProcess, jars: str) -> None:
    """Fault: kafka-reassign-partitions and kafka-leader-election ended in Java traces. What kafka-configs asks about users and
    quotas is in ConsolesTest.
    """
    server, tools = ("--bootstrap-server", broker.address), "org.apache.kafka.tools"
    listed = tool(jars, f"{tools}.reassign.ReassignPartitionsCommand", *server, "--list")
    assert "No partition reassignments found" in listed
    elected = tool(jars, f"{tools}.LeaderElectionCommand", *server, "--election-type", "preferred", "--all-topic-partitions")
    assert "Exception" not in elected


def test_the_console_producer_says_that_transactions_are_not_supported(broker: BrokerProcess, jars: str) -> None:
    """Fault: it said "Transactional Id authorization failed", as if a right were missing."""
    performance = ("--topic", "perf", "--num-records", "10", "--record-size", "20", "--throughput", "-1")
    words = (*performance, "--transactional-id", "tx", "--producer-props", f"bootstrap.servers={broker.address}")
    command = [java(), "-cp", jars, "org.apache.kafka.tools.ProducerPerformance", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert "this broker does not support transactions" in done.stderr
