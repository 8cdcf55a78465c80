"""The load of all topics: one command, one Spark application, and a commit for each topic.

    look            the logs' ends against the tables' offsets, without a JVM; where nothing is new, that is all
    batches         bounded and fair (`fair_batches`): a Spark job reads the splits of many topics, small ones share its tasks
    commits         topic by topic, each as the load of this one topic would: the same rows, records, digests and proofs

A failing topic does not stop the others; it is reported by name at the end. A process that dies in between leaves topics that
are loaded and topics that are not, never half of one: the next run loads the others, and deletes what the dead one had written.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from ...client.connection.cluster import Cluster
from ...client.errors import BrokerUnreachable, ClientError
from ...client.security.chosen import named_for
from ...errors import HeadraceError
from ...runtime import logs
from ...schema_registry.errors import RegistryUnavailable
from ..errors import LoadSuperseded, NotTried, SparkFailed
from ..lineage.datasets import TopicDataset
from ..lineage.runs import ObservedRun, observed_run
from ..load.reading import Reading, Written
from ..load.row_writer import RowWriter
from ..load.settings import LoadSettings
from ..load.staging import machine_scratch
from ..load.topic_load import LoadOutcome, TopicLoad, dataset_of, ranges_to_load
from ..source.log_ends import LogEnds, check_still_there, ends_of_topics
from ..warehouse.warehouse import Warehouse
from .fair_batches import BATCH_BYTES, BATCH_TOPICS, TOPIC_BYTES, FairBatches, NewRecords
from .look import look

log = logs.get_logger(__name__)

ROUNDS = 3
"""How often a topic is begun again because another load of it committed first."""
COMMON = (BrokerUnreachable, RegistryUnavailable, SparkFailed)
"""Faults that every topic would have."""


@dataclass(slots=True, kw_only=True)
class AllTopicsOutcome:
    """The result of one run."""

    topic_count: int
    """How many topics were checked."""
    loads: list[LoadOutcome] = field(default_factory=list)
    """The commits, in their order; several of a topic with much."""
    faults: dict[str, Exception] = field(default_factory=dict)
    """Topic → why it, or the rest of it, was not loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """What bounds one Spark job."""

    topics: int = BATCH_TOPICS
    total_bytes: int = BATCH_BYTES
    topic_bytes: int = TOPIC_BYTES


class _One:
    """One topic of a batch, from its folder to its commit."""

    def __init__(self, load: TopicLoad, density: int, observed: ObservedRun, opened: ExitStack) -> None:
        self.load = load
        self.topic = load.settings.topic
        self.density = density
        self.observed = observed
        self._opened = opened

    def end(self, error: BaseException | None = None) -> None:
        """Close the folder, and tell lineage how it ended."""
        self._opened.__exit__(None if error is None else type(error), error, None)


class AllTopicsJob:
    """One run over topics; `run` may be called once."""

    def __init__(self, settings: LoadSettings, *, limits: BatchLimits | None = None) -> None:
        """`settings`: of no topic in particular (`ALL_TOPICS`)."""
        self._settings = settings
        self._limits = limits or BatchLimits()
        self._warehouse = Warehouse(settings.warehouse)
        self._superseded: dict[str, int] = {}

    def run(self, topics: Sequence[str]) -> AllTopicsOutcome:
        """Load what is new of these topics. Raises BrokerUnreachable, if the cluster does not answer: nothing was loaded then."""
        outcome = AllTopicsOutcome(topic_count=len(topics))
        cluster = self._cluster()
        try:
            found = look(cluster, self._warehouse, topics)
        finally:
            cluster.close()
        log.info("topics_looked_at", topics=len(topics), new=len(found.news), faults=len(found.faults))
        outcome.faults.update(found.faults)
        if found.news:
            with self._writer() as writer:
                self._load(list(found.news), writer, outcome)
        return outcome

    @contextmanager
    def _writer(self) -> Iterator[RowWriter]:
        with machine_scratch("all") as scratch:
            writer = RowWriter(self._settings, scratch=scratch)
            try:
                yield writer
            finally:
                writer.close()

    def _load(self, news: list[NewRecords], writer: RowWriter, outcome: AllTopicsOutcome) -> None:
        limits = self._limits
        batches = FairBatches(news, batch_topics=limits.topics, batch_bytes=limits.total_bytes, topic_bytes=limits.topic_bytes)
        while batch := batches.next_batch():
            log.info("batch_began", topics=len(batch), bytes=sum(one.size_bytes for one in batch))
            faults: list[Exception] = []
            for portion, result in self._load_batch(batch, writer):
                if isinstance(result, LoadOutcome):
                    outcome.loads += [result] if result.run is not None else []
                elif result is None:
                    self._again(portion, batches, outcome)
                else:
                    log.warning("topic_not_loaded", topic=portion.topic, reason=words_of(result))
                    batches.drop(portion.topic)
                    outcome.faults[portion.topic] = result
                    faults.append(result)
            if len(batch) > 1 and len(faults) == len(batch) and _is_common(faults):
                # The registry is away, or Spark cannot start: each further batch would wait for the same.
                for topic in batches.topics():
                    outcome.faults[topic] = NotTried(topic, words_of(faults[0]))
                return

    def _again(self, portion: NewRecords, batches: FairBatches, outcome: AllTopicsOutcome) -> None:
        """Have a topic come again, of which another load committed first; the look of its next batch tells what is left."""
        topic = portion.topic
        self._superseded[topic] = self._superseded.get(topic, 0) + 1
        if self._superseded[topic] < ROUNDS:
            log.info("load_superseded", topic=topic)
            batches.put_back(portion)
        else:
            batches.drop(topic)
            outcome.faults[topic] = LoadSuperseded(topic, ROUNDS)

    def _load_batch(
        self, batch: Sequence[NewRecords], writer: RowWriter
    ) -> Iterator[tuple[NewRecords, LoadOutcome | Exception | None]]:
        """Yield what became of each topic: loaded, at fault, or None, if another load was first or has loaded all of it."""
        began: dict[str, _One] = {}
        results: dict[str, LoadOutcome | Exception] = {}
        portions = {one.topic: one for one in batch}
        cluster = self._cluster()
        try:
            ends = _ends(cluster, list(portions))
            for topic, portion in portions.items():
                try:
                    one = self._begin(portion, ends[topic])
                except Exception as error:  # this topic's table, folder or log
                    yield portion, error
                    continue
                if one is None:
                    yield portion, LoadOutcome(topic=topic)
                else:
                    began[topic] = one
            written = self._write(began, writer, results)
            ends = _ends(cluster, list(began))
            for topic, one in list(began.items()):
                result = results.get(topic) or self._commit(one, written[topic], ends[topic])
                del began[topic]
                one.end(result if isinstance(result, Exception) else None)
                yield portions[topic], result
        except BaseException as error:
            for one in began.values():
                one.end(error)
            raise
        finally:
            cluster.close()

    def _begin(self, portion: NewRecords, ends: LogEnds | Exception) -> _One | None:
        """Return the begun load of what the table lacks, up to the portion's ends; None: it has all of that."""
        if isinstance(ends, Exception):
            raise ends
        topic = portion.topic
        settings = replace(self._settings, topic=topic)
        table = self._warehouse.table(topic)
        loaded = table.offsets() if table is not None else {}
        # The start is read from the table again, not from the portion: offsets that no commit has are never skipped.
        to = {
            one.partition: max(one.to_offset, loaded.get(one.partition, 0), ends.start.get(one.partition, 0))
            for one in portion.ranges
        }
        ranges = ranges_to_load(topic, loaded=loaded, log_start=ends.start, log_end=to)
        if not ranges:
            return None
        check_still_there(topic, ranges, ends)
        with ExitStack() as opened:
            read = TopicDataset(bootstrap=settings.bootstrap, topic=topic)
            observed = opened.enter_context(observed_run("load", topic, inputs=[read]))
            load = opened.enter_context(TopicLoad(settings, self._warehouse, table, ranges=ranges, loaded=loaded))
            return _One(load, portion.bytes_per_offset, observed, opened.pop_all())

    def _write(
        self, began: dict[str, _One], writer: RowWriter, results: dict[str, LoadOutcome | Exception]
    ) -> dict[str, Written]:
        """Return what was written, by topic; faults are put into `results`."""
        readings = []
        for topic, one in began.items():
            load = one.load
            try:
                readings.append(Reading(load.settings, load.columns, load.ranges, load.path, density=one.density))
            except Exception as error:  # this topic's schemas
                results[topic] = error
        found: dict[str, Written] = {}
        for topic, written in writer.write_all(readings).items():
            if isinstance(written, Written):
                found[topic] = written
            else:
                results[topic] = written
        return found

    def _commit(self, one: _One, written: Written, ends: LogEnds | Exception) -> LoadOutcome | Exception | None:
        try:
            if isinstance(ends, Exception):
                raise ends
            check_still_there(one.topic, one.load.ranges, ends)
            one.load.checks = written.checks
            outcome = one.load.commit(written.columns, written.files, written.total)
        except Exception as error:  # a table that cannot be changed so, a commit that is refused
            return error
        if outcome is not None:
            one.observed.wrote(partial(dataset_of, outcome, self._warehouse))
        return outcome

    def _cluster(self) -> Cluster:
        bootstrap = self._settings.bootstrap
        return Cluster(bootstrap, client_id="headrace-load", security=named_for(bootstrap, None))


def _ends(cluster: Cluster, topics: Sequence[str]) -> dict[str, LogEnds | ClientError]:
    """Return the logs' ends; if the cluster does not answer any more, that is every topic's fault."""
    try:
        return ends_of_topics(cluster, topics)
    except ClientError as error:
        return dict.fromkeys(topics, error)


def _is_common(faults: Sequence[Exception]) -> bool:
    """Return whether the faults are one that is not the topics' own."""
    return isinstance(faults[0], COMMON) and all(type(one) is type(faults[0]) for one in faults)


def words_of(error: Exception) -> str:
    """Return a fault in words."""
    return str(error) if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
