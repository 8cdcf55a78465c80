"""Readers of Apache Kafka that store with positions: killed with -9 and frozen, each record is one row."""

import os
import signal
import sqlite3
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.kafka.copying import make_topic, send
from tests.support.kafka import KafkaProcess
from tests.support.processes import Process, eventually
from tests.support.registry import RegistryProcess

pytestmark = pytest.mark.whole

COUNT = 300
SCHEMA = {"type": "record", "name": "Click", "fields": [{"name": "number", "type": "int"}]}
ROUNDS = ("killed", "frozen", "killed")
SESSION_MS = 6_000
"""Kafka's shortest."""


def test_members_that_are_killed_and_frozen_store_each_record_once(other_kafka: KafkaProcess, topic: str, tmp_path: Path) -> None:
    make_topic(other_kafka, topic)
    database = tmp_path / "own.sqlite"
    with sqlite3.connect(database) as db:
        db.execute("CREATE TABLE stored (part INTEGER, at BIGINT, number INTEGER)")

    def stored() -> Counter[int]:
        with sqlite3.connect(database, timeout=30) as db:
            return Counter(number for (number,) in db.execute("SELECT number FROM stored"))

    with RegistryProcess(tmp_path / "registry", other_kafka.address, f"_schemas.{topic}") as registry:
        schema_id = registry.register(f"{topic}-value", SCHEMA)[1]["id"]
        words = [topic, f"group-{topic}", other_kafka.address, registry.url, "", "sqlite", str(database), str(SESSION_MS)]
        command = [sys.executable, "-m", "tests.integration.reader.killed_member", *words]
        members = [Process(command, tmp_path / f"member-{number}.log") for number in range(2)]
        sent = 0

        def send_some() -> int:
            send(other_kafka, topic, [_click(schema_id, number) for number in range(sent, sent + COUNT)])
            return sent + COUNT

        try:
            for fate in ROUNDS:
                for member in members:
                    if not member.is_running():
                        member.start()
                before, sent = stored().total(), send_some()
                eventually(lambda before=before: stored().total() > before, what="a start", within_ms=90_000)
                if fate == "killed":
                    members[0].kill()
                else:
                    os.killpg(members[0].pid, signal.SIGSTOP)
                    # Its partitions may move, or it holds SQLite's lock, and all wait for it.
                    time.sleep(SESSION_MS / 1000 + 2)
                    sent = send_some()
                    os.killpg(members[0].pid, signal.SIGCONT)
                eventually(lambda sent=sent: stored().keys() == {*range(sent)}, what=f"all, after {fate}", within_ms=120_000)
            assert stored() == Counter(range(sent))
            for member in members:
                assert member.stop(60_000) in (0, -15), member.output()[-3_000:]
            assert stored() == Counter(range(sent))
        finally:
            for member in members:
                member.kill()


def _click(schema_id: int, number: int) -> bytes:
    zigzag, out = number << 1, bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return b"\0" + schema_id.to_bytes(4, "big") + bytes([*out, zigzag])
