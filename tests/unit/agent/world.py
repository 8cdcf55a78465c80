"""A live cluster in this process, an agent's state, and the audit's own model of what the agent told."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.agent.settings import AgentSettings
from headrace.agent.shipping.shipper import Shipper
from headrace.audit.model.build_facts import topic_facts, window_facts
from headrace.audit.model.codec import decode
from headrace.audit.model.facts import Verdict
from headrace.audit.model.messages import ProducerReport, Retirement
from headrace.audit.model.tier_reports import LogKey, TierReports
from headrace.audit.model.tiers import LIVE, PRODUCER, TierRule
from headrace.audit.model.verdict import decide
from headrace.audit.model.windows import WINDOW_MS
from headrace.audit.service.ingest.read_batches import ReadBatches
from headrace.client.connection.cluster import Cluster
from headrace.client.errors import UnknownTopic
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.fetcher import Fetcher
from headrace.client.fetch.log_offsets import LATEST, log_offsets
from headrace.client.fetch.read_range import read_range
from headrace.runtime.layout import AUDIT_TOPIC
from headrace.schema_registry.client import RegistryClient
from headrace.schema_registry.errors import RegistryError
from headrace.wire.batch.record_batch import iter_records
from headrace.wire.schema_id import unframe
from tests.support.audit_world.memory_journal import MemoryJournal
from tests.support.serving_broker import ServingBroker

from .sources import MemoryGroup

START_MS = 1_800_000_000_000 - 1_800_000_000_000 % WINDOW_MS
DEADLINE_MS = 20_000
RULES = (
    TierRule(name=PRODUCER, before=None, deadline_ms=DEADLINE_MS),
    TierRule(name=LIVE, before=PRODUCER, deadline_ms=DEADLINE_MS),
)


class Crashed(BaseException):
    """The agent was killed here."""


class JumpingClock:
    """The machine's clock from `START_MS` on, and what was jumped over."""

    def __init__(self) -> None:
        self._began = time.monotonic_ns() // 1_000_000
        self._jumped_ms = 0

    def now_ms(self) -> int:
        return START_MS + self.monotonic_ms() - self._began

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000 + self._jumped_ms

    def jump(self, by_ms: int) -> None:
        self._jumped_ms += by_ms


class PlayedRegistry(RegistryClient):
    """Gives every schema the id 7."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1")
        self.refuses: dict[str, RegistryError] = {}

    def register(self, subject: str, schema: object, references: object = ()) -> int:
        if subject in self.refuses:
            raise self.refuses[subject]
        return 7


class World:
    """One live cluster, one agent's folder and sources; agents come and go."""

    def __init__(self, folder: Path, broker: ServingBroker) -> None:
        self.folder = folder
        self.broker = broker
        self.clock = JumpingClock()
        self.registry = PlayedRegistry()
        self.group = MemoryGroup()
        self.settings = AgentSettings(
            name="one",
            host="host",
            state=str(folder / "state"),
            brokers=f"127.0.0.1:{broker.port}",
            scan_every_ms=20,
            stop_ms=2_000,
        )

    def agent(self, step: Callable[[str], None] = lambda name: None) -> Shipper:
        shipper = Shipper(self.settings, [self.group], self.registry, self.clock, step=step)
        shipper.start()
        return shipper

    @contextmanager
    def running(self, step: Callable[[str], None] = lambda name: None) -> Iterator[Shipper]:
        """An agent that is closed as a kill would close it: with nothing more committed."""
        shipper = self.agent(step)
        try:
            yield shipper
        finally:
            shipper.close()

    def work(self, shipper: Shipper, until: Callable[[], bool], what: str, within_s: float = 60) -> None:
        """Take turns until `until`."""
        deadline = time.monotonic() + within_s
        while not until():
            assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
            shipper.turn()

    def ship_all(self, shipper: Shipper) -> None:
        """Take turns until everything that is in the sources is settled and released, and reported."""

        def is_shipped() -> bool:
            return (
                all(one.released == len(one.items) for one in self.group.sources)
                and not shipper.delivery.planned.count
                and not shipper.audit_reports.has_due(is_last=True)
                and not shipper.audit_reports.reports_under_way
            )

        self.work(shipper, is_shipped, "everything shipped")

    # -- what the cluster holds ------------------------------------------------------------------------------------------

    def read(self, topic: str, *, partition: int | None = None) -> list[tuple[int, bytes]]:
        """Return (timestamp, value) of every record of the topic, partition by partition; or of one."""
        cluster = Cluster(self.settings.brokers)
        found: list[tuple[int, bytes]] = []
        try:
            partitions = cluster.partitions(topic) if partition is None else [partition]
            ends = log_offsets(cluster, {TopicPartition(topic, one): LATEST for one in partitions})
            for (_, one_of_them), end in ends.items():
                for _, batch in read_range(cluster, topic, one_of_them, 0, end):
                    found += [(one.timestamp_ms, bytes(one.value or b"")) for one in iter_records(batch)]
        except UnknownTopic:
            pass
        finally:
            cluster.close()
        return found

    def numbers(self, topic: str = "clicks") -> Counter[int]:
        """Return how often each number is in the topic."""
        return Counter(int(bytes(unframe(value)[1])) for _, value in self.read(topic))

    def reports(self) -> list[ProducerReport]:
        reports = [decode(value) for _, value in self.read(AUDIT_TOPIC)]
        return [one for one in reports if isinstance(one, ProducerReport)]

    def verdicts(self, topic: str = "clicks", *, silent_ms: int = 0) -> dict[int, Verdict]:
        """Return the audit's word on every window that anybody spoke of. `silent_ms`: so long ago the last report came."""
        books, journal = TierReports(), MemoryJournal(WINDOW_MS)
        now_ms = 1_000_000
        for _, value in self.read(AUDIT_TOPIC):
            match decode(value):
                case ProducerReport() as report:
                    books.take_producer(report, now_ms, journal, is_audited=lambda name: True)
                case Retirement() as retirement:
                    books.take_retirement(retirement, now_ms, journal)
        now_ms += 10
        cluster = Cluster(self.settings.brokers)
        try:
            for partition in cluster.partitions(topic):
                self._read_live(cluster, books, journal, topic, partition, now_ms)
        finally:
            cluster.close()
        heard_ms = now_ms + 10 + silent_ms
        facts = topic_facts(books, topic, rules=RULES, heard_all_ms=heard_ms, listening_since_ms=0)
        return {
            start: decide(facts, window_facts(books, topic, start), now_ms=heard_ms) for start in list(books.book(topic).windows)
        }

    def _read_live(
        self, cluster: Cluster, books: TierReports, journal: MemoryJournal, topic: str, partition: int, now_ms: int
    ) -> None:
        reader, fetcher, offset = ReadBatches(LIVE, WINDOW_MS), Fetcher(cluster, max_wait_ms=1), 0
        try:
            while True:
                fetched = fetcher.fetch({TopicPartition(topic, partition): offset})[0]
                if fetched.error is not None:
                    continue
                books.take_read(LIVE, reader.of(fetched).found, now_ms, journal)
                if fetched.next_offset >= fetched.high_watermark:
                    books.caught_up(LogKey(LIVE, topic, partition), now_ms)
                    return
                offset = fetched.next_offset
        finally:
            fetcher.close()
