"""`examples/sessions`: a stream on the Data Source and a plain consumer make the same sessions of the same visits."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.spark_stage import LONG_AGO_MS, MINUTE_MS, Stage, event

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "sessions"
VISIT = {
    "type": "record",
    "name": "Visit",
    "fields": [{"name": "user", "type": "string"}, {"name": "page", "type": "string"}],
}


def run(stage: Stage, script: str, *words: str) -> None:
    command = [sys.executable, str(EXAMPLES / script), "--bootstrap", stage.broker.address, "--registry", stage.registry.url]
    command += ["--topic", stage.topic, *words]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]


def visits(schema_id: int, seed: int) -> list[tuple[int, int, bytes]]:
    """Return visits of 20 users over a day, each user's in one partition, and one the day after, which closes all sessions."""
    chance = random.Random(seed)
    found = []
    for user in range(20):
        at_ms = LONG_AGO_MS + chance.randrange(60) * MINUTE_MS
        for page in range(30):
            # Never exactly the gap: whether that is one session or two is for each engine to say.
            at_ms += chance.choice([20_000, 5 * MINUTE_MS, 29 * MINUTE_MS, 31 * MINUTE_MS, 90 * MINUTE_MS]) + chance.randrange(
                1, 999
            )
            found.append((user % 3, at_ms, event(schema_id, VISIT, {"user": f"u{user}", "page": f"/{page}"})))
    found.sort(key=lambda one: one[1])
    last = found[-1][1] + 24 * 60 * MINUTE_MS
    return [*found, (0, last, event(schema_id, VISIT, {"user": "the last", "page": "/"}))]


@pytest.mark.whole
def test_both_make_the_same_sessions(stage: Stage) -> None:
    stage.create(3)
    schema_id = stage.register(VISIT)
    sent = visits(schema_id, seed=7)
    stage.send(sent)
    by_consumer, by_spark = stage.home / "sessions.jsonl", stage.home / "sessions"
    run(stage, "with_a_consumer.py", "--out", str(by_consumer))
    run(stage, "with_spark.py", "--out", str(by_spark), "--checkpoint", str(stage.home / "checkpoint"))
    mine = [json.loads(line) for path in by_spark.glob("*.json") for line in path.read_text().splitlines()]
    theirs = [json.loads(line) for line in by_consumer.read_text().splitlines()]
    order = ("user", "start_ms")
    assert sorted(mine, key=lambda one: [one[name] for name in order]) == sorted(
        theirs, key=lambda one: [one[name] for name in order]
    )
    assert sum(one["visits"] for one in theirs) == len(sent) - 1, "all but the last visit's session are closed"
    assert len(theirs) > 60
