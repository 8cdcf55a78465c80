"""Applications that journal, and the agent, as real processes beside a real cluster: killed at random, all of them."""

import random
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from fastavro import parse_schema, schemaless_reader

from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.log_offsets import LATEST, log_offsets
from headrace.client.fetch.read_range import read_range
from headrace.wire.batch.record_batch import iter_records
from headrace.wire.schema_id import unframe
from tests.support.agent import AgentProcess
from tests.support.audit_service import AuditService
from tests.support.live_side import LiveSide
from tests.support.processes import Process, eventually

from .application import SCHEMA

_PARSED = parse_schema(SCHEMA)


class Application:
    """One application process, and what it said of each number."""

    def __init__(self, folder: Path, root: Path, topic: str, first: int, most: int = 0) -> None:
        self.name = f"app-{uuid.uuid4().hex[:8]}"
        self.said = folder / f"{self.name}.said"
        words = [str(root), topic, f"host/app/{self.name}", str(first), str(most), str(self.said)]
        self.process = Process([sys.executable, "-m", "tests.integration.agent.application", *words], folder / f"{self.name}.log")
        self.process.start()

    def numbers(self, mark: str) -> set[int]:
        """Return the numbers that were attempted (?) or taken (+)."""
        if not self.said.exists():
            return set()
        lines = self.said.read_text().splitlines()
        return {int(line[2:]) for line in lines if line.startswith(mark)}


def stored(live: LiveSide, topic: str) -> Counter[int]:
    """Return how often each number is in the topic."""
    import io

    cluster = Cluster(live.bootstrap)
    found: Counter[int] = Counter()
    try:
        ends = log_offsets(cluster, {TopicPartition(topic, one): LATEST for one in cluster.partitions(topic, may_create=True)})
        for (_, partition), end in ends.items():
            for _, batch in read_range(cluster, topic, partition, 0, end):
                for record in iter_records(batch):
                    _, body = unframe(bytes(record.value or b""))
                    event = schemaless_reader(io.BytesIO(bytes(body)), _PARSED, None)
                    found[event["number"]] += 1  # type: ignore[index, call-overload]
    finally:
        cluster.close()
    return found


def are_shipped(agent: AgentProcess) -> bool:
    """Return whether every journal is closed, told and removed."""
    return not [one for one in agent.journals.glob("*/*") if not one.parent.name.startswith(".")]


def test_a_journal_that_was_closed_arrives_and_its_window_is_complete(
    tmp_path: Path, live: LiveSide, agent: Callable[..., AgentProcess], audit: AuditService
) -> None:
    topic = f"numbers-{uuid.uuid4().hex[:8]}"
    one = agent(topics=[topic]).start()
    application = Application(tmp_path, one.journals, topic, 0, 2_000)
    assert application.process.wait(30_000) == 0
    eventually(lambda: are_shipped(one), what="the journal is shipped and removed")
    assert stored(live, topic) == dict.fromkeys(range(2_000), 1)
    eventually(lambda: _verdicts(audit, topic) == {"COMPLETE"}, what="COMPLETE")
    status = one.status()
    assert (status["acknowledged"], status["is_running"], status["lag_bytes"]) == (2_000, True, 0)
    assert one.process.stop() == 0
    code, shown = one.say("status")
    assert (code, "is not running" in shown, "acknowledged 2000" in shown) == (1, True, True)


@pytest.mark.situation(
    "agent and journals",
    "the agent, its applications and the broker are killed at random",
    shown="nothing once the agent is back",
    when="after its restart",
    do="nothing",
)
def test_whoever_is_killed_what_was_taken_is_there_once_and_complete(
    tmp_path: Path, live: LiveSide, agent: Callable[..., AgentProcess], audit: AuditService
) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    draw = random.Random(seed)
    topic = f"numbers-{uuid.uuid4().hex[:8]}"
    one = agent(topics=[topic]).start()
    applications = [Application(tmp_path, one.journals, topic, at * 10_000_000) for at in range(2)]
    ended: list[Application] = []
    for at in range(12):
        time.sleep(draw.uniform(0.1, 0.7))
        match draw.choice(["application", "agent", "agent", "broker"]):
            case "application":
                victim = applications.pop(draw.randrange(2))
                victim.process.kill()
                ended.append(victim)
                applications.append(Application(tmp_path, one.journals, topic, (at + 2) * 10_000_000))
            case "agent":
                one.process.kill()
                one.launch()
            case _:
                live.broker.process.kill()
                live.broker.start()
    for application in applications:
        application.process.kill()
    ended += applications
    eventually(lambda: are_shipped(one), what="every journal is shipped and removed", within_ms=60_000)
    taken = set[int]().union(*(application.numbers("+") for application in ended))
    attempted = set[int]().union(*(application.numbers("?") for application in ended))
    found = stored(live, topic)
    assert not [number for number, times in found.items() if times > 1], "doubled"
    assert taken - found.keys() == set(), "lost"
    assert found.keys() - attempted == set()
    assert len(found) > 100
    eventually(lambda: _verdicts(audit, topic) == {"COMPLETE"}, what="COMPLETE")


def _verdicts(audit: AuditService, topic: str) -> set[str]:
    return {window["verdict"] for window in audit.windows(topic).values()}
