"""The audit's commands, against a real service that reads real brokers."""

import json
import subprocess
import sys
from collections.abc import Callable

from headrace.client.connection.cluster import Cluster
from headrace.client.topic_admin import delete_topic
from headrace.local.drills import batch_damage
from tests.support.audit_service import AuditService
from tests.support.audited_application import AuditedApplication, W, copy_log
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually

from .conftest import SETTINGS

Start = Callable[..., AuditService]
WITH_OFFLINE = SETTINGS.replace('["producer", "live"]', '["producer", "live", "offline"]')


def headrace_audit(service: AuditService, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "headrace.cli.main", "audit", *words, "--url", service.url]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_damage_on_disk_is_found_without_a_restart_named_and_taken_on_by_a_person(
    live: BrokerProcess, offline: BrokerProcess, audit: Start
) -> None:
    """Fault: damage after the read-back was not seen. The scan finds it within its interval, on the right tier."""
    settings = WITH_OFFLINE.replace("[deadlines_ms]", "scan_every_ms = 500\n[deadlines_ms]")
    service = audit(live.address, offline=offline.address, settings=settings)
    application = AuditedApplication(live.address, "clicks")
    for batch in range(5):
        application.log([batch * 6 * W] * (10 + batch), partition=0)
    application.seal()
    application.close()
    copy_log(live.address, offline.address, "clicks")
    eventually(lambda: {one["verdict"] for one in service.windows("clicks").values()} == {"COMPLETE"}, what="COMPLETE")
    (chosen,) = batch_damage.choose(batch_damage.stored_batches(offline.data, "clicks"), count=1, window_ms=W)
    batch_damage.damage(chosen)
    start = chosen.window_start_ms(W)
    eventually(lambda: service.windows("clicks")[start]["verdict"] == "INCOMPLETE", what="the damage found")
    window = service.windows("clicks")[start]
    assert (window["missing"], window["first_bad_tier"]) == (chosen.record_count, "offline")
    assert {one["verdict"] for at, one in service.windows("clicks").items() if at != start} == {"COMPLETE"}

    which = headrace_audit(service, "which", "clicks", "--window", str(start + 5), "--live", live.address)
    assert which.returncode == 0, which.stderr
    first = chosen.next_offset - chosen.record_count
    assert f"offline partition 0: {chosen.record_count} missing, offsets {first} to {chosen.next_offset - 1}" in which.stdout
    assert f"kcat -C -b {live.address} -t clicks -p 0 -o {first} -c {chosen.record_count} -e" in which.stdout
    found = json.loads(headrace_audit(service, "which", "clicks", "--window", str(start), "--json").stdout)
    assert sum(one["count"] for one in found) == chosen.record_count

    word = headrace_audit(
        service, "known-loss", "clicks", "--window", str(start), "--reason", "planted", "--by", "anna", "--live", live.address
    )
    assert word.returncode == 0, word.stderr
    window = service.windows("clicks")[start]
    assert window["verdict"] == "ACCEPTED"
    assert "anna" in window["reason"]
    assert "planted" in window["reason"]


def test_a_topic_made_anew_with_a_longer_log_is_another_log(live: BrokerProcess, audit: Start) -> None:
    """Fault: live 90, really 60: two logs were mixed."""
    service = audit(live.address)
    first = AuditedApplication(live.address, "clicks", "host/app/1")
    first.log([5] * 30)
    first.seal()
    first.close()
    eventually(lambda: service.windows("clicks").get(0, {}).get("tiers") == {"producer": 30, "live": 30}, what="counted")
    cluster = Cluster(live.address)
    delete_topic(cluster, "clicks")
    cluster.close()
    second = AuditedApplication(live.address, "clicks", "host/app/2")
    second.log([5] * 60)
    second.seal()
    second.close()
    eventually(lambda: service.windows("clicks").get(0, {}).get("tiers") == {"producer": 60, "live": 60}, what="counted anew")
    eventually(lambda: service.windows("clicks")[0]["verdict"] == "COMPLETE", what="COMPLETE")


def test_a_store_that_was_deleted_is_built_again_from_the_topic_and_the_logs(live: BrokerProcess, audit: Start) -> None:
    service = audit(live.address)
    application = AuditedApplication(live.address, "clicks")
    application.log([5, W, 2 * W])
    application.seal()
    application.close()
    eventually(lambda: {one["verdict"] for one in service.windows("clicks").values()} == {"COMPLETE"}, what="COMPLETE")
    before = service.windows("clicks")
    service.process.kill()
    for file in service.folder.glob("books.sqlite*"):
        file.unlink()
    service.start()
    eventually(lambda: service.windows("clicks") == before, what="the same again")


def test_silent_producers_are_retired_by_application(live: BrokerProcess, audit: Start) -> None:
    service = audit(live.address)
    for number in range(2):
        application = AuditedApplication(live.address, "clicks", f"host{number}/shop/x")
        application.log([5])
        application.reporter.beat()
        application.close()
    other = AuditedApplication(live.address, "views", "host/search/x")
    other.log([5])
    other.reporter.beat()
    other.close()
    eventually(lambda: len(service.get("/api/unsealed")) == 3, what="all heard")
    words = ["--reason", "scaled down", "--by", "anna", "--live", live.address]
    early = headrace_audit(service, "retire-producer", "--application", "shop", "--silent-for", "3600", *words)
    assert (early.returncode, "2 are unsealed" in early.stdout) == (0, True)
    done = headrace_audit(service, "retire-producer", "--application", "shop", "--silent-for", "0", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert {one["instance"]: one["retired"] is not None for one in service.get("/api/unsealed")} == {
        "host0/shop/x": True,
        "host1/shop/x": True,
        "host/search/x": False,
    }
    assert headrace_audit(service, "retire-producer", "--all", "--silent-for", "0", *words).returncode == 0
    eventually(lambda: service.windows("views")[0]["verdict"] == "ACCEPTED", what="ACCEPTED")


def test_watch_and_report_show_all_topics_and_the_latest_windows_of_one(live: BrokerProcess, audit: Start) -> None:
    service = audit(live.address)
    application = AuditedApplication(live.address, "clicks")
    application.log([n * W for n in range(5)])
    application.seal()
    application.close()
    eventually(lambda: {one["verdict"] for one in service.windows("clicks").values()} == {"COMPLETE"}, what="COMPLETE")
    assert "clicks" in headrace_audit(service, "watch", "--once").stdout
    shown = headrace_audit(service, "watch", "clicks", "--once").stdout
    assert "1970-01-01 00:40" in shown
    last = headrace_audit(service, "report", "--topic", "clicks", "--last", "2", "--json")
    assert [one["window_start_ms"] for one in json.loads(last.stdout)] == [3 * W, 4 * W]
    early = headrace_audit(service, "report", "--topic", "clicks", "--to", str(W), "--json")
    assert [one["window_start_ms"] for one in json.loads(early.stdout)] == [0]
    again = headrace_audit(service, "recount", "--tier", "live", "--topic", "clicks")
    assert (again.returncode, "is counted again" in again.stdout) == (0, True)
    eventually(lambda: {one["verdict"] for one in service.windows("clicks").values()} == {"COMPLETE"}, what="COMPLETE again")
