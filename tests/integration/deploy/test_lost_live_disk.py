"""docs/OPERATIONS.md, "A lost disk of the live cluster", as a whole: the disk held events, the schemas and the audit's topics.

What was sent is known by the numbers in the values, what is there is read by confluent-kafka. The audit service runs all along.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from headrace.audit.model.windows import WINDOW_MS
from headrace.runtime.layout import SCHEMAS_TOPIC
from headrace.sdk.journal import journal_folders
from tests.support.agent import AgentProcess
from tests.support.mirror import MirrorProcess
from tests.support.processes import eventually, free_port
from tests.support.registry import RegistryProcess

from . import scraped
from .applications import Application, event_of
from .datacenters import Datacenters, lose_disk
from .test_runbooks import PARTITIONS, headrace, make_topic
from .versions import this_tree

pytestmark = pytest.mark.whole

Records = list[list[tuple[int, bytes]]]
"""Of each partition (offset, value), in the log's order."""


def records_in(address: str, topic: str, group: str | None = None) -> Records:
    """Return what a topic holds; with `group` from where this group has committed."""
    known = {"bootstrap.servers": address, "group.id": group or "none", "enable.partition.eof": True, "log_level": 0}
    consumer = Consumer({**known, "enable.auto.commit": False, "auto.offset.reset": "error"})
    places = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
    consumer.assign(places if group is None else consumer.committed(places, timeout=30))
    found: Records = [[] for _ in places]
    open_ends = set(range(PARTITIONS))

    def all_ended() -> bool:
        for one in consumer.consume(1_000, timeout=0.2):
            error, partition = one.error(), one.partition() or 0
            if error is None:
                found[partition].append((one.offset() or 0, one.value() or b""))  # type: ignore[arg-type]
            elif error.code() == KafkaError._PARTITION_EOF:
                open_ends.discard(partition)
            else:
                raise RuntimeError(str(error))
        return not open_ends

    eventually(all_ended, within_ms=60_000, what=f"the end of {topic}")
    consumer.close()
    return found


def send(address: str, mark: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0})
    for number in range(count):
        producer.produce("clicks", f"{mark} {number:06d}".encode(), partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def commit_all(address: str) -> None:
    """Have the group `readers` read everything and commit it."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "readers", "enable.auto.commit": False, "log_level": 0})
    ends = [(one, consumer.get_watermark_offsets(TopicPartition("clicks", one), timeout=30)) for one in range(PARTITIONS)]
    consumer.commit(offsets=[TopicPartition("clicks", one, end) for one, (_, end) in ends], asynchronous=False)
    consumer.close()


class Site:
    """The datacenters, the registry beside the offline cluster, and an agent."""

    def __init__(self, folder: Path, chroot: str) -> None:
        self.folder = folder
        self.both = Datacenters(folder, chroot)
        self.live, self.offline = self.both.live[0], self.both.offline
        self.beside = RegistryProcess(folder / "beside", self.offline.address, SCHEMAS_TOPIC, "--read-only")
        self.agent = AgentProcess(folder / "agent", self.both.side, topics=["orders"])

    def __enter__(self) -> "Site":
        self.both.__enter__()
        self.beside.start()
        self.agent.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.agent.process.kill()
        self.beside.process.kill()
        self.both.__exit__()

    def log(self, name: str, hours_ago: int) -> tuple[int, int]:
        """Have an application log events; return their window and how many, once it has closed."""
        before = sum(map(len, records_in(self.live.address, "orders")))
        where = {"bootstrap": self.live.address, "registry_url": self.both.registry.url}
        one = Application(self.folder, name, this_tree(), hours_ago=hours_ago, **where)
        try:
            eventually(lambda: self._count(one) > before + 50, within_ms=60_000, what="events")
            return one.event_time_ms // WINDOW_MS * WINDOW_MS, one.stop()
        finally:
            one.process.kill()

    def _count(self, one: Application) -> int:
        if not one.process.is_running():
            raise RuntimeError(one.process.output()[-3000:])
        return sum(map(len, records_in(self.live.address, "orders")))

    def journal(self, name: str, hours_ago: int) -> int:
        """Have an application log into a journal, whatever runs; return the window."""
        one = Application(self.folder, name, this_tree(), hours_ago=hours_ago, journal=str(self.agent.journals))
        try:
            eventually(lambda: journal_folders(self.agent.journals), what="a journal")
            assert one.stop() > 0
            return one.event_time_ms // WINDOW_MS * WINDOW_MS
        finally:
            one.process.kill()

    def window(self, start_ms: int) -> dict[str, Any]:
        return self.both.audit.windows("orders").get(start_ms, {"verdict": "not there"})

    def becomes(self, start_ms: int, verdict: str) -> None:
        eventually(
            lambda: self.window(start_ms)["verdict"] == verdict, within_ms=90_000, what=f"{verdict}: {self.window(start_ms)}"
        )

    def figures(self) -> dict[int, tuple[str, int, Any]]:
        windows = self.both.audit.windows("orders").items()
        return {start: (one["verdict"], one["missing"], one["tiers"]) for start, one in windows}

    def mirror_flag(self, topic: str, word: str) -> None:
        headrace("topic", "config", topic, "--bootstrap", self.live.address, "--set", f"headrace.mirror={word}")

    def fill_live_again(self) -> None:
        """Steps 3 to 5 of the runbook."""
        topics = ("clicks", "orders", SCHEMAS_TOPIC)
        for topic in topics:
            self.mirror_flag(topic, "true")
        port = free_port()
        live = self.live.address
        back = MirrorProcess(self.folder / "back", self.offline.address, self.live, live, "--metrics-port", str(port))
        try:
            back.start()
            between = ["--from", self.offline.address, "--to", self.live.address, "--settle-ms", "60000"]
            headrace("mirror", "verify", *between)
            eventually(lambda: scraped.page(port).sum("headrace_mirror_all_lag_bytes") == 0, what="nothing left to copy")
            assert back.process.stop() == 0
        finally:
            back.process.kill()
        for topic in topics:
            self.mirror_flag(topic, "false")


@pytest.mark.situation(
    "live log",
    "the live disk is lost with the audit topic, and filled again from offline",
    shown="INCOMPLETE, missing n at live, for what was not copied; the rest COMPLETE; `reports_lost`",
    when="once live is filled again",
    do="`docs/OPERATIONS.md`",
)
def test_a_live_disk_with_the_platforms_own_topics_is_lost_and_what_the_mirror_had_is_there_again(
    zookeeper_chroot: str, tmp_path: Path
) -> None:
    with Site(tmp_path, zookeeper_chroot) as site:
        both, live, offline = site.both, site.live.address, site.offline.address
        for topic in ("clicks", "orders"):
            make_topic(live, topic)
        send(live, "copied", 400)
        copied_at, _ = site.log("copied", 1)
        site.becomes(copied_at, "COMPLETE")
        eventually(lambda: records_in(offline, "clicks") == records_in(live, "clicks"), what="the copy")
        # From here on nothing is copied any more.
        assert both.mirror.process.stop() == 0
        kept = {topic: records_in(offline, topic) for topic in ("clicks", "orders")}
        lost_at, lost = site.log("lost", 3)
        send(live, "lost", 100)
        commit_all(live)
        eventually(lambda: site.window(lost_at).get("tiers", {}).get("producer") == lost, what="the reports of what is lost")
        status, late = both.registry.register("late", {"type": "record", "name": "Late", "fields": []})
        assert status == 200
        ids = schemas(both.registry)
        assert late["id"] in ids
        # Step 1: what the registry still knows; whoever writes is stopped.
        schema_file = str(tmp_path / "schemas.json")
        headrace("schema", "export", schema_file, "--registry", both.registry.url)
        assert (site.agent.process.stop(), both.registry.process.stop()) == (0, 0)
        # Steps 2 to 5.
        lose_disk(site.live)
        kept_at = site.journal("kept", 7)
        site.fill_live_again()
        assert {topic: records_in(live, topic) for topic in kept} == kept
        both.registry.start()
        headrace("schema", "import", schema_file, "--registry", both.registry.url)
        assert schemas(both.registry) == ids
        headrace("group", "reset", "readers", "--bootstrap", live, "--shift-by", "0", "--execute")
        both.mirror.start()
        site.agent.start()
        # Everything continues.
        send(live, "after", 200)
        after_at, _ = site.log("after", 5)
        read = [value for partition in records_in(live, "clicks", "readers") for _, value in partition]
        assert sorted(read) == [f"after {number:06d}".encode() for number in range(200)]
        status, fresh = both.registry.register("fresh", {"type": "record", "name": "Fresh", "fields": []})
        assert (status, fresh["id"] > max(ids)) == (200, True)
        eventually(lambda: records_in(offline, "orders") == records_in(live, "orders"), within_ms=60_000, what="the copy goes on")
        eventually(lambda: records_in(offline, "clicks") == records_in(live, "clicks"), within_ms=60_000, what="the other copy")
        headrace("mirror", "verify", "--from", live, "--to", offline)
        eventually(lambda: schemas(site.beside) == schemas(both.registry), what="the schemas beside the offline cluster")
        names = {event_of(value)[0] for partition in records_in(live, "orders") for _, value in partition}
        assert names == {"copied", "kept", "after"}
        # What is lost is told, with its number and the tier; the rest has its verdict, and continues having one.
        site.becomes(lost_at, "INCOMPLETE")
        window = site.window(lost_at)
        assert (window["missing"], window["first_bad_tier"]) == (lost, "live")
        site.becomes(copied_at, "COMPLETE")
        site.becomes(after_at, "COMPLETE")
        site.becomes(kept_at, "COMPLETE")
        # Its checkpoints are whole again, too.
        before = site.figures()
        assert both.audit.process.stop() == 0
        both.audit.lose_store()
        both.audit.start()
        eventually(lambda: site.figures() == before, within_ms=60_000, what=f"{before} from the checkpoints")
        assert "store_rebuilt" in both.audit.process.output()
        assert both.audit.get("/api/hearing")["reports_lost"] == 1
        assert json.loads(headrace("audit", "report", "--topic", "orders", "--json", "--url", both.audit.url))


def schemas(registry: RegistryProcess) -> dict[int, Any]:
    """Return every id that a registry gives a meaning, with the meaning."""
    found = {}
    for subject in registry.ask("GET", "/subjects")[1]:
        for version in registry.ask("GET", f"/subjects/{subject}/versions")[1]:
            one = registry.ask("GET", f"/subjects/{subject}/versions/{version}")[1]
            found[one["id"]] = (subject, version, registry.ask("GET", f"/schemas/ids/{one['id']}")[1]["schema"])
    return found
