"""What comes to the agent by itself, and what is dropped into its folder, with the agent killed again and again: what was
acknowledged is stored.
"""

import http.client
import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro

from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.log_offsets import LATEST, log_offsets
from headrace.client.fetch.read_range import read_range
from headrace.schema_registry.client import RegistryClient
from headrace.wire.batch.record_batch import iter_records
from headrace.wire.schema_id import unframe
from tests.support.agent import AgentProcess
from tests.support.live_side import LiveSide
from tests.support.processes import eventually, free_port

KILLS = int(os.environ.get("HEADRACE_RECEIVE_KILLS", "2"))


def stored(live: LiveSide, topic: str) -> list[dict[str, Any]]:
    """Return every event of the topic, decoded by fastavro alone."""
    cluster = Cluster(live.bootstrap)
    registry = RegistryClient(live.registry_url)
    schemas: dict[int, Any] = {}
    found: list[dict[str, Any]] = []
    try:
        ends = log_offsets(cluster, {TopicPartition(topic, one): LATEST for one in cluster.partitions(topic, may_create=True)})
        for (_, partition), end in ends.items():
            for _, batch in read_range(cluster, topic, partition, 0, end):
                for record in iter_records(batch):
                    schema_id, body = unframe(bytes(record.value or b""))
                    if schema_id not in schemas:
                        schemas[schema_id] = fastavro.parse_schema(json.loads(registry.schema(schema_id)))
                    found.append(fastavro.schemaless_reader(io.BytesIO(bytes(body)), schemas[schema_id], None))  # type: ignore[arg-type]
    finally:
        cluster.close()
    return found


class Poster(threading.Thread):
    """Posts numbers, three a request, the same again until they are acknowledged."""

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(daemon=True)
        self.port, self.topic = port, topic
        self.acknowledged: list[int] = []
        self.stopped = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.stopped.is_set():
            numbers = [number, number + 1, number + 2]
            body = b"\n".join(b'{"number": %d}' % one for one in numbers)
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("POST", f"/topics/{self.topic}", body, {"Content-Type": "application/x-ndjson"})
                status = connection.getresponse().status
                connection.close()
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)
                continue
            if status == 202:
                self.acknowledged += numbers
                number += 3


def test_killed_again_and_again_what_was_acknowledged_or_dropped_is_stored(
    tmp_path: Path, live: LiveSide, agent: Callable[..., AgentProcess]
) -> None:
    unique = uuid.uuid4().hex[:8]
    clicks, files, syslog = f"clicks-{unique}", f"files-{unique}", f"syslog-{unique}"
    port, tcp = free_port(), free_port()
    drop = tmp_path / "drop"
    drop.mkdir()
    one = agent(
        tail=f"""
[[http]]
topic = "{clicks}"
listen = "127.0.0.1:{port}"
fields = {{ number = "long" }}
[[directory]]
topic = "{files}"
path = "{drop}"
ready = "renamed"
done = "delete"
[[syslog]]
topic = "{syslog}"
tcp = "127.0.0.1:{tcp}"
"""
    ).start()
    with socket.create_connection(("127.0.0.1", tcp)) as connection:
        connection.sendall(b"".join(b"<13>%d\n" % number for number in range(500)))
    eventually(lambda: len(stored(live, syslog)) == 500, what="the messages of the connection")
    poster = Poster(port, clicks)
    poster.start()
    contents: set[bytes] = set()
    for number in range(KILLS):
        for more in range(5):
            content = os.urandom(20_000)
            contents.add(content)
            (tmp_path / "new").write_bytes(content)
            (tmp_path / "new").rename(drop / f"{number}-{more}")
        before = len(poster.acknowledged)
        eventually(lambda before=before: len(poster.acknowledged) > before + 30, what="more acknowledged")
        one.process.kill()
        one.launch()
    poster.stopped.set()
    poster.join()
    acknowledged = poster.acknowledged
    # Each kill leaves journals to be shipped: how long that takes is the machine's affair, that it continues is not.
    shipped = -1
    while missing := set(acknowledged) - {each["number"] for each in stored(live, clicks)}:
        before, shipped = shipped, sum(len(stored(live, topic)) for topic in (clicks, files, syslog))
        if shipped == before:
            eventually(
                lambda reached=shipped: sum(len(stored(live, topic)) for topic in (clicks, files, syslog)) > reached,
                what=f"more of the {len(missing)} of {len(acknowledged)} that are missing; {one.trace()}",
                within_ms=60_000,
            )
    eventually(lambda: not list(drop.iterdir()), what="every file done with", within_ms=20_000 + 4_000 * KILLS)
    assert sorted(each["content"] for each in stored(live, files)) == sorted(contents)
    assert sorted(int(each["message"]) for each in stored(live, syslog)) == list(range(500))
    assert len(acknowledged) > 30 * KILLS


def test_lines_of_standard_input_survive_its_kill(tmp_path: Path, live: LiveSide, agent: Callable[..., AgentProcess]) -> None:
    topic = f"lines-{uuid.uuid4().hex[:8]}"
    one = agent(topics=[topic])
    command = [sys.executable, "-m", "headrace.cli.main", "agent", "stdin", str(one.settings), "--topic", topic]
    words = ["--parser", "json", "--set", 'fields={"number": "long"}']
    lines = b"".join(b'{"number": %d}\n' % number for number in range(1000)) + b"no json\n"
    killed = subprocess.Popen([*command, *words], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert killed.stdin is not None
    killed.stdin.write(lines)
    killed.stdin.flush()
    one.start()
    eventually(lambda: len(stored(live, topic)) == 1000, what="the lines, while the pipe is open")
    killed.kill()
    killed.wait()
    killed.stdin.close()
    done = subprocess.run([*command, *words], input=b'{"number": 1000}\n{"number": 1001}', stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, b"2 lines journaled" in done.stderr) == (0, True), done.stderr
    eventually(lambda: sorted(each["number"] for each in stored(live, topic)) == list(range(1002)), what="all lines, once")
    wrong = subprocess.run([*command, "--set", "fields=1"], input=b"", stderr=subprocess.PIPE, timeout=60)
    assert (wrong.returncode, b"settings of the parser 'raw'" in wrong.stderr) == (2, True)
