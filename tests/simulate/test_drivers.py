"""Three drivers on real logs: what was acknowledged stays, in every order of messages, disk jobs, kills and full disks."""

import errno
import itertools
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.log import PartitionLog
from headrace.broker.replicas import driver, machine_runner, rest
from headrace.broker.replication.replica import Stopped
from headrace.wire.errors import ErrorCode

from .drivers import BROKERS, WORD, PlayedBroker, PlayedCluster

SEEDS = 60


def whole(folder: Path, seed: int = 0) -> PlayedCluster:
    cluster = PlayedCluster(folder, seed)
    cluster.settle(8)
    assert cluster.is_whole()
    return cluster


def the_leader(cluster: PlayedCluster) -> PlayedBroker:
    leader = cluster.leader()
    assert leader is not None
    return leader


def check(cluster: PlayedCluster) -> None:
    """Every acknowledged value is in every log once, and the logs are the same bytes."""
    logs = {broker_id: broker.values() for broker_id, broker in cluster.brokers.items()}
    (first, *others) = logs.values()
    assert all(each == first for each in others), logs
    assert len(set(first)) == len(first)
    assert cluster.acknowledged <= set(first), f"lost: {sorted(cluster.acknowledged - set(first))}"
    assert len({each.driver.log.log_end_offset for each in cluster.brokers.values()}) == 1
    assert len({each.content() for each in cluster.brokers.values()}) == 1, "the same bytes, leader epochs among them"


def test_what_every_member_has_is_acknowledged_and_shown(tmp_path: Path) -> None:
    cluster = whole(tmp_path)
    leader = the_leader(cluster)
    partition = leader.table.get("events", 0)
    assert partition is not None
    before = partition.high_watermark
    value = cluster.produce()
    assert value not in cluster.acknowledged
    assert partition.high_watermark == before, "consumers see nothing that a member lacks"
    cluster.settle(2)
    assert value in cluster.acknowledged
    assert partition.high_watermark == partition.log.log_end_offset
    check(cluster)
    assert [each.table.get("events", 0) is not None for each in cluster.brokers.values()].count(True) == 1


def test_acks_of_the_leader_alone_are_answered_at_once(tmp_path: Path) -> None:
    cluster = whole(tmp_path)
    value = cluster.produce(acks=1)
    assert value in cluster.acknowledged


def test_a_killed_leader_is_followed_by_a_member_with_everything(tmp_path: Path) -> None:
    cluster = whole(tmp_path)
    for _ in range(5):
        cluster.produce()
    cluster.settle(2)
    cluster.produce()  # perhaps nowhere else
    old = the_leader(cluster).broker_id
    cluster.kill(old)
    cluster.settle(4)
    assert the_leader(cluster).broker_id != old
    assert cluster.produce() is not None
    cluster.settle(4)
    cluster.start(old)
    cluster.settle(12)
    assert cluster.is_whole()
    check(cluster)
    assert len(cluster.acknowledged) >= 6


def test_a_tail_that_was_cut_is_put_aside(tmp_path: Path) -> None:
    cluster = whole(tmp_path)
    old = the_leader(cluster)
    lost = cluster.produce()
    cluster.messages.clear()
    cluster.kill(old.broker_id)
    cluster.settle(4)
    cluster.produce()
    cluster.settle(4)
    cluster.start(old.broker_id)
    cluster.settle(12)
    check(cluster)
    assert lost not in cluster.acknowledged
    assert lost not in the_leader(cluster).values()
    assert list(old.data.glob("events-0.cut.*"))


def at_rest(cluster: PlayedCluster) -> None:
    cluster.produce()
    cluster.settle(2 * rest.CALM_TICKS)
    assert all(broker.driver.rest.is_on for broker in cluster.brokers.values())


def test_replicas_at_rest_are_seldom_ticked_and_stay_members(tmp_path: Path) -> None:
    cluster = whole(tmp_path)
    at_rest(cluster)
    node = cluster.zookeeper.node(WORD)
    before = {broker_id: broker.ticks for broker_id, broker in cluster.brokers.items()}
    cluster.settle(20 * rest.EVERY)
    assert {broker_id: broker.ticks - before[broker_id] for broker_id, broker in cluster.brokers.items()} == {1: 20, 2: 20, 3: 20}
    assert cluster.zookeeper.node(WORD) == node, "all stayed in the set"
    value = cluster.produce()
    assert value is not None, "its members count as heard"
    cluster.settle(2)
    assert value in cluster.acknowledged
    assert cluster.zookeeper.node(WORD) == node
    check(cluster)


def test_a_killed_leader_at_rest_is_followed(tmp_path: Path) -> None:
    cluster = whole(tmp_path)
    at_rest(cluster)
    old = the_leader(cluster).broker_id
    cluster.kill(old)
    cluster.settle(3)
    assert the_leader(cluster).broker_id != old
    assert cluster.produce() is not None
    cluster.settle(12)
    cluster.start(old)
    cluster.settle(12)
    assert cluster.is_whole()
    check(cluster)


def test_a_member_at_rest_whose_process_polls_and_takes_nothing_leaves_the_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = whole(tmp_path)
    at_rest(cluster)
    leader = the_leader(cluster)
    deaf = next(broker for broker in cluster.brokers.values() if broker is not leader)
    send = cluster.send
    monkeypatch.setattr(cluster, "send", lambda to, deliver: None if to == deaf.broker_id else send(to, deliver))
    value = cluster.produce()
    cluster.settle(20)
    assert value in cluster.acknowledged
    node = cluster.zookeeper.node(WORD)
    assert node is not None
    assert deaf.broker_id not in {member.broker_id for member in node.members}


def test_the_end_of_a_leadership_answers_what_waits(tmp_path: Path) -> None:
    cluster = whole(tmp_path)
    old = the_leader(cluster)
    partition = old.table.get("events", 0)
    value = cluster.produce()
    cluster.messages.clear()
    other = next(each for each in cluster.brokers.values() if each is not old)
    node = cluster.zookeeper.node(WORD)
    assert node is not None
    cluster.zookeeper.history[WORD].append(replace(node, leader=other.broker_id, version=node.version + 1))
    old.driver.node_read(cluster.zookeeper.node(WORD))
    old.run_job()  # the node is noted first
    assert value is not None
    assert cluster.refused[value][0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition is not None
    assert partition.is_gone
    assert old.table.get("events", 0) is None
    assert cluster.produce() is None


def test_an_acknowledgement_that_no_follower_gives_times_out(tmp_path: Path) -> None:
    cluster = whole(tmp_path)
    value = cluster.produce()
    leader = the_leader(cluster)
    cluster.now_ms += 10_001
    leader.driver.tick()
    assert value is not None
    assert cluster.refused[value][0] is ErrorCode.REQUEST_TIMED_OUT


def test_too_few_replicas_in_sync_refuse_appends(tmp_path: Path) -> None:
    cluster = PlayedCluster(tmp_path)
    for broker_id in BROKERS[1:]:
        cluster.kill(broker_id)
    cluster.settle(4)
    partition = the_leader(cluster).table.get("events", 0)
    assert partition is not None
    refused = partition.why_no_append(-1)
    assert refused is not None
    assert refused[0] is ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.why_no_append(1) is None


def test_a_folder_that_was_emptied_is_no_member_until_it_has_caught_up(tmp_path: Path) -> None:
    cluster = whole(tmp_path)
    for _ in range(4):
        cluster.produce()
    cluster.settle(2)
    other = next(each for each in cluster.brokers.values() if not each.driver.leads)
    cluster.kill(other.broker_id)
    (other.data / "events-0").rename(other.data / "taken-away")
    cluster.start(other.broker_id)
    assert cluster.brokers[other.broker_id].driver.machine.entry() is None
    cluster.settle(12)
    assert cluster.is_whole()
    check(cluster)


def test_an_order_that_the_disk_refuses_stops_the_replica(tmp_path: Path) -> None:
    cluster = whole(tmp_path)
    other = next(each for each in cluster.brokers.values() if not each.driver.leads)
    cluster.kill(the_leader(cluster).broker_id)
    third = next(each for each in cluster.brokers.values() if each is not other)

    other.suspect()
    for _ in range(20):
        cluster.deliver()
        if other.jobs:
            break
    failed = other.jobs.pop()[2]
    failed(OSError("no room"))
    assert isinstance(other.driver.machine.role, Stopped)
    assert not third.driver.has_stopped
    assert other.table.get("events", 0) is None


def test_a_leader_that_stops_leaves_the_set_with_the_swap_and_no_follower_cuts(tmp_path: Path) -> None:
    cluster = whole(tmp_path)
    old = the_leader(cluster)
    to, third = (broker for broker in cluster.brokers.values() if broker is not old)
    send = cluster.send
    cluster.send = lambda at, deliver: None if at == to.broker_id else send(at, deliver)  # type: ignore[method-assign]
    first = cluster.produce()
    for _ in range(40):
        cluster.deliver()
        third.run_job()
    cluster.send = send  # type: ignore[method-assign]
    assert third.driver.log.log_end_offset > to.driver.log.log_end_offset
    assert not old.driver.begin_hand_over(to.broker_id, 10_000), "the other follower has more"
    cluster.settle(1)
    assert to.driver.log.log_end_offset < old.driver.log.log_end_offset, "nothing is sent"
    old.driver.end_hand_over()
    old.turn()
    cluster.settle(3)
    assert old.driver.begin_hand_over(to.broker_id, 10_000)
    second = cluster.produce()
    old.driver.leave()
    assert to.driver.take_over(old.driver.machine.noted.leader_epoch, leader_stops=True)
    to.turn()
    cluster.settle(1)
    assert to.driver.leads
    node = cluster.zookeeper.node(WORD)
    assert node is not None
    assert {member.broker_id for member in node.members} == {to.broker_id, third.broker_id}
    assert first in cluster.acknowledged
    assert second is not None
    assert cluster.refused[second][0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
    value = cluster.produce()
    cluster.settle(2)
    assert value in cluster.acknowledged, "the one that stops is not waited for"
    assert [list(broker.data.glob("*.cut.*")) for broker in cluster.brokers.values()] == [[], [], []]
    cluster.kill(old.broker_id)
    cluster.start(old.broker_id)
    cluster.settle(12)
    assert cluster.is_whole()
    check(cluster)


def stop_on_a_full_disk(cluster: PlayedCluster) -> PlayedBroker:
    """Kill the leader, and let the next one find no room when it begins its epoch; return that one."""
    cluster.kill(the_leader(cluster).broker_id)
    broker = next(iter(cluster.brokers.values()))
    broker.suspect()
    while not broker.jobs:
        cluster.deliver()
    broker.run_job()  # the note is written in place and needs no room
    broker.run_job(is_full=True)
    assert broker.driver.has_stopped
    return broker


def test_a_replica_that_stopped_on_a_full_disk_leads_again_in_a_new_epoch_when_there_is_room(tmp_path: Path) -> None:
    cluster = whole(tmp_path)
    for _ in range(3):
        cluster.produce()
    cluster.settle(2)
    broker = stop_on_a_full_disk(cluster)
    assert "make room" in str(broker.driver.why_stopped)
    node = cluster.zookeeper.node(WORD)
    assert node is not None
    assert node.leader == broker.broker_id, "its swap has landed"
    cluster.kill(next(one for one in cluster.brokers if one != broker.broker_id))
    cluster.settle(2)
    assert broker.driver.has_stopped, "it waits a second"
    cluster.settle(10)
    after = cluster.zookeeper.node(WORD)
    assert after is not None
    assert (after.leader, broker.driver.leads) == (broker.broker_id, True)
    assert after.leader_epoch > node.leader_epoch, "no process resumes an epoch"
    for one in BROKERS:
        if one not in cluster.brokers:
            cluster.start(one)
    cluster.settle(12)
    assert cluster.is_whole()
    cluster.produce()
    cluster.settle(2)
    check(cluster)
    assert len(cluster.acknowledged) == 4


def test_a_replica_tries_a_full_disk_less_and_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = whole(tmp_path)
    broker = stop_on_a_full_disk(cluster)
    began: list[int] = []
    begin_again = broker.driver._begin_again
    monkeypatch.setattr(broker.driver, "_begin_again", lambda: (began.append(cluster.now_ms), begin_again()))
    for other in [one for one in cluster.brokers if one != broker.broker_id]:
        cluster.kill(other)
    for _ in range(4 * 200):
        cluster.tick()
        for _ in range(6):
            cluster.deliver()
            broker.run_job(is_full=True)
        broker.suspect()
    pauses = [later - before for before, later in itertools.pairwise(began)]
    assert pauses[:3] == sorted(pauses[:3])
    assert machine_runner.LONGEST_REST_MS <= pauses[-1] <= machine_runner.LONGEST_REST_MS + 1_000
    assert len(began) < 12


def test_a_cut_that_found_no_room_is_made_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = whole(tmp_path)
    old = the_leader(cluster).broker_id
    cluster.produce()
    cluster.settle(2)
    cluster.produce()
    cluster.messages.clear()
    cluster.kill(old)
    cluster.settle(4)
    cluster.produce()
    cluster.settle(4)
    cluster.start(old)
    broker = cluster.brokers[old]

    def without_room(log: PartitionLog, *_: Any, **__: Any) -> None:
        log.close()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(PartitionLog, "cut_end", without_room)
        for _ in range(100):
            cluster.tick()
            cluster.deliver()
            broker.run_job()
            if broker.driver.has_stopped:
                break
    assert broker.driver.has_stopped
    cluster.settle(20)
    assert cluster.is_whole()
    check(cluster)


@pytest.mark.parametrize("part", range(4))
def test_nothing_is_lost_in_random_runs(part: int, tmp_path: Path) -> None:
    takeovers = acknowledged = stopped = 0
    for seed in range(part, SEEDS, 4):
        folder = tmp_path / f"{seed}"
        folder.mkdir()
        cluster = PlayedCluster(folder, seed)
        chance = cluster.chance
        cluster.settle(6)
        for _ in range(150):
            match chance.choices(range(8), (30, 20, 8, 8, 3, 4, 2, 1))[0]:
                case 0:
                    cluster.deliver(chance.randrange(3))
                case 1:
                    cluster.produce(chance.choice((-1, -1, 1)))
                case 2:
                    cluster.tick()
                case 3 if cluster.brokers:
                    chance.choice(list(cluster.brokers.values())).run_job(chance.randrange(3))
                case 4 if len(cluster.brokers) > 1:
                    cluster.kill(chance.choice(list(cluster.brokers)))
                case 5 if len(cluster.brokers) < 3:
                    cluster.start(chance.choice([each for each in BROKERS if each not in cluster.brokers]))
                case 6 if cluster.brokers:
                    chance.choice(list(cluster.brokers.values())).suspect()
                case 7 if cluster.brokers:
                    broker = chance.choice(list(cluster.brokers.values()))
                    broker.run_job(is_full=True)
                    stopped += broker.driver.has_stopped
        for broker_id in BROKERS:
            if broker_id not in cluster.brokers:
                cluster.start(broker_id)
        cluster.settle(60)
        assert cluster.is_whole(), f"seed {seed}: {cluster.zookeeper.node(WORD)}"
        cluster.acknowledged -= cluster.of_one
        check(cluster)
        node = cluster.zookeeper.node(WORD)
        assert node is not None
        takeovers += node.leader_epoch - 1
        acknowledged += len(cluster.acknowledged)
    assert takeovers > 10
    assert acknowledged > 20
    assert stopped > 0


def test_a_leader_whose_flush_failed_leads_no_more_and_is_trusted_no_more(tmp_path: Path) -> None:
    cluster = whole(tmp_path)
    leader = the_leader(cluster)
    cluster.produce()
    cluster.settle(2)
    life = leader.driver.machine.lives
    job = leader.driver.log.flush_job()
    assert job is not None
    leader.driver.flush_failed(str(job.failed(OSError(5, "Input/output error"))))
    assert leader.driver.has_stopped
    assert leader.table.get("events", 0) is None
    cluster.kill(leader.broker_id)
    cluster.settle(4)
    cluster.start(leader.broker_id)
    restarted = cluster.brokers[leader.broker_id].driver.machine.lives
    assert restarted.memory != life.memory
    assert restarted.disk != life.disk
    cluster.settle(12)
    assert cluster.is_whole()
    check(cluster)


def test_what_waits_for_followers_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "MOST_WAITERS", 3)
    cluster = whole(tmp_path)
    partition = the_leader(cluster).table.get("events", 0)
    assert partition is not None
    for _ in range(10):
        cluster.produce()
    refused = partition.why_no_append(-1)
    assert refused is not None
    assert refused[0] is ErrorCode.NOT_ENOUGH_REPLICAS
    cluster.settle(2)
    assert partition.why_no_append(-1) is None


def test_ticks_and_answers_are_left_out_while_too_much_waits_behind_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (driver, machine_runner):
        monkeypatch.setattr(module, "MOST_EVENTS", 20)
    cluster = whole(tmp_path)
    leader = the_leader(cluster)
    node = cluster.zookeeper.node(WORD)
    assert node is not None
    leader.driver.node_read(replace(node, version=node.version + 1))
    for _ in range(100):
        leader.driver.tick()
    assert len(leader.driver._events) <= 20
    leader.run_job()
    assert not leader.driver._events
    assert leader.driver.leads, "the same epoch goes on"


def test_a_leader_that_waits_for_its_disk_holds_few_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many appends of acks=1 and fetches come meanwhile."""
    monkeypatch.setattr(driver, "MOST_EVENTS", 20)
    cluster = whole(tmp_path)
    leader = the_leader(cluster)
    leader.driver._wait_for(lambda: None)
    assert leader.jobs, "it waits for its disk"
    for _ in range(200):
        cluster.produce(acks=1)
        for other in cluster.brokers.values():
            if other is not leader:
                other.driver.tick()
        while cluster.messages:
            cluster.deliver()
    assert len(leader.driver._events) <= 20
    while leader.jobs:
        leader.run_job()
    cluster.settle(20)
    assert cluster.is_whole()
    check(cluster)
