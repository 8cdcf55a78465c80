"""docs/OPERATIONS.md, "An upgrade, and back", over the version that brought replication: topics of one replica are kept, get
three, and have one again before the older version takes over.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.cluster import BrokerCluster
from tests.support.processes import eventually

from .test_runbooks import PARTITIONS, Sending, headrace, values_in
from .test_upgrade import Group
from .versions import FROM, Version, before_replication, older, this_tree

pytestmark = [pytest.mark.whole, pytest.mark.needs("git history")]

TOPICS = ("clicks", "orders")
EACH = {number: [1 + number % 3] for number in range(PARTITIONS)}
"""Partition → its only broker."""


class Site:
    """Three live brokers under load."""

    def __init__(self, folder: Path, chroot: str) -> None:
        self._folder = folder
        self.cluster = BrokerCluster(folder, chroot)
        self.sending: dict[str, Sending] = {}
        """By topic."""

    def await_load(self) -> None:
        """Return once records of every topic are acknowledged again."""
        for sending in self.sending.values():
            sending.goes_on()

    def change_to(self, version: Version) -> None:
        """Restart the brokers one by one under this version."""
        for broker in self.cluster.brokers.values():
            self.await_load()
            assert broker.stop() == 0, broker.log[-3000:]
            broker.process.use(version.environment)
            broker.start(60_000)
        self.await_load()

    def reassign(self, replicas: Mapping[int, list[int]]) -> None:
        """Give each partition of every topic these replicas, as an operator would, and return when it has them."""
        rows = [{"topic": topic, "partition": number, "replicas": ids} for topic in TOPICS for number, ids in replicas.items()]
        file = self._folder / "moves.json"
        file.write_text(json.dumps({"version": 1, "partitions": rows}))
        headrace("partition", "reassign", "--bootstrap", self.cluster.address, "--file", str(file))
        for topic in TOPICS:
            eventually(lambda topic=topic: self._are(topic, replicas), within_ms=60_000, what=f"{topic} on {replicas}")  # type: ignore[misc]

    def kill_a_leader(self) -> None:
        """Kill a broker; the load continues without it, and it comes back."""
        self.await_load()
        killed = self.cluster.kill_leader("orders")
        self.await_load()
        self.cluster.brokers[killed].start(60_000)
        for topic in TOPICS:
            self.cluster.await_in_sync(topic, 3, within_ms=60_000)

    def _are(self, topic: str, replicas: Mapping[int, list[int]]) -> bool:
        places = {one.partition: one for one in self.cluster.places(topic)}
        return all(
            sorted(places[number].in_sync_replicas) == sorted(ids) and places[number].leader in ids
            for number, ids in replicas.items()
        )


def test_topics_get_replicas_after_the_upgrade_and_one_again_before_the_way_back(zookeeper_chroot: str, tmp_path: Path) -> None:
    before, after = older(tmp_path / "older", os.environ.get(FROM) or before_replication()), this_tree()
    print(f"upgraded from {before.says()}; to {after.says()}; and back")
    site = Site(tmp_path, zookeeper_chroot)
    for broker in site.cluster.brokers.values():
        broker.process.use(before.environment)
    three = {number: [*ids, *({1, 2, 3} - set(ids))] for number, ids in EACH.items()}
    with site.cluster as cluster:
        cluster.create("clicks", PARTITIONS, replicas=1)
        site.sending["clicks"] = Sending(cluster.address, "clicks")
        group = Group(cluster.address, "clicks")
        site.change_to(after)
        cluster.create("orders", PARTITIONS)
        site.sending["orders"] = Sending(cluster.address, "orders")
        for is_last in (False, True):
            site.reassign(three)
            site.kill_a_leader()
            if not is_last:
                site.reassign(EACH)
                site.change_to(before)
                site.change_to(after)
        sent = {topic: sending.stop() for topic, sending in site.sending.items()}
        everything = {value for partition in sent["clicks"] for value in partition}
        eventually(lambda: everything <= group.seen, within_ms=60_000, what="the group has read everything")
        group.stop()
        assert {topic: values_in(cluster.address, topic) for topic in TOPICS} == sent
