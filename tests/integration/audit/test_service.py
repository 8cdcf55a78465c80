"""The audit service against real brokers: counts what is there, survives kill -9 and absent clusters, finds damage."""

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer as ForeignProducer

from headrace.audit.client import sequences
from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.local.drills import batch_damage
from headrace.runtime.layout import AUDIT_TOPIC
from tests.support.audit_service import AuditService
from tests.support.audited_application import AuditedApplication, W, copy_log, log_unaudited
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually

from .conftest import SETTINGS

Start = Callable[..., AuditService]


@pytest.mark.situation(
    "producers",
    "a producer does not report (kcat)",
    shown="`unaudited` n: compared from live on",
    when="at once",
    do="use the SDK, or accept it",
)
def test_audited_and_unaudited_records_are_told_apart_and_every_window_is_complete(live: BrokerProcess, audit: Start) -> None:
    service = audit(live.address)
    application = AuditedApplication(live.address, "clicks")
    randomness = random.Random(7)
    audited = application.log(sorted(randomness.randrange(20 * W) for _ in range(5_000)))
    strange = log_unaudited(live.address, "clicks", (randomness.randrange(25 * W) for _ in range(2_000)))
    application.reporter.beat()
    assert {window["verdict"] for window in service.windows("clicks").values()} <= {"OPEN"}
    application.seal()
    application.close()

    def complete() -> bool:
        found = service.windows("clicks")
        return bool(found) and all(window["verdict"] == "COMPLETE" for window in found.values())

    eventually(complete, what="every window COMPLETE")
    found = service.windows("clicks")
    assert {start: window["tiers"]["producer"] for start, window in found.items()} == {start: audited[start] for start in found}
    assert {start: window["tiers"]["live"] for start, window in found.items()} == dict(audited + strange)
    assert {start: window["unaudited"] for start, window in found.items()} == {start: strange[start] for start in found}
    told = sequences(service.url, "clicks", from_ms=0, to_ms=25 * W)
    named = Counter({one["window_start_ms"]: sum(part["count"] for part in one["ranges"]) for one in told})
    assert {start: named[start] for start in found} == {start: audited[start] for start in found}


def test_a_service_killed_amid_reading_goes_on_where_it_was_and_counts_the_same(live: BrokerProcess, audit: Start) -> None:
    application = AuditedApplication(live.address, "clicks")
    randomness = random.Random(11)
    audited = application.log(sorted(randomness.randrange(30 * W) for _ in range(5_000)))
    truth = audited + log_unaudited(live.address, "clicks", (randomness.randrange(30 * W) for _ in range(100_000)))
    application.seal()
    application.close()
    service = audit(live.address)

    def counted() -> int:
        return sum(window["tiers"].get("live") or 0 for window in service.windows("clicks").values())

    for _ in range(2):
        start = counted()
        eventually(lambda start=start: counted() > start, every_ms=5, what="more records counted")
        before = counted()
        service.process.kill()
        assert before < sum(truth.values()), "the kill has to land amid the reading"
        service.start()
        assert counted() >= before

    def complete() -> bool:
        found = service.windows("clicks")
        return bool(found) and all(window["verdict"] == "COMPLETE" for window in found.values())

    eventually(complete, what="every window COMPLETE after the kills")
    found = service.windows("clicks")
    assert {start: window["tiers"]["live"] for start, window in found.items()} == dict(truth)
    assert {start: window["tiers"]["producer"] for start, window in found.items()} == dict(audited)


def test_a_killed_producer_makes_its_windows_unknown_and_names_it(live: BrokerProcess, audit: Start) -> None:
    service = audit(live.address)
    application = AuditedApplication(live.address, "clicks", instance="host/killed/1")
    application.log([5, 6, 7])
    application.reporter.beat()
    application.close()

    def unknown() -> dict[str, Any] | None:
        # The silence alone makes it UNKNOWN, also where the live log is not read yet (null then).
        window: dict[str, Any] | None = service.windows("clicks").get(0)
        is_told = window is not None and window["verdict"] == "UNKNOWN" and window["tiers"].get("live") is not None
        return window if is_told else None

    window = eventually(unknown, what="UNKNOWN, and the live log read")
    assert window["silent"] == ["producer:host/killed/1"]
    assert window["tiers"] == {"producer": 3, "live": 3}


def headrace_audit(service: AuditService, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "headrace.cli.main", "audit", *words, "--url", service.url]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_killed_producer_is_retired_by_name_and_reason_and_only_then(live: BrokerProcess, audit: Start) -> None:
    service = audit(live.address)
    application = AuditedApplication(live.address, "clicks", instance="host/killed/1")
    application.log([5, 6, 7])
    application.reporter.beat()
    application.log([8])  # acknowledged, and it dies before it reports
    application.close()
    retire = ["retire-producer", "host/killed/1", "--reason", "its host burned", "--by", "anna", "--live", live.address]
    eventually(lambda: service.windows("clicks").get(0, {}).get("verdict") == "UNKNOWN", what="UNKNOWN")
    early = headrace_audit(service, *retire, "--silent-for", "3600")
    assert (early.returncode, "it may only be slow: end it first" in early.stderr) == (1, True)
    listed = headrace_audit(service, "producers")
    assert listed.stdout.startswith("host/killed/1  clicks  silent for ")
    done = headrace_audit(service, *retire, "--silent-for", "1")
    assert (done.returncode, done.stderr) == (0, "")
    eventually(lambda: service.windows("clicks")[0]["verdict"] == "ACCEPTED", what="ACCEPTED")
    (window,) = service.windows("clicks").values()
    assert window["tiers"] == {"producer": 3, "live": 4}
    assert (window["missing"], window["doubled"]) == (0, 0)
    (words,) = window["retired"]
    assert words.startswith("producer:host/killed/1, retired by anna: its host burned (1 of its records in the live log")
    assert words in headrace_audit(service, "report", "--json").stdout
    assert "was retired before, by anna" in headrace_audit(service, *retire, "--silent-for", "1").stdout
    unknown = headrace_audit(service, "retire-producer", "nobody", "--reason", "why not", "--live", live.address)
    assert (unknown.returncode, "`headrace audit producers` lists those that are" in unknown.stderr) == (1, True)
    assert headrace_audit(service, "report", "--wait", "COMPLETE", "0").returncode == 1


def test_the_service_is_up_while_clusters_are_away_and_counts_when_they_come(
    tmp_path: Path, zookeeper_chroot: str, audit: Start
) -> None:
    broker = BrokerProcess(tmp_path / "late", zookeeper_chroot)
    service = audit(broker.address, offline=broker.address)
    hearing = service.get("/api/hearing")
    assert any("live log cannot be read" in fault for fault in eventually(lambda: service.get("/api/hearing")["faults"]))
    assert hearing["heard_all_ms"] is None
    with broker:
        application = AuditedApplication(broker.address, "clicks")
        application.log([5, 6, 7])
        application.seal()
        application.close()
        eventually(lambda: service.windows("clicks").get(0, {}).get("verdict") == "COMPLETE", what="COMPLETE")
        eventually(lambda: not service.get("/api/hearing")["faults"], what="no fault left")


@pytest.mark.situation(
    "audit's own data",
    "the audit topic has a message that is not a report",
    shown="counted as malformed, skipped",
    when="at once",
    do="find who writes there",
)
def test_what_is_no_report_on_the_audit_topic_is_counted_and_skipped(live: BrokerProcess, audit: Start) -> None:
    service = audit(live.address)
    eventually(lambda: service.get("/api/hearing")["heard_all_ms"], what="the audit topic heard")
    vandal = ForeignProducer({"bootstrap.servers": live.address, "compression.type": "lz4"})
    for value in (b"", b"{}", b"\x00\x01", b"[1,2", json.dumps({"v": 1, "kind": "producer"}).encode(), None):
        vandal.produce(AUDIT_TOPIC, value)
    assert vandal.flush(10) == 0
    application = AuditedApplication(live.address, "clicks")
    application.log([5])
    application.seal()
    application.close()
    eventually(lambda: service.windows("clicks").get(0, {}).get("verdict") == "COMPLETE", what="COMPLETE")
    assert service.get("/api/hearing")["malformed_reports"] == 6


def test_damaged_batches_on_the_offline_side_are_missed_to_the_record_after_a_restart(
    live: BrokerProcess, offline: BrokerProcess, audit: Start
) -> None:
    """Both sides get the same batches at the same offsets, as from a mirror. Fault: a broker's restart triggered no recount."""
    service = audit(
        live.address,
        offline=offline.address,
        settings=SETTINGS.replace('["producer", "live"]', '["producer", "live", "offline"]'),
    )
    here = AuditedApplication(live.address, "clicks")
    counts: Counter[int] = Counter()
    for hour in range(4):
        for batch in range(5):
            counts += here.log([hour * 6 * W + batch for _ in range(10 + batch)], partition=0)
    here.seal()
    here.close()
    copy_log(live.address, offline.address, "clicks")

    def verdicts() -> dict[int, str]:
        return {start: window["verdict"] for start, window in service.windows("clicks").items()}

    eventually(lambda: verdicts() == dict.fromkeys(counts, "COMPLETE"), what="every window COMPLETE")
    offline.stop()
    chosen = batch_damage.choose(batch_damage.stored_batches(offline.data, "clicks"), count=2, window_ms=W)
    assert len({batch.window_start_ms(W) for batch in chosen}) == 2
    for batch in chosen:
        batch_damage.damage(batch)
    offline.restart()
    lost = {batch.window_start_ms(W): batch.record_count for batch in chosen}

    def found() -> dict[int, tuple[str, int, str | None, int]]:
        return {
            start: (window["verdict"], window["missing"], window["first_bad_tier"], window["tiers"]["offline"])
            for start, window in service.windows("clicks").items()
        }

    expected = {
        start: ("INCOMPLETE", lost[start], "offline", count - lost[start]) if start in lost else ("COMPLETE", 0, None, count)
        for start, count in counts.items()
    }
    eventually(lambda: found() == expected, what="the loss named to the record")
    unreadable = service.get("/api/unreadable", topic="clicks")
    assert {(one["from_offset"], one["to_offset"]) for one in unreadable} == {
        (one.next_offset - one.size_bytes, one.next_offset) for one in chosen
    }


def headrace(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "headrace.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_report_command_prints_json_and_a_table_and_waits(live: BrokerProcess, audit: Start) -> None:
    service = audit(live.address)
    application = AuditedApplication(live.address, "clicks")
    application.log([5, 6, 7])
    application.reporter.beat()
    late = headrace("audit", "report", "--url", service.url, "--wait", "COMPLETE", "0.2")
    assert late.returncode == 1
    assert "not COMPLETE" in late.stderr or "no window" in late.stderr
    application.seal()
    application.close()
    done = headrace("audit", "report", "--url", service.url, "--topic", "clicks", "--json", "--wait", "COMPLETE", "20")
    assert done.returncode == 0, done.stderr
    (window,) = json.loads(done.stdout)
    assert (window["topic"], window["verdict"], window["tiers"]) == ("clicks", "COMPLETE", {"producer": 3, "live": 3})
    table = headrace("audit", "report", "--url", service.url)
    assert table.returncode == 0
    assert "1970-01-01 00:00" in table.stdout
    assert "COMPLETE" in table.stdout


def test_the_report_command_tells_an_unknown_topic_from_one_without_windows(live: BrokerProcess, audit: Start) -> None:
    service = audit(live.address)
    application = AuditedApplication(live.address, "payments")
    application.log([5])
    application.seal()
    application.close()
    cluster = Cluster(live.address)
    create_topic(cluster, "fresh", 1)
    cluster.close()
    where = ["--url", service.url, "--live", live.address]
    eventually(lambda: service.windows("payments"), what="windows of payments")

    unknown = headrace("audit", "report", *where, "--topic", "paymnets")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "there is no topic 'paymnets'" in unknown.stderr
    assert "Did you mean 'payments'?" in unknown.stderr
    fresh = headrace("audit", "report", *where, "--topic", "fresh", "--json")
    assert (fresh.returncode, json.loads(fresh.stdout)) == (0, [])
    assert "'fresh'" in fresh.stderr
    assert "there is no topic" not in fresh.stderr
    away = headrace("audit", "report", "--url", service.url, "--live", "127.0.0.1:9", "--topic", "paymnets")
    assert away.returncode == 2
    assert "the live cluster at 127.0.0.1:9 does not answer" in away.stderr


def test_the_report_command_says_when_nobody_answers() -> None:
    done = headrace("audit", "report", "--url", "http://127.0.0.1:9")
    assert done.returncode == 1
    assert "does not answer at http://127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr
