"""Lost stores and stores in PostgreSQL, with real brokers: what was COMPLETE stays COMPLETE.

Faults of the issue: 'the audit topic grows for ever'; 'after records expired on live, a rebuild of the store turns COMPLETE into
missing, first at live'.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.audit.service.checkpoints.form import About, messages
from headrace.audit.service.checkpoints.topic import ClusterCheckpoints
from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.log_offsets import EARLIEST, LATEST, log_offsets
from headrace.client.record_deletion import delete_records
from headrace.runtime.clock import SystemClock
from headrace.runtime.layout import AUDIT_CHECKPOINT_TOPIC, AUDIT_TOPIC
from tests.support.audit_service import AuditService
from tests.support.audited_application import AuditedApplication, W
from tests.support.broker import BrokerProcess
from tests.support.postgresql import PostgresqlServer
from tests.support.processes import eventually

from .conftest import SETTINGS

Start = Callable[..., AuditService]
OFTEN = SETTINGS.replace("[service]", "[service]\ncheckpoint_every_ms = 1000")
AUDIT = TopicPartition(AUDIT_TOPIC, 0)
CHECKPOINTS = TopicPartition(AUDIT_CHECKPOINT_TOPIC, 0)
CLICKS = TopicPartition("clicks", 0)
SAID = ("verdict", "tiers", "missing", "doubled", "altered", "accounted", "reason", "differences", "losses")


@pytest.fixture
def cluster(live: BrokerProcess) -> Iterator[Cluster]:
    made = Cluster(live.address)
    create_topic(made, "clicks", 1)
    yield made
    made.close()


def said(service: AuditService) -> dict[int, dict[str, Any]]:
    return {start: {name: one[name] for name in SAID} for start, one in service.windows("clicks").items()}


def log_and_await(live: BrokerProcess, service: AuditService, number: int) -> None:
    """Log to ten windows of its own and wait until all windows are COMPLETE."""
    application = AuditedApplication(live.address, "clicks", instance=f"host/app/{number}")
    chance = random.Random(number)
    application.log(sorted(chance.randrange(10 * W) + number * 10 * W for _ in range(1_000)))
    application.seal()
    application.close()

    def complete() -> bool:
        found = said(service)
        return len(found) == 10 * (number + 1) and all(one["verdict"] == "COMPLETE" for one in found.values())

    eventually(complete, what="every window COMPLETE")


def checkpoints(service: AuditService) -> int:
    return service.process.output().count("checkpoint_written")


def log_until_shortened(live: BrokerProcess, service: AuditService, cluster: Cluster) -> None:
    """Log again and again until the audit topic has been shortened for a checkpoint that holds all logged so far."""
    for number in range(3):
        log_and_await(live, service, number)
        end = log_offsets(cluster, {AUDIT: LATEST})[AUDIT]
        eventually(lambda least=number + 1: checkpoints(service) >= least, what="a checkpoint that holds all this")  # type: ignore[misc]
    eventually(lambda: log_offsets(cluster, {AUDIT: EARLIEST})[AUDIT] > 0, what="the audit topic shortened")
    assert end >= log_offsets(cluster, {AUDIT: EARLIEST})[AUDIT]


@pytest.mark.situation(
    "audit's own data",
    "the store is lost after live data expired",
    shown="the same verdicts, from the newest checkpoint",
    when="seconds after the restart",
    do="nothing",
)
def test_a_lost_store_is_rebuilt_after_live_data_has_expired(live: BrokerProcess, audit: Start, cluster: Cluster) -> None:
    service = audit(live.address, settings=OFTEN)
    log_until_shortened(live, service, cluster)
    before = said(service)
    service.process.stop()  # writes a last checkpoint
    end = log_offsets(cluster, {CLICKS: LATEST})[CLICKS]
    assert delete_records(cluster, {CLICKS: end}) == {CLICKS: end}
    assert log_offsets(cluster, {CLICKS: EARLIEST}) == {CLICKS: end}
    service.lose_store()
    service.start()
    eventually(lambda: "store_rebuilt" in service.process.output(), what="the store rebuilt")
    eventually(lambda: len(said(service)) == len(before), what="all windows known")
    assert said(service) == before
    log_and_await(live, service, 3)
    assert {start: one for start, one in said(service).items() if start in before} == before


def test_with_checkpoints_and_older_reports_lost_too_nothing_is_taken_for_unaudited(
    live: BrokerProcess, audit: Start, cluster: Cluster
) -> None:
    """Fault: windows became COMPLETE with their records 'unaudited', once another producer had announced the topic."""
    service = audit(live.address, settings=OFTEN)
    log_and_await(live, service, 0)
    first = set(said(service))
    eventually(lambda: checkpoints(service) >= 1, what="a checkpoint")
    service.process.stop()
    ends = log_offsets(cluster, {AUDIT: LATEST, CHECKPOINTS: LATEST})
    assert delete_records(cluster, ends) == ends
    service.lose_store()
    application = AuditedApplication(live.address, "clicks", instance="host/app/later")
    application.log([10 * W + at for at in range(100)])
    application.seal()
    application.close()
    service.start()

    def told() -> bool:
        found = service.windows("clicks")
        unread = {start: (one["verdict"], one["unaudited"]) for start, one in found.items() if start in first}
        is_later_complete = found.get(10 * W, {}).get("verdict") == "COMPLETE"
        return is_later_complete and len(unread) == 10 and set(unread.values()) == {("UNKNOWN", 0)}

    eventually(told, what="the windows of the lost reports UNKNOWN, the later one COMPLETE")
    assert sum(one["unread_reports"] for one in service.windows("clicks").values()) == 1_000


def test_a_store_lost_by_a_kill_is_rebuilt_from_checkpoint_and_rest(live: BrokerProcess, audit: Start, cluster: Cluster) -> None:
    service = audit(live.address, settings=OFTEN)
    log_until_shortened(live, service, cluster)
    service.process.kill()
    half = list(messages(About(checkpoint="half", layout=4, window_ms=W, at_ms=1, audit={0: 1}), [b"1"]))[:-1]
    topic = ClusterCheckpoints(live.address, SystemClock())
    topic.append([*half, b"no checkpoint at all"])
    topic.close()
    service.lose_store()
    service.start()
    eventually(lambda: "store_rebuilt" in service.process.output(), what="the store rebuilt")
    output = service.process.output()
    assert "its end is missing" in output
    log_and_await(live, service, 3)


def test_checkpoints_that_are_not_needed_are_deleted(live: BrokerProcess, audit: Start, cluster: Cluster) -> None:
    service = audit(live.address, settings=OFTEN)
    log_until_shortened(live, service, cluster)
    eventually(lambda: log_offsets(cluster, {CHECKPOINTS: EARLIEST})[CHECKPOINTS] > 0, what="the checkpoint topic shortened")
    # Other audits of this cluster see how far this one has read.
    topic = ClusterCheckpoints(live.address, SystemClock())
    (position,) = topic.positions()
    topic.close()
    assert position.audit[0] > 0
    assert position.at_ms > 0


@pytest.mark.needs("postgresql")
def test_a_store_in_postgresql_survives_kills_of_service_and_server(live: BrokerProcess, audit: Start, cluster: Cluster) -> None:
    server = PostgresqlServer()
    try:
        server.start()
        service = audit(live.address, settings=OFTEN, store=server.new_database())
        log_and_await(live, service, 0)
        before = said(service)
        service.process.kill()
        service.start()
        assert said(service) == before
        server.kill()
        eventually(lambda: "connection to" in service.process.output(), what="the lost store told")
        server.start()
        log_and_await(live, service, 1)
        assert {start: one for start, one in said(service).items() if start in before} == before
        assert not list(service.folder.glob("books.sqlite*"))
    finally:
        server.remove()
