"""Groups that operators name, with a real audit service, its command, and a service on trial that stops."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from headrace.audit.publisher import range_reports
from headrace.audit.publisher.sending import send_and_flush
from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.log_offsets import LATEST, log_offsets
from headrace.client.producer.producer import Producer
from headrace.runtime.clock import SystemClock
from tests.support.audit_service import AuditService
from tests.support.audited_application import AuditedApplication, W
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually

Start = Callable[..., AuditService]
GROUP = "consumer:trial"
SETTINGS = """
[service]
discover_ms = 200
judge_every_ms = 200
[deadlines_ms]
default = 2000
[topics.default]
tiers = ["producer", "live"]
[topics.orders]
adds = ["consumer:billing"]
"""


def tier(service: AuditService, live: BrokerProcess, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "headrace.cli.main", "audit", "tier", *words, "--url", service.url]
    if words[0] != "list":
        command += ["--live", live.address, "--by", "anna", "--reason", "billing depends on it"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def try_it_out(live: BrokerProcess, topic: str) -> None:
    """A service begins at the end of the log, says so, and is never heard again."""
    cluster, sender = Cluster(live.address), None
    try:
        end = log_offsets(cluster, {(name := TopicPartition(topic, 0)): LATEST})[name]
        sender = Producer(cluster)
        told = range_reports(
            tier=GROUP, instance="trial", at_ms=1, topic=topic, partition=0, from_offset=end, to_offset=end, windows={}
        )
        send_and_flush(sender, SystemClock(), told, 20_000)
    finally:
        if sender is not None:
            sender.close(0)
        cluster.close()


@pytest.mark.situation(
    "groups and sinks",
    "a group that no operator named is stopped, killed or behind",
    shown="its own row in `sinks` UNKNOWN, `silent` names it; the verdict stays",
    when="its deadline",
    do="start it, or name it in `without`",
)
@pytest.mark.situation(
    "groups and sinks",
    "a group that an operator named is stopped, killed or behind",
    shown="UNKNOWN, `silent` names it",
    when="its deadline",
    do="start it, or `headrace audit tier remove`",
)
def test_a_stopped_trial_service_shuts_nothing_until_an_operator_names_it_and_again_after(
    live: BrokerProcess, audit: Start
) -> None:
    """Fault: once the service had stopped, every window with new records was UNKNOWN for ever."""
    service = audit(live.address, settings=SETTINGS)
    application = AuditedApplication(live.address, "clicks")
    application.log([0, 1], partition=0)
    try_it_out(live, "clicks")
    application.log([W, W + 1, 2 * W], partition=0)
    application.seal()
    application.close()

    def judged(expected: list[str], row: str | None) -> Callable[[], bool]:
        def holds() -> bool:
            windows = service.windows("clicks")
            rows = [windows[at]["sinks"].get(GROUP, {}).get("verdict") for at in (W, 2 * W)] if len(windows) == 3 else []
            return [one["verdict"] for one in windows.values()] == expected and (row is None or rows == [row] * 2)

        return holds

    eventually(judged(["COMPLETE"] * 3, "UNKNOWN"), what="open hours, and the group's rows beside them")
    (row,) = [one["sinks"][GROUP] for at, one in service.windows("clicks").items() if at == W]
    assert row["silent"] == [GROUP]

    added = tier(service, live, "add", "clicks", GROUP, "--from", str(W + 5))
    assert (added.returncode, added.stderr) == (0, "")
    assert "clicks, from the window of 1970-01-01 00:10 UTC on: consumer:trial takes part in the verdict" in added.stdout
    eventually(judged(["COMPLETE", "UNKNOWN", "UNKNOWN"], None), what="the named group waited for")
    assert service.windows("clicks")[W]["silent"] == [GROUP]
    listed = tier(service, live, "list", "clicks")
    assert "consumer:trial  in the verdict from 1970-01-01 00:10 UTC on" in listed.stdout
    assert "by anna at" in listed.stdout
    assert "billing depends on it" in listed.stdout

    service.process.kill()
    service.lose_store()
    service.start()
    eventually(judged(["COMPLETE", "UNKNOWN", "UNKNOWN"], None), what="the statement read again from the audit topic")

    removed = tier(service, live, "remove", "clicks", GROUP)
    assert (removed.returncode, removed.stderr) == (0, "")
    assert "from the window of 1970-01-01 00:10 UTC on" in removed.stdout, "the earliest one that waits for it"
    eventually(judged(["COMPLETE"] * 3, "UNKNOWN"), what="judged anew without it")
    found: list[dict[str, Any]] = json.loads(tier(service, live, "list", "--json").stdout)
    assert [(one["topic"], one["tier"], one["takes_part"]) for one in found] == [("clicks", GROUP, False)]


def test_the_command_refuses_what_changes_nothing_or_contradicts_the_settings(live: BrokerProcess, audit: Start) -> None:
    settings = SETTINGS.replace("adds =", 'without = ["consumer:gone"]\nadds =')
    service = audit(live.address, settings=settings)
    application = AuditedApplication(live.address, "orders")
    application.log([0], partition=0)
    application.seal()
    application.close()
    eventually(lambda: "orders" in service.get("/api/topics"), what="the topic heard of")
    for words, why in (
        (("remove", "orders", "consumer:billing"), "so only they can remove it: take it out of `tiers` or `adds`"),
        (("add", "orders", "consumer:billing"), "name consumer:billing for orders already"),
        (("add", "orders", "consumer:gone"), "take it out of `without`"),
        (("remove", "orders", "consumer:other"), "it was never added"),
        (("add", "orders", "mirror"), "Only groups are added and removed"),
        (("add", "ordres", "consumer:fraud"), "'ordres'"),
        (("add", "orders", "consumer:fraud", "--from", "soon"), "'soon' is neither a time"),
    ):
        done = tier(service, live, *words)
        assert (done.returncode, why in done.stderr) == (2, True), (words, done.stderr)
    assert service.get("/api/tiers") == []
    listed = tier(service, live, "list", "orders").stdout
    assert "consumer:billing  in the verdict, named by the settings" in listed
    assert "consumer:gone  left out" in listed
