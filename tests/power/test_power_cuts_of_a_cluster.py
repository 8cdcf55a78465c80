"""The power of all three brokers of a cluster is cut at one instant, under load. They come back in another boot, on what their
disks hold: nothing of what was not flushed, or a random part of it, torn between sectors.

Where a topic waits for the disk (`flush.ack=always`), every acknowledged record is there, once, at its offset, without an
operator. Where it does not, no replica may lead. An operator lets one, and exactly what the dry run has named is lost.
"""

import io
import json
import os
import random
import shutil
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.main import main
from headrace.runtime.layout import AUDIT_TOPIC
from tests.crash.kills import seed_of
from tests.power.machines import IDS, READY_MS, Instant, Machines, states_of
from tests.power.unique_values import Record, Sending, read_all
from tests.support.audited_application import AuditedApplication, W
from tests.support.audited_loss import named_as_missing
from tests.support.processes import eventually
from tests.support.replica_logs import differences, log_bytes
from tests.support.zookeeper import ZooKeeperProcess

INSTANTS = int(os.environ.get("HEADRACE_POWER_CUTS", "5"))
"""Beside the last one, at which the clients live on."""
BETWEEN = 150
"""So many acknowledgements lie between two instants."""
FLUSHED, PLAIN, AUDITED = "flushed", "plain", "audited"
KEPT, AT_RISK = 300, 400
"""Records of the audited application that are on disk, and that need not be."""
SEGMENTS = {"segment.bytes": "20000"}
ALWAYS = {"flush.ack": "always", **SEGMENTS}


@pytest.mark.needs("block disk")
def test_a_power_cut_of_all_brokers_loses_only_what_waited_for_no_disk(tmp_path: Path) -> None:
    chance = random.Random(seed_of(0))
    folder, copy = tmp_path / "zookeeper", tmp_path / "zookeeper-then"
    machines = Machines(tmp_path)
    with ZooKeeperProcess(folder) as keeper, ExitStack() as clients:
        with machines.recorded(keeper.address):
            make_topics(machines)
            application = AuditedApplication(machines.address, AUDITED)
            application.log(range(KEPT))
            for one in IDS:
                machines.write_back(one)
            flushed = clients.enter_context(Sending(machines.address, FLUSHED, "f"))
            with Sending(machines.address, PLAIN, "p") as plain:
                instants = record(machines, keeper.address, flushed, plain, chance)
                application.log(range(W, W + AT_RISK))
                counts = machines.cut()
        keeper.kill()
        shutil.copytree(folder, copy)
        keeper.start()
        with machines.on(counts, dict.fromkeys(IDS), keeper.address):
            flushed.finish()
            is_whole(machines, flushed.acknowledged, flushed.sent)
            is_recovered(machines, plain.acknowledged, plain.sent)
            left = chosen(execute(machines, AUDITED))["end_offset"]
            application.seal()
            (producer_id, *_) = application.producer.producer_ids
            application.close()
            the_audit_names_what_is_missing(machines, producer_id, left, tmp_path)
    for number, instant in enumerate(instants):
        chances = {one: chance.choice((None, chance)) for one in IDS}
        tree = shutil.copytree(copy, tmp_path / f"zookeeper-{number}")
        with ZooKeeperProcess(tree) as keeper, machines.on(instant.counts, chances, keeper.address):
            is_whole(machines, flushed.acknowledged[: instant.told[FLUSHED]], flushed.sent)
            is_recovered(machines, plain.acknowledged[: instant.told[PLAIN]], plain.sent)


def make_topics(machines: Machines) -> None:
    configs = {AUDIT_TOPIC: ALWAYS, FLUSHED: ALWAYS, PLAIN: SEGMENTS, AUDITED: SEGMENTS}
    for topic, config in configs.items():
        machines.create(topic, config=config)


def record(machines: Machines, zookeeper: str, flushed: Sending, plain: Sending, chance: random.Random) -> list[Instant]:
    """Return moments under load. ZooKeeper says at each of them what it says at the last one."""
    instants: list[Instant] = []
    with states_of(zookeeper) as states:
        for _ in range(10 * INSTANTS):
            if len(instants) == INSTANTS:
                break
            wanted = len(flushed.acknowledged) + BETWEEN + chance.randrange(BETWEEN)
            eventually(lambda wanted=wanted: len(flushed.acknowledged) >= wanted, within_ms=60_000, what="acknowledgements")  # type: ignore[misc]
            before = states()
            told = {FLUSHED: len(flushed.acknowledged), PLAIN: len(plain.acknowledged)}
            counts = machines.counts()
            if states() == before:
                instants = [one for one in instants if one.states == before]
                instants.append(Instant(counts=counts, told=told, states=before))
            machines.write_back(chance.choice(IDS))
    assert len(instants) == INSTANTS, "the in-sync sets change all the time"
    return instants


def is_whole(machines: Machines, acknowledged: Sequence[Record], sent: Sequence[str]) -> None:
    """Without an operator, every acknowledged record is there, once, at its offset; and all replicas have the same bytes."""
    machines.await_in_sync(FLUSHED, 3, READY_MS)
    there, end = read_all(machines.address, FLUSHED)
    missing = set(acknowledged) - set(there)
    assert not missing, f"{len(missing)} of {len(acknowledged)} acknowledged records are lost: {sorted(missing)[:5]}"
    are_records(there, sent)
    assert differences(logs(machines, FLUSHED), end) == []


def is_recovered(machines: Machines, acknowledged: Sequence[Record], sent: Sequence[str]) -> None:
    """No replica leads until an operator decides it, and exactly what the dry run names is lost."""
    plan = execute(machines, PLAIN)
    start, ranges, chosen_end = plan["start_offset"], chosen(plan)["lost"], chosen(plan)["end_offset"]
    with Sending(machines.address, PLAIN, "after") as sending:
        eventually(lambda: len(sending.acknowledged) > 20, within_ms=60_000, what="the partition takes records")
        sending.finish()
    there, end = read_all(
        machines.address, PLAIN, begin=0 if chosen_end else start
    )  # where nothing is left, the log begins there
    assert [one for one in there if one[0] >= start] == sending.acknowledged
    before = [one for one in there if one[0] < start]
    are_records(before, sent)
    lost = {record for record in acknowledged if any(begin <= record[0] < end for begin, end in ranges)}
    assert set(acknowledged) - set(before) == lost
    parts = [(0, chosen_end), (start, end)]
    for first, last in parts[0 if chosen_end else 1 :]:
        kept = {one: {base: log[base] for base in log if first <= base < last} for one, log in logs(machines, PLAIN).items()}
        assert differences(kept, last) == []
    ends = [one["end_offset"] for one in plan["replicas"]]
    print(f"{len(lost)} of {len(acknowledged)} acknowledged records are lost; the logs ended at {ends}")


def execute(machines: Machines, topic: str) -> dict[str, Any]:
    """Recover the partition, which has no leader; return what the dry run said."""
    plan = eventually(lambda: due(machines, topic), within_ms=READY_MS, what="a recovery of the partition is due")
    assert recover(machines, topic, "--execute")[0] == 0
    machines.await_in_sync(topic, 3, READY_MS)
    return plan


def are_records(there: Sequence[Record], sent: Sequence[str]) -> None:
    """What is there was sent, and is there once, at ascending offsets."""
    offsets, values = [one[0] for one in there], [one[1] for one in there]
    assert offsets == sorted(set(offsets))
    assert len(set(values)) == len(values)
    assert set(values) <= set(sent)


def chosen(plan: dict[str, Any]) -> dict[str, Any]:
    """Return what the plan says of the replica that is to lead."""
    (found,) = [one for one in plan["replicas"] if one["broker_id"] == plan["chosen"]]
    return dict(found)


def due(machines: Machines, topic: str) -> dict[str, Any]:
    """Return what the dry run says, nothing while no recovery is due."""
    status, plan = recover(machines, topic, "--dry-run")
    return plan if status == 0 else {}


def recover(machines: Machines, topic: str, *options: str) -> tuple[int, dict[str, Any]]:
    told = io.StringIO()
    with redirect_stdout(told):
        status = main(["partition", "recover", topic, "0", "--bootstrap", machines.address, "--json", *options])
    return status, json.loads(told.getvalue() or "{}")


def logs(machines: Machines, topic: str) -> dict[int, dict[int, bytes]]:
    return {one: log_bytes(broker.data / f"{topic}-0") for one, broker in machines.brokers.items()}


def the_audit_names_what_is_missing(machines: Machines, producer_id: int, end: int, folder: Path) -> None:
    lost = KEPT + AT_RISK - len(read_all(machines.address, AUDITED, until=end)[0])
    assert 0 < lost <= AT_RISK
    named_as_missing(machines.address, AUDITED, folder / "audit", producer_id=producer_id, kept=KEPT, logged=AT_RISK, lost=lost)
