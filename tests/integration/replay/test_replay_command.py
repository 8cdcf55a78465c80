"""`headrace replay` and `headrace quarantine list` against a real broker and a real registry, compared with counts from the
file.
"""

import io
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import fastavro

from headrace.audit.model.codec import decode
from headrace.audit.model.messages import ProducerReport
from headrace.client.connection.cluster import Cluster
from headrace.client.errors import UnknownTopic
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.log_offsets import LATEST, log_offsets
from headrace.client.fetch.read_range import read_range
from headrace.client.producer.producer import Producer
from headrace.runtime.layout import AUDIT_TOPIC
from headrace.schema_registry.client import RegistryClient
from headrace.sdk import event_schema
from headrace.wire.batch.record_batch import Record, iter_records
from headrace.wire.quarantine_record import quarantine_topic
from headrace.wire.schema_id import unframe
from tests.integration.replay.conftest import Background
from tests.support import access_logs
from tests.support.live_side import LiveSide
from tests.support.processes import Process, eventually
from tests.support.told_by_producers import told as told_by


def command(live: LiveSide, topic: str, log: Path, *words: str) -> list[str]:
    where = ["--bootstrap", live.broker.address, "--registry", live.registry.url]
    return [sys.executable, "-m", "headrace.cli.main", "replay", str(log), "--topic", topic, "--json", *where, *words]


def replayed(live: LiveSide, topic: str, log: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    home = {**os.environ, "HEADRACE_HOME": str(log.parent)}
    return subprocess.run(command(live, topic, log, *words), env=home, capture_output=True, text=True, timeout=120)


def replay(live: LiveSide, topic: str, log: Path, *words: str) -> tuple[int, dict[str, Any]]:
    done = replayed(live, topic, log, *words)
    return done.returncode, json.loads(done.stdout)


def quarantine(live: LiveSide, *words: str) -> tuple[int, str]:
    listing = [sys.executable, "-m", "headrace.cli.main", "quarantine", "list", "--bootstrap", live.broker.address, *words]
    done = subprocess.run(listing, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout


def records(live: LiveSide, topic: str) -> list[Record]:
    cluster = Cluster(live.broker.address)
    try:
        return [
            record
            for partition in cluster.partitions(topic)
            for _, batch in read_range(cluster, topic, partition, 0, 1 << 60)
            for record in iter_records(batch)
        ]
    except UnknownTopic:
        return []
    finally:
        cluster.close()


def has_begun(live: LiveSide, topic: str) -> bool:
    """Return whether some events are in the log. (Reading them would follow a growing log to the replay's end.)"""
    cluster = Cluster(live.broker.address)
    try:
        names = [TopicPartition(topic, partition) for partition in cluster.partitions(topic)]
        return any(end > 0 for end in log_offsets(cluster, {name: LATEST for name in names}).values())
    except UnknownTopic:
        return False
    finally:
        cluster.close()


def windows(found: list[Record]) -> Counter[int]:
    return Counter(record.timestamp_ms - record.timestamp_ms % access_logs.WINDOW_MS for record in found)


def reported(live: LiveSide, topic: str) -> dict[str, Any]:
    """Return what producers told: acknowledged and quarantined records per window, each run's last state, the times announced."""
    reports = [decode(record.value) for record in records(live, AUDIT_TOPIC)]
    mine = [report for report in reports if isinstance(report, ProducerReport) and report.topics == (topic,)]
    windows = {start: found for (_, start), found in told_by(mine).items()}
    return {
        "acknowledged": +Counter({start: len(found.acknowledged) for start, found in windows.items()}),
        "quarantined": +Counter({start: found.losses.get("quarantined", 0) for start, found in windows.items()}),
        "states": set({report.instance: report.state for report in mine}.values()),
        "only_between_ms": {report.only_between_ms for report in mine},
    }


def test_a_real_log_arrives_whole_with_its_bad_line_in_quarantine_and_a_sealed_run(
    live: LiveSide, topic: str, tmp_path: Path
) -> None:
    log, cut_line = access_logs.real_or_like_it(tmp_path)
    expected = access_logs.window_counts(log)
    code, told = replay(live, topic, log, "--server-name", "www1")
    assert (code, told["lines"], told["sent"], told["quarantined"]) == (0, 10_000, 9_999, 1)
    assert (told["windows"], told["sealed"]) == (len(expected), True)
    assert told["window_starts_ms"] == sorted(expected)

    sent = records(live, topic)
    cut = json.loads(quarantine(live, "--topic", topic, "--json")[1])
    assert [one["origin"] for one in cut] == [{"file": str(log), "line": cut_line}]
    assert windows(sent) + Counter({cut[0]["window_start_ms"]: 1}) == expected

    found = reported(live, topic)
    assert found["acknowledged"] == windows(sent)
    (between,) = found["only_between_ms"]
    times = [record.timestamp_ms for record in sent]
    assert between[0] <= min(times) <= max(times) < between[1] <= max(expected) + access_logs.WINDOW_MS
    assert found["quarantined"] == Counter({cut[0]["window_start_ms"]: 1})
    assert found["states"] == {"closed"}

    registry = RegistryClient(live.registry.url)
    schema_id, body = unframe(bytes(sent[0].value or b""))
    event = fastavro.schemaless_reader(io.BytesIO(bytes(body)), json.loads(registry.schema(schema_id)))
    assert event["server"] == "www1"
    assert int(event["event_time"].timestamp() * 1000) == sent[0].timestamp_ms
    assert event["method"] in ("GET", "POST", "HEAD", "OPTIONS")


def test_replayed_twice_the_bad_line_is_listed_once_and_all_lines_are_there_twice_after_a_warning(
    live: LiveSide, topic: str, tmp_path: Path
) -> None:
    log = access_logs.generate(tmp_path / "some.log", lines=300, hours=2, seed=3, bad_every=100)
    first, second = replayed(live, topic, log), replayed(live, topic, log)
    assert (first.returncode, second.returncode) == (0, 0)
    assert "before" not in first.stderr
    assert f"{log} was replayed into {topic} before, at 20" in second.stderr
    assert f"UTC ({log}, 297 sent): what it holds will be there twice" in second.stderr
    assert len(records(live, topic)) == 2 * 297
    code, text = quarantine(live, "--topic", topic)
    assert code == 0
    assert [line for line in text.splitlines() if "some.log:" in line] == [
        line for line in text.splitlines() if any(f"some.log:{number}" in line for number in (100, 200, 300))
    ]
    assert text.count("unparsable_line") == 3
    assert "a quote is not closed" in text
    assert quarantine(live, "--topic", topic[:-1], "--json") == (2, "")


def test_a_broker_killed_while_the_replay_sends_costs_no_line(
    live: LiveSide, topic: str, tmp_path: Path, background: Background
) -> None:
    log = access_logs.generate(tmp_path / "some.log", lines=3_000, hours=3, seed=5)
    running = background(Process(command(live, topic, log, "--rate", "800"), tmp_path / "replay.log").start())
    eventually(lambda: has_begun(live, topic), what="some events sent")
    live.broker.kill()
    assert running.is_running(), "the kill came too late to prove anything"
    live.broker.restart()
    eventually(lambda: not running.is_running(), within_ms=60_000, what="the replay's end")
    assert running.stop() == 0, running.output()
    sent = records(live, topic)
    assert windows(sent) == access_logs.window_counts(log)
    assert reported(live, topic)["acknowledged"] == windows(sent)


def test_a_replay_that_is_interrupted_seals_what_it_sent_and_says_where_it_stopped(
    live: LiveSide, topic: str, tmp_path: Path, background: Background
) -> None:
    log = access_logs.generate(tmp_path / "some.log", lines=5_000, hours=3, seed=6)
    running = background(Process(command(live, topic, log, "--rate", "500"), tmp_path / "replay.log").start())
    eventually(lambda: has_begun(live, topic), what="some events sent")
    assert running.stop() == 1  # one signal: a second one would meet an interpreter that is ending, without handlers
    told = json.loads(next(line for line in running.output().splitlines() if line.startswith("{")))
    assert told["stopped_at_line"] == told["sent"] < 5_000
    assert told["sealed"] is True
    assert f"stopped at line {told['sent']}" in running.output()
    assert len(records(live, topic)) == told["sent"]
    assert reported(live, topic)["states"] == {"closed"}


def test_without_a_platform_the_replay_ends_at_once_with_the_reason(tmp_path: Path) -> None:
    log = access_logs.generate(tmp_path / "some.log", lines=10, hours=1, seed=6)
    words = [sys.executable, "-m", "headrace.cli.main", "replay", str(log), "--bootstrap", "127.0.0.1:1"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr
    missing = subprocess.run([*words[:4], "no/such.log"], capture_output=True, text=True, timeout=60)
    assert missing.returncode == 2
    assert "no/such.log" in missing.stderr


def test_what_a_stranger_wrote_to_a_quarantine_topic_is_named_and_hides_nothing(
    live: LiveSide, topic: str, tmp_path: Path
) -> None:
    log = access_logs.generate(tmp_path / "some.log", lines=10, hours=1, seed=6, bad_every=5)
    assert replay(live, topic, log)[0] == 0
    cluster = Cluster(live.broker.address)
    try:
        producer = Producer(cluster, linger_ms=0)
        producer.send(quarantine_topic(topic), b"not ours", timestamp_ms=1)
        producer.close()
    finally:
        cluster.close()
    code, text = quarantine(live, "--topic", topic, "--json")
    assert code == 1
    assert sorted(one["origin"]["line"] for one in json.loads(text)) == [5, 10]


def refused(live: LiveSide, topic: str, log: Path, *words: str) -> str:
    """Run a replay that is refused; return its message. Nothing on stdout, nothing to the audit, exit code 2."""
    heard = len(records(live, AUDIT_TOPIC))
    done = subprocess.run(command(live, topic, log, *words), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert len(records(live, AUDIT_TOPIC)) == heard
    return done.stderr


def test_a_topic_that_cannot_be_is_refused_before_the_audit_hears_of_the_replay(live: LiveSide, tmp_path: Path) -> None:
    log = access_logs.generate(tmp_path / "some.log", lines=300, hours=2, seed=7)
    (line,) = refused(live, "bad topic!", log).splitlines()
    assert line.startswith("headrace replay: topic name 'bad topic!' may only have letters")
    assert "the platform's own" in refused(live, "clicks.quarantine", log)


def test_a_file_of_another_format_is_refused_unless_it_is_insisted_on(live: LiveSide, topic: str, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text("".join(f'{{"number": {number}}}\n' for number in range(300)))
    told = refused(live, topic, other)
    assert "0 of its first 100 lines are" in told
    assert 'the first other line: {"number": 0}' in told
    assert "expected: the combined format" in told
    code, result = replay(live, topic, other, "--any-format")
    assert (code, result["sent"], result["quarantined"]) == (0, 0, 300)


def test_a_topic_of_another_schema_is_one_clear_line_and_leaves_no_producer_behind(
    live: LiveSide, topic: str, tmp_path: Path
) -> None:
    RegistryClient(live.registry.url).register(f"{topic}-value", event_schema("Click", [{"name": "page", "type": "string"}]))
    log = access_logs.generate(tmp_path / "some.log", lines=30, hours=1, seed=8)
    done = subprocess.run(command(live, topic, log), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert f"topic {topic!r} holds events of another schema than headrace.events.AccessLog" in line
    assert "NAME_MISMATCH" in line
    assert reported(live, topic)["states"] == {"closed"}
