"""docs/OPERATIONS.md, "A lost ZooKeeper", on an ensemble of three: one member's disk is lost, then all disks are.

Clients continue meanwhile; what was sent is known by the ids in the values, what is there is read by confluent-kafka.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.broker import BrokerProcess
from tests.support.processes import eventually
from tests.support.zookeeper import ZooKeeperProcess
from tests.support.zookeeper_ensemble import ZooKeeperEnsemble

from .applications import Application, has_each_once_in_order, orders
from .datacenters import Datacenters
from .test_runbooks import PARTITIONS, Sending, headrace, make_topic, values_in
from .versions import this_tree

FORGOTTEN = "it has lost what it knew"

pytestmark = pytest.mark.whole


def committed(address: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "readers", "log_level": 0})
    found = consumer.committed([TopicPartition("clicks", partition) for partition in range(PARTITIONS)], timeout=30)
    consumer.close()
    return [one.offset for one in found]


def know_each_other(brokers: list[BrokerProcess]) -> None:
    """Return once each tells of all: a topic that is made before has all its partitions on one."""
    for broker in brokers:
        admin = AdminClient({"bootstrap.servers": broker.address})
        eventually(lambda admin=admin: len(admin.list_topics(timeout=10).brokers) == len(brokers), what="brokers known")  # type: ignore[misc]


def commit(address: str, offsets: list[int]) -> None:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "readers", "enable.auto.commit": False, "log_level": 0})
    wanted = [TopicPartition("clicks", partition, offset) for partition, offset in enumerate(offsets)]
    consumer.commit(offsets=wanted, asynchronous=False)
    consumer.close()


def test_a_member_that_lost_its_disk_copies_from_the_others_and_then_carries_them(tmp_path: Path) -> None:
    with ZooKeeperEnsemble(tmp_path / "zookeeper") as ensemble:
        with BrokerProcess(tmp_path / "broker", f"{ensemble.address}/live") as broker:
            make_topic(broker.address, "clicks")
            sending = Sending(broker.address, "clicks")
            sending.goes_on()
            leader = ensemble.modes().index("leader") + 1
            ensemble.lose_disk(leader)
            sending.goes_on()
            ensemble.restart(leader)
            sending.goes_on()
            # The others' turn: what the ensemble knows now is what the one with the empty disk has copied.
            other = ensemble.kill_leader()
            eventually(lambda: "leader" in ensemble.modes(), within_ms=40_000, what="another leader")
            make_topic(broker.address, "made-meanwhile")
            sending.goes_on()
            ensemble.restart(other)
            assert broker.stop() == 0
            broker.start()
            sending.goes_on()
            sent = sending.stop()
            assert values_in(broker.address, "clicks") == sent
            assert "made-meanwhile" in headrace("topic", "list", "--bootstrap", broker.address)


def test_an_ensemble_that_lost_all_its_disks_gets_its_copy_back_under_load(tmp_path: Path) -> None:
    """Fault: running brokers took the empty tree for the truth, stopped serving every topic and set its folders aside."""
    with ZooKeeperEnsemble(tmp_path / "zookeeper") as ensemble:
        zookeeper, copy = f"{ensemble.address}/live", str(tmp_path / "tree.json")
        often = {"zookeeper.copy.interval.ms": 300}
        brokers = [BrokerProcess(tmp_path / f"broker-{one}", zookeeper, broker_id=one, settings=often) for one in (1, 2)]
        try:
            for broker in brokers:
                broker.start()
            both = ",".join(broker.address for broker in brokers)
            know_each_other(brokers)
            make_topic(both, "clicks")
            headrace("topic", "config", "clicks", "--bootstrap", both, "--set", "retention.ms=987654321")
            sending = Sending(both, "clicks")
            sending.goes_on()
            commit(both, [3, 4, 5, 6])
            kept = brokers[0].data / "tree.json"
            eventually(lambda: "offsets/clicks" in kept.read_text(), within_ms=20_000, what="a copy with the commits")
            ensemble.lose_all_disks()
            sending.goes_on()
            # ZooKeeper turns those away who saw a later transaction than it knows; an election makes its own later.
            ensemble.restart(ensemble.kill_leader())
            for broker in brokers:
                eventually(lambda log=broker: FORGOTTEN in log.log, within_ms=60_000, what=f"told by {broker.log[-2000:]}")
            sending.goes_on()
            assert [path for broker in brokers for path in broker.data.glob("*.gone.*")] == []
            # One dies before anybody has helped. It does not start: clients would make its topics again, beside its logs.
            brokers[1].kill()
            brokers[1].launch()
            eventually(lambda: not brokers[1].process.is_running(), within_ms=60_000, what="broker 2 refuses")
            assert "ZooKeeper has no cluster id" in brokers[1].log
            for broker in brokers:
                headrace("zookeeper", "rebuild", "--data", str(broker.data), copy)
            headrace("zookeeper", "import", "--zookeeper", zookeeper, copy)
            eventually(lambda: _starts(brokers[1]), within_ms=60_000, what="broker 2")
            sending.goes_on()
            make_topic(both, "made-after")
            sent = sending.stop()
            assert values_in(both, "clicks") == sent
            assert "987654321" in headrace("topic", "describe", "clicks", "--bootstrap", both)
            assert committed(both) == [3, 4, 5, 6]
            assert [path for broker in brokers for path in broker.data.glob("*.gone.*")] == []
        finally:
            for broker in brokers:
                broker.kill()


def test_without_a_copy_the_topics_are_found_in_the_brokers_folders(tmp_path: Path) -> None:
    folder, tree = tmp_path / "zookeeper", str(tmp_path / "tree.json")
    brokers: list[BrokerProcess] = []
    try:
        with ZooKeeperProcess(folder) as zookeeper:
            chroot = f"{zookeeper.address}/live"
            brokers += [BrokerProcess(tmp_path / f"broker-{one}", chroot, broker_id=one).start() for one in (1, 2)]
            both = ",".join(broker.address for broker in brokers)
            know_each_other(brokers)
            make_topic(both, "clicks")
            sending = Sending(both, "clicks")
            sending.goes_on()
            sent = sending.stop()
            for broker in brokers:
                kept = broker.data / "tree.json"
                eventually(lambda at=kept: "clicks" in at.read_text(), within_ms=60_000, what="the new topic in the copy")
                assert broker.stop() == 0
                kept.unlink()
            zookeeper.kill()
            shutil.rmtree(folder / "data")
            zookeeper.start()
            headrace("zookeeper", "rebuild", "--data", str(brokers[0].data), tree)
            half = [sys.executable, "-m", "headrace.cli.main", "zookeeper", "import", "--zookeeper", chroot, tree]
            refused = subprocess.run(half, capture_output=True, text=True, timeout=120, check=False)
            assert (refused.returncode, "the partitions [0, 2] of clicks" in refused.stderr) == (1, True)
            headrace("zookeeper", "rebuild", "--data", str(brokers[1].data), tree)
            headrace("zookeeper", "import", "--zookeeper", chroot, tree)
            for broker in brokers:
                broker.start()
            assert values_in(both, "clicks") == sent
            assert "retention.ms" in headrace("topic", "describe", "clicks", "--bootstrap", both)
    finally:
        for broker in brokers:
            broker.kill()


def test_a_copy_is_completed_from_the_folders_with_what_was_made_since(tmp_path: Path) -> None:
    folder, tree = tmp_path / "zookeeper", str(tmp_path / "tree.json")
    brokers: list[BrokerProcess] = []
    try:
        with ZooKeeperProcess(folder) as zookeeper:
            chroot = f"{zookeeper.address}/live"
            brokers += [BrokerProcess(tmp_path / f"broker-{one}", chroot, broker_id=one).start() for one in (1, 2)]
            both = ",".join(broker.address for broker in brokers)
            know_each_other(brokers)
            make_topic(both, "clicks")
            headrace("topic", "config", "clicks", "--bootstrap", both, "--set", "retention.ms=987654321")
            commit(both, [1, 2, 3, 4])
            headrace("zookeeper", "export", "--zookeeper", chroot, tree)
            make_topic(both, "later")
            sending = {topic: Sending(both, topic) for topic in ("clicks", "later")}
            for one in sending.values():
                one.goes_on()
            zookeeper.kill()
            shutil.rmtree(folder / "data")
            zookeeper.start()
            for broker in brokers:
                headrace("zookeeper", "rebuild", "--data", str(broker.data), tree)
            headrace("zookeeper", "import", "--zookeeper", chroot, tree)
            for broker in brokers:
                assert broker.stop() == 0
                broker.start()
                for one in sending.values():
                    one.goes_on()
            for topic, one in sending.items():
                sent = one.stop()
                assert values_in(both, topic) == sent
            assert "987654321" in headrace("topic", "describe", "clicks", "--bootstrap", both)
            assert "retention.ms" in headrace("topic", "describe", "later", "--bootstrap", both)
            assert committed(both) == [1, 2, 3, 4]
    finally:
        for broker in brokers:
            broker.kill()


def test_registry_audit_and_mirror_go_on_when_both_trees_were_lost_and_imported(tmp_path: Path) -> None:
    trees = {name: str(tmp_path / f"{name}.json") for name in ("live", "offline")}
    with ZooKeeperEnsemble(tmp_path / "zookeeper") as ensemble:
        chroots = {name: f"{ensemble.address}/{name}" for name in trees}
        with Datacenters(tmp_path, ensemble.address, registry=["--zookeeper", chroots["live"]]) as site:
            live, offline = site.bootstrap, site.offline.address
            for topic in ("clicks", "orders"):
                make_topic(live, topic)
            where = {"bootstrap": live, "registry_url": site.registry.url}
            application = Application(tmp_path, "shop", this_tree(), **where)
            try:
                sending = Sending(live, "clicks")
                sending.goes_on()
                ids = [_registered(site, "before")]
                for again in range(2):
                    assert site.registry.process.stop() == 0
                    site.registry.start()
                    ids.append(_registered(site, f"before{again}"))
                for name, tree in trees.items():
                    headrace("zookeeper", "export", "--zookeeper", chroots[name], tree)
                ensemble.lose_all_disks()
                sending.goes_on()
                ensemble.restart(ensemble.kill_leader())
                for broker in (*site.live, site.offline):
                    eventually(lambda log=broker: FORGOTTEN in log.log, within_ms=60_000, what=f"told by {broker.log[-2000:]}")
                sending.goes_on()
                for name, tree in trees.items():
                    headrace("zookeeper", "import", "--zookeeper", chroots[name], tree)
                # Step 4: brokers, registry and mirror; the audit service has nothing in ZooKeeper.
                for one in (*site.live, site.offline, site.registry, site.mirror):
                    assert one.process.stop() == 0, one.process.output()[-3000:]
                    one.start()
                    sending.goes_on()
                ids.append(_registered(site, "after"))
                assert len(set(ids)) == len(ids)
                logged = {"shop": application.stop()}
                sent = sending.stop()
                assert values_in(live, "clicks") == sent
                assert has_each_once_in_order(orders(live), logged)
                eventually(lambda: values_in(offline, "clicks") == sent, within_ms=60_000, what="the copy goes on")
                eventually(lambda: orders(offline) == orders(live), within_ms=60_000, what="the other copy, too")
                headrace("mirror", "verify", "--from", live, "--to", offline)
                site.all_complete()
            finally:
                application.process.kill()


def _registered(site: Datacenters, name: str) -> int:
    """Register a schema as soon as a registry leads."""

    def found() -> int | None:
        status, said = site.registry.register(name, {"type": "record", "name": f"R_{name}", "fields": []})
        return int(said["id"]) if status == 200 else None

    return eventually(found, within_ms=60_000, what=f"a registry that writes; {site.registry.process.output()[-2000:]}") or 0


def _starts(broker: BrokerProcess) -> bool:
    """Start it until the session of the dead one is over, as its unit does."""
    if not broker.process.is_running():
        broker.launch()
    return broker.is_ready()
