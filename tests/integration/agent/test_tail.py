"""A process that writes and rotates files, and an agent that is killed meanwhile: the rows are the lines, each once, in order."""

import random
import re
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.log_offsets import LATEST, log_offsets
from headrace.client.fetch.read_range import read_range
from headrace.wire.batch.record_batch import iter_records
from headrace.wire.schema_id import unframe
from tests.support.agent import AgentProcess
from tests.support.live_side import LiveSide
from tests.support.processes import Process, eventually
from tests.support.tailing import line_of

LINES = 15_000
LINE = re.compile(r"\d+:\d+ x*")


def stored(live: LiveSide, topic: str) -> list[list[str]]:
    """Return the lines in the topic, by partition."""
    cluster = Cluster(live.bootstrap)
    try:
        ends = log_offsets(cluster, {TopicPartition(topic, one): LATEST for one in cluster.partitions(topic, may_create=True)})
        return [
            [
                line_of(bytes(unframe(bytes(record.value or b""))[1]))
                for _, batch in read_range(cluster, topic, partition, 0, end)
                for record in iter_records(batch)
            ]
            for (_, partition), end in ends.items()
        ]
    finally:
        cluster.close()


@pytest.mark.parametrize("kind", ["rename", "copytruncate", pytest.param("logrotate", marks=pytest.mark.needs("logrotate"))])
def test_every_line_arrives_once_and_in_order_though_files_are_rotated_and_the_agent_is_killed(
    tmp_path: Path, live: LiveSide, agent: Callable[..., AgentProcess], kind: str
) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    topic = f"lines-{uuid.uuid4().hex[:8]}"
    folder = tmp_path / "logs"
    folder.mkdir()
    section = f"""
[[tail]]
name = "{topic}"
paths = ["{folder}/app.log*"]
exclude = ["*.rotate", "*.state"]
topic = "{topic}"
parser = "raw"
lateness_ms = 0
copytruncate = {str(kind == "copytruncate").lower()}
rest_wait_ms = 500
"""
    one = agent(tail=section).start()
    words = [str(folder / "app.log"), kind, str(LINES), str(seed)]
    writer = Process([sys.executable, "-m", "tests.integration.agent.log_writer", *words], tmp_path / "writer.log").start()
    while writer.is_running():
        time.sleep(draw.uniform(0.1, 1.0))
        one.process.kill()
        one.start()
    assert writer.wait(1_000) == 0, writer.output()
    eventually(lambda: sum(map(len, stored(live, topic))) >= LINES, within_ms=60_000, every_ms=500, what="every line is stored")
    one.process.kill()
    one.start()
    partitions = stored(live, topic)
    assert [line for lines in partitions for line in lines if not LINE.fullmatch(line)] == []
    numbers = [int(line.partition(" ")[0].partition(":")[2]) for lines in partitions for line in lines]
    assert sorted(numbers) == [*range(LINES)]
    for lines in partitions:
        by_file: dict[str, list[int]] = {}
        for line in lines:
            rotation, _, number = line.partition(" ")[0].partition(":")
            by_file.setdefault(rotation, []).append(int(number))
        assert all(of_one == sorted(of_one) for of_one in by_file.values())
