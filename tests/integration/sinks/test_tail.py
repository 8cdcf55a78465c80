"""`headrace tail` on a real topic: Avro and what is none, chosen by place and by expression; it ends with its pipe."""

import io
import json
import subprocess
import sys
import uuid
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import fastavro
import pytest

from headrace.cli.main import main
from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.producer.producer import Producer
from headrace.wire.schema_id import frame
from tests.support.live_side import LiveSide
from tests.support.processes import Process, eventually

START_MS = 1_790_000_000_000
SCHEMA = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "n", "type": "int"},
        {"name": "page", "type": {"type": "record", "name": "P", "fields": [{"name": "path", "type": "string"}]}},
    ],
}


class Filled:
    def __init__(self, live: LiveSide) -> None:
        self.live = live
        self.name = f"pages-{uuid.uuid4().hex[:8]}"
        _, answer = live.registry.register(f"{self.name}-value", SCHEMA)
        self.schema_id = answer["id"]
        self.cluster = Cluster(live.bootstrap)
        create_topic(self.cluster, self.name, partitions=2)
        self.producer = Producer(self.cluster)
        self.send(range(100))
        self.producer.send(self.name, b"plain \xff", partition=0, timestamp_ms=START_MS + 50)
        self.producer.flush(10_000)

    def send(self, numbers: range) -> None:
        for number in numbers:
            out = io.BytesIO()
            fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), {"n": number, "page": {"path": f"/{number % 10}"}})
            value = frame(self.schema_id, out.getvalue())
            self.producer.send(self.name, value, key=b"k", partition=number % 2, timestamp_ms=START_MS + number * 1000)
        self.producer.flush(10_000)

    def command(self, *words: str) -> list[str]:
        command = [sys.executable, "-m", "headrace.cli.main", "tail", self.name, *words]
        return [*command, "--bootstrap", self.live.bootstrap, "--registry", self.live.registry_url]

    def run(self, *words: str) -> tuple[int, str, str]:
        """Run the command in this process; return exit code, output and complaints."""
        out, complaints = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(complaints):
            code = main(self.command(*words)[3:])
        return code, out.getvalue(), complaints.getvalue()

    def tail(self, *words: str) -> list[dict[str, Any]]:
        code, out, complaints = self.run("--json", *words)
        assert code == 0, complaints
        return [json.loads(line) for line in out.splitlines()]


@pytest.fixture(scope="module")
def filled(live: LiveSide) -> Filled:
    return Filled(live)


def test_everything_and_what_is_chosen(filled: Filled) -> None:
    everything = filled.tail()
    assert sorted(one["event"]["n"] for one in everything if "event" in one) == list(range(100))
    (raw,) = [one for one in everything if "event" not in one]
    assert raw["value"] == "plain \\xff"
    assert "0x70" in raw["why"]
    found = filled.tail("--where", 'n >= 50 and page.path in ("/3", "/4") and _partition = 1 and _key = "k"')
    assert sorted(one["event"]["n"] for one in found) == [53, 63, 73, 83, 93]
    assert filled.tail("--from", "2026-09-21T14:14:50Z", "--where", "n > 0") != []
    at = [one for one in everything if one.get("event", {}).get("n") == 41]
    later = filled.tail("--partition", "1", "--from", str(at[0]["offset"]))
    assert [one["event"]["n"] for one in later] == list(range(41, 100, 2))
    assert len(filled.tail("--most", "3")) == 3


def test_it_follows_what_comes_and_stops_when_asked(filled: Filled, tmp_path: Path) -> None:
    process = Process(filled.command("--from", "latest", "--follow", "--where", "n >= 1000"), tmp_path / "out")
    process.start()
    number = 1000

    def is_printed() -> bool:
        nonlocal number
        filled.send(range(number, number + 2))
        number += 2
        return '{"n": ' in process.output()

    try:
        eventually(is_printed, what=f"printed: {process.output()}", every_ms=200)
        assert process.stop() == 0
        assert "Traceback" not in process.output()
    finally:
        process.kill()


def test_a_closed_pipe_ends_it_without_a_word(filled: Filled) -> None:
    filled.send(range(2000, 12_000))
    process = subprocess.Popen(filled.command("--follow"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=30) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("words", "why"), [(["--where", "n ="], "--where"), (["--from", "soon"], "'soon'"), (["--partition", "7"], "7")]
)
def test_wrong_words_are_named(filled: Filled, words: list[str], why: str) -> None:
    code, _, complaints = filled.run(*words)
    assert (code, why in complaints) == (2, True), complaints
