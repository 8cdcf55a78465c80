"""docs/OPERATIONS.md, "An upgrade, and back", between two real versions: an older commit's code, and this tree's.

Everything is started from the older code, upgraded process by process under load, and taken back. Applications of both versions
log all the while. What was sent is known by the numbers in the values; what is there is read by confluent-kafka and fastavro.
"""

import os
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.support.agent import AgentProcess
from tests.support.processes import Process, eventually

from .applications import Application, has_each_once_in_order, orders
from .datacenters import Datacenters
from .test_runbooks import Sending, headrace, make_topic, values_in
from .versions import FROM, older, this_tree

SINK = "sink:sink-files-orders"
UPGRADED = 2
"""Schemas there are once everything is upgraded."""

pytestmark = [pytest.mark.whole, pytest.mark.needs("git history")]


class Group:
    """A consumer group of librdkafka that reads a topic and commits, over everything that happens to the brokers."""

    def __init__(self, address: str, topic: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": address, "group.id": "readers", "auto.offset.reset": "earliest", "log_level": 0}
            | {"auto.commit.interval.ms": 500}
        )
        self._consumer.subscribe([topic])
        self.seen: set[bytes | None] = set()
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            self.seen |= {one.value() for one in self._consumer.consume(1_000, timeout=0.2) if one.error() is None}  # type: ignore[misc]
        self._consumer.close()

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join(60)


def test_everything_is_upgraded_and_taken_back_one_by_one_under_load_and_nothing_is_lost(
    zookeeper_chroot: str, tmp_path: Path
) -> None:
    before, after = older(tmp_path / "older", os.environ.get(FROM, "")), this_tree()
    print(f"upgraded from {before.says()}; to {after.says()}; and back")
    site = Datacenters(tmp_path, zookeeper_chroot, live_brokers=2)
    agent = AgentProcess(tmp_path / "agent", site.side, topics=["orders"])
    for one in (*site.processes(), agent):
        one.process.use(before.environment)
    applications: list[Application] = []
    sink = sink_of(site)
    try:
        with site:
            for topic in ("clicks", "orders"):
                make_topic(site.bootstrap, topic)
            agent.start()
            direct = {"bootstrap": site.bootstrap, "registry_url": site.registry.url}
            for age, version in (("old", before), ("new", after)):
                applications.append(Application(tmp_path, f"{age}-direct", version, **direct))
                applications.append(Application(tmp_path, f"{age}-journal", version, journal=str(agent.journals)))
            sending, group = Sending(site.bootstrap, "clicks"), Group(site.bootstrap, "clicks")
            ids = [registered(site, "made-before")]
            # The last time shows that this version reads what the older one has written into what is this one's.
            for version in (after, before, after):
                for one in (*site.processes(), agent):
                    sending.goes_on()
                    assert one.process.stop() == 0, one.process.output()[-3000:]
                    one.process.use(version.environment)
                    one.start()
                sending.goes_on()
                ids.append(registered(site, f"made-by-{version.name}-{len(ids)}"))
                assert [site.registry.ask("GET", f"/schemas/ids/{one}")[0] for one in ids] == [200] * len(ids)
                if version is after and sink.is_running() is False:
                    sink.start()
                    eventually(lambda: SINK in rows(site), within_ms=60_000, what=f"its row; {sink.output()[-2000:]}")
                if len(ids) == UPGRADED:
                    # What only this version has is stopped before the way back.
                    assert sink.stop() == 0, sink.output()[-3000:]
            logged = {one.name: one.stop() for one in applications}
            assert min(logged.values()) > 0
            sent = sending.stop()
            everything = {value for partition in sent for value in partition}
            eventually(lambda: everything <= group.seen, within_ms=60_000, what="the group has read everything")
            group.stop()
            assert values_in(site.bootstrap, "clicks") == sent
            eventually(lambda: has_each_once_in_order(orders(site.bootstrap), logged), within_ms=60_000, what="each event stored")
            eventually(lambda: values_in(site.offline.address, "clicks") == sent, within_ms=60_000, what="the copy")
            eventually(lambda: orders(site.offline.address) == orders(site.bootstrap), within_ms=60_000, what="the other copy")
            between = ["--from", site.live[0].address, "--to", site.offline.address, "--topics", "clicks,orders"]
            headrace("mirror", "verify", *between)
            site.all_complete()
            eventually(lambda: rows(site).get(SINK) == {"COMPLETE"}, within_ms=60_000, what=f"the sink's row; {rows(site)}")
    finally:
        for process in (sink, agent.process, *(one.process for one in applications)):
            process.kill()


def sink_of(site: Datacenters) -> Process:
    """Return a sink to files, as this tree has it; not started."""
    words = ["sink", "files", "--topic", "orders", "--folder", str(site.folder / "sink"), "--roll-ms", "500"]
    words += ["--bootstrap", site.bootstrap, "--registry", site.registry.url]
    return Process([sys.executable, "-m", "headrace.cli.main", *words], site.folder / "sink.log", this_tree().environment)


def rows(site: Datacenters) -> dict[str, set[str]]:
    """Return what is said of each sink in the windows of `orders`."""
    found: dict[str, set[str]] = {}
    for window in site.audit.windows("orders").values():
        for name, row in window.get("sinks", {}).items():
            found.setdefault(name, set()).add(row["verdict"])
    return found


def registered(site: Datacenters, name: str) -> int:
    subject = "".join(letter if letter.isalnum() else "-" for letter in name)
    fields = [{"name": "number", "type": "long"}]
    status, said = site.registry.register(subject, {"type": "record", "name": f"R{len(name)}", "fields": fields})
    assert status == 200, said
    return int(said["id"])
