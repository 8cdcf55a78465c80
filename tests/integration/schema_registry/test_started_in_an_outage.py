"""The registry is killed with -9, and then the programs are started: what this machine has read before works, what it has not
waits or fails by name, nothing goes to quarantine, and all of it continues once the registry is back.

Fault: `headrace tail` and `headrace sink` kept no schemas without `--schema-cache`: started in an outage they knew none.
Fault: a sink that waited for the registry at one partition was shown as ready, for each flush of the others took its reason back.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from headrace.runtime.status import read_status
from tests.support.broker import BrokerProcess
from tests.support.processes import Process, eventually
from tests.support.registry import RegistryProcess
from tests.support.spark_stage import CLICK, LONG_AGO_MS, Stage, click, event

APPLICATION = """
import sys
from headrace.sdk import EventLogger, event_schema
bootstrap, registry, topic, page = sys.argv[1:]
schema = event_schema("Click_" + topic, [{"name": "page", "type": "string"}])
with EventLogger(topic, schema, bootstrap=bootstrap, registry_url=registry, application="test", start_timeout_ms=1_000) as clicks:
    assert clicks.log({"page": page})
    print("logged", flush=True)
    clicks.flush(120_000)
print("acknowledged", clicks.acknowledged_count)
"""
READER = """
import sys
from headrace.reader.decoding.event_decoder import EventDecoder
from headrace.client.consumer.group_consumer import GroupConsumer
from headrace.schema_registry.client import RegistryClient
bootstrap, registry, *topics = sys.argv[1:]
decoder = EventDecoder(RegistryClient(registry))
with GroupConsumer(bootstrap, "reader-in-an-outage", topics) as consumer:
    while True:
        message = consumer.poll(200)
        if message is not None:
            print("read", decoder.decode(message.value)["page"], flush=True)
"""
LOAD_MS = 240_000


class Host:
    """A machine whose programs share one folder of schemas."""

    def __init__(self, folder: Path, broker: BrokerProcess, registry: RegistryProcess) -> None:
        self.folder, self.broker, self.registry = folder, broker, registry
        self.environment = {"HEADRACE_SCHEMA_CACHE": str(folder / "schemas"), "HEADRACE_HOME": str(folder / "home")}
        self.started: list[Process] = []

    def start(self, *words: str) -> Process:
        log = self.folder / f"{len(self.started)}.log"
        self.started.append(Process([sys.executable, *words], log, self.environment).start())
        return self.started[-1]

    def application(self, topic: str, page: str) -> Process:
        return self.start("-c", APPLICATION, self.broker.address, self.registry.url, topic, page)

    def log(self, topic: str, page: str) -> None:
        running = self.application(topic, page)
        assert running.wait(60_000) == 0, running.output()
        assert "acknowledged 1" in running.output()

    def tail(self, topic: str) -> tuple[int, list[str], str]:
        """Return exit code, pages and complaints of `headrace tail`."""
        command = [sys.executable, "-m", "headrace.cli.main", "tail", topic, "--json"]
        done = subprocess.run(
            [*command, "--bootstrap", self.broker.address, "--registry", self.registry.url],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, sorted(json.loads(line)["event"]["page"] for line in done.stdout.splitlines()), done.stderr

    def sink(self, *topics: str) -> Process:
        words = ["-m", "headrace.cli.main", "sink", "files", "--folder", str(self.folder / "out"), "--roll-ms", "200"]
        words += [word for topic in topics for word in ("--topic", topic)]
        words += ["--bootstrap", self.broker.address, "--registry", self.registry.url]
        return self.start(*words, "--group", f"sink-{self.folder.name}", "--status-file", str(self.folder / "sink.json"))

    def written(self) -> list[str]:
        """Return the pages in the sink's finished files."""
        found: list[dict[str, Any]] = []
        for path in (self.folder / "out").glob("*/*/*/*.ndjson"):
            found += map(json.loads, path.read_text().splitlines())
        return sorted(one["event"]["page"] for one in found)

    def topics(self) -> set[str]:
        return set(AdminClient({"bootstrap.servers": self.broker.address}).list_topics(timeout=10).topics)

    def close(self) -> None:
        for one in self.started:
            one.kill()


@pytest.fixture
def host(tmp_path: Path, broker: BrokerProcess, registry: RegistryProcess) -> Iterator[Host]:
    made = Host(tmp_path, broker, registry)
    yield made
    made.close()


@pytest.fixture
def another_host(tmp_path: Path, broker: BrokerProcess, registry: RegistryProcess) -> Iterator[Host]:
    folder = tmp_path / "another"
    folder.mkdir()
    made = Host(folder, broker, registry)
    yield made
    made.close()


def test_programs_started_in_the_outage_work_with_what_was_read_before(host: Host, another_host: Host) -> None:
    host.log("known", "before")
    assert host.tail("known")[:2] == (0, ["before"])
    another_host.log("strange", "unread")
    host.registry.process.kill()

    host.log("known", "during")
    assert host.tail("known") == (0, ["before", "during"], "")
    reader = host.start("-c", READER, host.broker.address, host.registry.url, "known")
    eventually(lambda: "read during" in reader.output(), what=f"a reader's events; {reader.output()[-2000:]}", within_ms=60_000)
    assert "read before" in reader.output()

    # Who meets a schema that nobody here has read says so, and guesses nothing.
    code, pages, complaint = host.tail("strange")
    assert (code, pages) == (1, [])
    assert host.registry.url in complaint
    assert "no answer" in complaint

    # A sink holds what it cannot decode yet, and continues with the rest; an application with a new schema waits.
    sink = host.sink("known", "strange")
    eventually(lambda: host.written() == ["before", "during"], what=f"known events; {sink.output()[-2000:]}", within_ms=60_000)
    status = eventually(lambda: stalled(host.folder / "sink.json"), what="the sink's reason", within_ms=60_000)
    assert host.registry.url in status["reason"]
    waiting = host.application("new", "waited")
    eventually(lambda: "logged" in waiting.output(), what="an event that waits", within_ms=60_000)
    host.log("known", "later")
    eventually(lambda: host.written() == ["before", "during", "later"], what="the sink goes on", within_ms=60_000)
    assert waiting.is_running(), waiting.output()
    assert "acknowledged" not in waiting.output()

    host.registry.start()
    assert waiting.wait(90_000) == 0, waiting.output()
    assert host.tail("new")[:2] == (0, ["waited"])
    assert host.tail("strange")[:2] == (0, ["unread"])
    everything = ["before", "during", "later", "unread"]
    eventually(lambda: host.written() == everything, what=f"all events; {sink.output()[-2000:]}", within_ms=60_000)
    eventually(lambda: (read_status(host.folder / "sink.json") or {})["state"] == "ready", what="the sink ready again")
    assert not [topic for topic in host.topics() if topic.endswith(".quarantine")]


def stalled(path: Path) -> dict[str, Any] | None:
    found = read_status(path)
    return found if found is not None and found["state"] == "stalled" else None


@pytest.mark.whole
def test_a_spark_load_started_in_the_outage_loads_what_it_can_decode_and_fails_by_name_at_the_rest(
    host: Host, broker: BrokerProcess, registry: RegistryProcess, tmp_path: Path
) -> None:
    stage = Stage(broker, registry, tmp_path / "home")
    host.environment |= {
        "HEADRACE_LIVE_BOOTSTRAP": broker.address,
        "HEADRACE_OFFLINE_BOOTSTRAP": broker.address,
        "HEADRACE_REGISTRY_URL": registry.url,
    }

    def load() -> tuple[int, str]:
        running = host.start("-m", "headrace.cli.main", "load", stage.topic, "--step", "load")
        code = running.wait(LOAD_MS)
        return code, running.output()

    def is_stored() -> list[str]:
        return [path for (path,) in stage.stored("path")]

    old = stage.register(CLICK)
    stage.create(1)
    stage.send([(0, LONG_AGO_MS, click(old, 0))])
    code, said = load()
    assert code == 0, said
    wider = {**CLICK, "fields": [*CLICK["fields"], {"name": "referrer", "type": "string", "default": ""}]}  # type: ignore[misc]
    new = stage.register(wider)
    registry.process.kill()

    stage.send([(0, LONG_AGO_MS + 1, click(old, 1))])
    code, said = load()
    assert (code, is_stored()) == (0, ["/0", "/1"]), said

    stage.send([(0, LONG_AGO_MS + 2, event(new, wider, {"path": "/2", "status": 200, "referrer": "/"}))])
    code, said = load()
    assert (code, is_stored()) == (1, ["/0", "/1"]), said
    assert registry.url in said
    assert "no answer" in said

    registry.start()
    code, said = load()
    assert (code, is_stored()) == (0, ["/0", "/1", "/2"]), said
    assert f"{stage.topic}.quarantine" not in host.topics()
