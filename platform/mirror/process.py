"""The mirror's process: builds every part, starts them in order, stops them in reverse.

It has six threads. The forwarder's thread copies. The discovery's thread finds and makes topics. The reporter's thread reports to
the audit every second. One thread reads ends of the source. One reports again what an operator wishes (`restatement`). The main
thread decides whether the mirror makes no progress, writes the status file and waits for the stop. They share the range
reporter, and snapshots of the copies.
"""

import os
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..audit.model.tiers import MIRROR
from ..audit.publisher import RangeReporter, see_to_audit_topic
from ..client.connection.cluster import Cluster
from ..client.consumer.group_positions import GroupPositions
from ..client.fetch.fetched import TopicPartition
from ..client.producer.producer import Producer
from ..coordination.positions import AuditPositions
from ..coordination.restate_requests import RestateRequests
from ..coordination.session import Session
from ..errors import HeadraceError
from ..runtime.clock import SystemClock
from ..runtime.lifecycle import Lifecycle, StopSignal
from ..runtime.logs import get_logger
from ..runtime.monitoring.status_pages import PagesAddress, StatusPages
from ..runtime.status import StatusFile
from . import stall
from .control.orders_file import OrdersFile, orders_path
from .counting import Counting
from .engine import Engine, Mode, engine_of, mode_for
from .errors import MirrorError, SameCluster, ZookeeperNeeded
from .forwarder import Forwarder
from .forwarders import Pair, forwarder_of, schemas_copy_of
from .metrics import metrics
from .partition_copy import PartitionCopy
from .quarantine import CorruptRanges
from .restatement import Restatement
from .schemas.schemas_copy import SchemasCopy
from .schemas.schemas_first import SchemasFirst
from .source_ends import SourceEnds
from .stall import STALL_AFTER_MS, Progress
from .status_facts import Rows, facts, orders_facts
from .syncing.sync import Sync, SyncSettings
from .syncing.translation import ByLedger, SameOffsets
from .topics.naming import Naming

log = get_logger(__name__)

REPORT_EVERY_MS = 1_000
STATUS_EVERY_MS = 1_000
SAY_AGAIN_MS = 60_000
"""An audit that was restarted hears again of what is paused."""
IDLE_MS = 50
ENGINE_RETRY_MS = 500
"""Between attempts to learn what the clusters are, at the start."""
REQUEST_TIMEOUT_MS = 15_000
REPORT_TIMEOUT_MS = 10_000
LAST_REPORT_TIMEOUT_MS = 4_000
"""At the stop. The next mirror counts again what was not reported in time."""
LAST_TURN_MS = 3_000
"""How long a stop waits for the current turn before it closes the turn's connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings:
    """The settings of one mirror. Addresses are `host:port[,host:port…]`."""

    source: str
    destination: str
    destination_zookeeper: str | None
    """`host:port[,…][/chroot]`. It holds how far this tier has reported, and the destination's topics. Used for identical copies
    only: with Apache Kafka at either end a group's offsets in the destination say how far it has reported.
    """
    audit_bootstrap: str
    """The cluster with the audit's topic and the quarantine."""
    name: str = "mirror"
    """The name of the ledger and of the transactional id: two mirrors to one Kafka cluster need two names."""
    naming: Naming = field(default_factory=Naming)
    """Which topics are copied, and their names in the destination."""
    mirrors_schemas: bool = True
    """Copy the schema registry's topic too, and append no data before the schemas that it was written with."""
    sync: SyncSettings = field(default_factory=SyncSettings)
    """What is copied besides records."""
    replication_factor: int = -1
    """Of topics that are made in Apache Kafka; -1: as the cluster is set."""
    allows_retention: bool = False
    """Copy to topics of Apache Kafka from which retention by event time deletes."""
    transaction_timeout_ms: int = 60_000
    source_name: str = "live"
    """The source's name in quarantine records."""
    status_file: Path | None = None
    pages: PagesAddress = field(default_factory=PagesAddress)
    stall_after_ms: int = STALL_AFTER_MS
    """The mirror says that it makes no progress when a partition is behind its source, or stopped, and has not moved for this
    long; or when its reports have failed for this long.
    """


class Mirror:
    """One mirror. The constructor only stores."""

    def __init__(self, settings: MirrorSettings) -> None:
        if settings.source == settings.destination:
            raise SameCluster(settings.source)
        self._settings = settings
        self._clock = SystemClock()
        self._life = Lifecycle()
        self._status = StatusFile(settings.status_file, self._clock)
        self._forwarding_ends = StopSignal()
        self._reporting_ends = StopSignal()
        self._forwarder: Forwarder | None = None
        self._reporter: RangeReporter | None = None
        self._audit: Cluster | None = None
        self._source_ends: SourceEnds | None = None
        self._orders = OrdersFile(None if settings.status_file is None else orders_path(settings.status_file))
        self._schemas: SchemasCopy | None = None
        self._schemas_first: SchemasFirst | None = None
        self._sync: Sync | None = None
        self._progress = Progress()
        self._copies: Mapping[TopicPartition, PartitionCopy] = {}
        self._row_texts = Rows()
        self._rows = self._row_texts.prepared({}, {})
        self._seen: tuple[int, Mapping[TopicPartition, str]] | None = None
        """How often states had changed, and what was held back, when the partitions were last looked at."""
        self._stalled: str | None = None
        self._report_failure: tuple[int, str] | None = None
        """Since when reports have failed (wall clock, ms), and the last error."""
        self._died: BaseException | None = None
        self._knows_audit_topic = False
        self._said_paused: dict[TopicPartition, str] = {}
        """What the audit was told of paused partitions."""
        self._say_again_ms = 0
        self._mode: Mode | None = None

    def run(self, stop: StopSignal) -> None:
        """Mirror until `stop` is set. Raises the error that prevented the start, or that ended the forwarder's thread."""
        try:
            self._start(stop)
            while not stop.wait(STATUS_EVERY_MS if self._is_ready else IDLE_MS):
                self._write_status()
                if self._died is not None:
                    raise self._died
        finally:
            self._status.write("stopping")
            self._life.stop()

    def _start(self, stop: StopSignal) -> None:
        settings = self._settings
        self._status.write("starting")
        pages = StatusPages("mirror", settings.pages, self._status, self._clock, metrics)
        pages.start()
        self._life.started("metrics and health", pages.stop)
        source, target = self._connected(settings.source), self._connected(settings.destination)
        self._audit = Cluster(settings.audit_bootstrap, client_id="headrace-mirror-audit", request_timeout_ms=REQUEST_TIMEOUT_MS)
        self._life.started(f"connections to {settings.audit_bootstrap}", self._audit.close)
        engines = self._engines(source, target, stop)
        if engines is None:
            return
        self._mode = mode_for(*engines)
        session: Session | None = None
        if self._mode is Mode.IDENTICAL:
            if settings.destination_zookeeper is None:
                raise ZookeeperNeeded(settings.destination)
            session = Session(settings.destination_zookeeper, name="mirror")
            self._life.started("zookeeper", session.close)
            session.start()
        producer = Producer(self._audit, linger_ms=5, buffer_bytes=8 << 20, max_block_ms=5_000, delivery_timeout_ms=30_000)
        self._life.started("audit producer", lambda: producer.close(1_000))
        positions = (
            GroupPositions(target, f"headrace.{settings.name}", is_sole_writer=True)
            if session is None
            else AuditPositions(session)
        )
        self._reporter = RangeReporter(
            tier=MIRROR,
            instance=f"{socket.gethostname()}/mirror/{os.getpid()}",
            sender=producer,
            positions=positions,
            clock=self._clock,
        )
        quarantine = CorruptRanges(producer, self._clock, cluster=settings.source_name)
        pair = self._pair(source, target, engines, session, settings.name)
        counting = Counting(self._reporter, positions, quarantine)
        self._forwarder = forwarder_of(pair, counting, settings.naming, self._clock)
        if settings.mirrors_schemas:
            self._put_schemas_first(engines, session, quarantine)
        self._source_ends = SourceEnds(settings.source, settings.naming, fetched=self._forwarder.fetched_now)
        self._life.started("source ends", self._source_ends.stop)
        self._source_ends.start()
        self._sync = self._synced(self._forwarder, engines[1])
        self._life.started("sync", self._sync.stop)
        self._sync.start()
        if session is not None:
            restatement = Restatement(settings.destination, self._reporter, RestateRequests(session), settings.naming)
            self._life.started("restatement", restatement.stop)
            restatement.start()
        self._forwarder.governor.orders = self._orders.look()
        if self._orders.trouble is not None:
            # What was paused must not be copied because its order is damaged.
            raise MirrorError(self._orders.trouble)
        reporting = threading.Thread(target=self._report, name="mirror-reporter", daemon=True)
        forwarding = threading.Thread(target=self._forward, name="mirror-forwarder", daemon=True)
        self._life.started("reporter", lambda: self._stop_reporting(reporting))
        self._life.started("forwarder", lambda: self._stop_forwarding(forwarding))
        reporting.start()
        forwarding.start()
        log.info(
            "mirror_started", source=settings.source, destination=settings.destination, mode=self._mode.value, name=settings.name
        )

    def _engines(self, source: Cluster, target: Cluster, stop: StopSignal) -> tuple[Engine, Engine] | None:
        """Return what both clusters are, once both have answered; None if the mirror is to stop before."""
        while True:
            try:
                return engine_of(source), engine_of(target)
            except HeadraceError as error:
                if not error.retriable:
                    raise
                self._status.write("starting", reason=str(error), beat_every_ms=STATUS_EVERY_MS)
            if stop.wait(ENGINE_RETRY_MS):
                return None

    def _pair(self, source: Cluster, target: Cluster, engines: tuple[Engine, Engine], session: Session | None, name: str) -> Pair:
        settings = self._settings
        return Pair(
            source=source,
            target=target,
            engines=engines,
            session=session,
            name=name,
            replication_factor=settings.replication_factor,
            allows_retention=settings.allows_retention,
            transaction_timeout_ms=settings.transaction_timeout_ms,
        )

    def _put_schemas_first(self, engines: tuple[Engine, Engine], session: Session | None, quarantine: CorruptRanges) -> None:
        """Let no data be appended before its schemas. Connections of its own: an append of data may be in flight meanwhile."""
        settings = self._settings
        ends = [self._connected(address) for address in (settings.source, settings.destination)]
        pair = self._pair(ends[0], ends[1], engines, session, f"{settings.name}.schemas")
        self._schemas = schemas_copy_of(pair, quarantine, self._clock)
        self._schemas_first = SchemasFirst(self._schemas, self._clock)
        assert self._forwarder is not None
        self._forwarder.admitted = self._schemas_first.admitted

    def _connected(self, address: str) -> Cluster:
        cluster = Cluster(address, client_id="headrace-mirror", request_timeout_ms=REQUEST_TIMEOUT_MS)
        self._life.started(f"connections to {address}", cluster.close)
        return cluster

    def _synced(self, forwarder: Forwarder, engine: Engine) -> Sync:
        settings, is_identical = self._settings, self._mode is Mode.IDENTICAL
        return Sync(
            settings.source,
            settings.destination,
            settings.sync,
            settings.naming,
            destination_engine=engine,
            translation=lambda cluster: SameOffsets(forwarder.copies) if is_identical else ByLedger(cluster, settings.name),
            partitions=lambda: forwarder.copies().keys(),
        )

    @property
    def _is_ready(self) -> bool:
        return self._forwarder is not None and self._forwarder.discovery.has_answers

    def _write_status(self) -> None:
        if self._forwarder is None or self._source_ends is None:
            return
        settings, forwarder, trouble = self._settings, self._forwarder, self._forwarder.discovery.trouble
        now_ms = self._clock.now_ms()
        orders = forwarder.governor.orders = self._orders.look()
        self._observe(forwarder, self._source_ends.ends, now_ms)
        names = stall.stalled(self._progress, now_ms=now_ms, stall_after_ms=settings.stall_after_ms)
        held_back = None if self._schemas_first is None else self._schemas_first.waits_for
        error = stall.last_error(self._progress, names, trouble) or held_back
        waits = f"it waits for an answer of {settings.destination}"
        why = (
            self._orders.trouble,
            stall.why_stalled(self._progress, names, error or self._source_ends.trouble or waits),
            stall.why_unreported(self._report_failure, now_ms=now_ms, stall_after_ms=settings.stall_after_ms),
        )
        stalled = "; ".join(one for one in why if one is not None) or None
        if (stalled is None) != (self._stalled is None):
            if stalled is None:
                log.info("mirror_moves_again")
            else:
                log.error("mirror_stands_still", reason=stalled)
        self._stalled = stalled
        state = "starting" if not self._is_ready else "ready" if stalled is None else "stalled"
        reason = stalled or (None if self._is_ready else trouble)
        self._status.write(
            state,
            **({} if reason is None else {"reason": reason}),
            beat_every_ms=STATUS_EVERY_MS,
            now_ms=now_ms,
            counted=self._forwarder.tally.facts(),
            unreported=int(self._report_failure is not None),
            mode=None if self._mode is None else self._mode.value,
            sync=None if self._sync is None else self._sync.facts(),
            schemas=None if self._schemas is None else {**self._schemas.facts(), "data_waits": held_back},
            notice=orders.notice(),
            orders=orders_facts(orders, self._orders.trouble),
            **facts(self._copies, self._progress, trouble=trouble),
            partitions=self._rows,
            **stall.facts(
                self._progress,
                source=settings.source,
                destination=settings.destination,
                source_error=self._source_ends.trouble,
                error=error,
            ),
        )

    def _observe(self, forwarder: Forwarder, ends: Mapping[TopicPartition, tuple[int, int]], now_ms: int) -> None:
        """Look at all partitions, if anything has changed or somebody waits."""
        changes = forwarder.changes
        held: Mapping[TopicPartition, str] = {}
        if forwarder.governor.holds:
            held = forwarder.governor.held(forwarder.copies().keys() | ends.keys())
        seen = (changes, held)
        if seen == self._seen and not ends and not self._progress.waiting and not self._progress.troubled:
            self._progress = replace(self._progress, at_ms=now_ms)
            return
        self._copies = forwarder.copies()
        self._progress = stall.observed(self._progress, self._copies, ends, now_ms, held)
        if seen != self._seen:
            self._rows = self._row_texts.prepared(self._copies, held)
        self._seen = seen

    def _forward(self) -> None:
        assert self._forwarder is not None
        try:
            while not self._forwarding_ends.is_set():
                if not self._forwarder.turn():
                    self._forwarding_ends.wait(IDLE_MS)
            self._forwarder.finish()
        except BaseException as error:  # a fault of ours: the process ends with it, and its successor resumes
            log.error("forwarder_died", exc_info=True)
            self._died = error

    def _stop_forwarding(self, thread: threading.Thread) -> None:
        self._forwarding_ends.set()
        thread.join(LAST_TURN_MS / 1000)
        if self._forwarder is not None:
            self._forwarder.close()
        if self._schemas is not None:
            self._schemas.close()
        thread.join(LAST_TURN_MS / 1000)

    def _report(self) -> None:
        while not self._reporting_ends.wait(REPORT_EVERY_MS):
            try:
                self._publish(REPORT_TIMEOUT_MS)
            except HeadraceError as error:
                if self._report_failure is None:
                    log.warning("report_failed", error=str(error))
                since_ms = self._clock.now_ms() if self._report_failure is None else self._report_failure[0]
                self._report_failure = (since_ms, str(error))
            else:
                if self._report_failure is not None:
                    log.info("report_mended")
                self._report_failure = None

    def _publish(self, timeout_ms: int) -> None:
        assert self._reporter is not None
        assert self._audit is not None
        if not self._knows_audit_topic:
            see_to_audit_topic(self._audit, timeout_ms=timeout_ms)
            self._knows_audit_topic = True
        self._reporter.publish(timeout_ms)
        self._say_what_is_paused(timeout_ms)

    def _say_what_is_paused(self, timeout_ms: int) -> None:
        """Tell the audit of each partition that is paused, and again at intervals: what makes no progress by order is not
        silent.
        """
        assert self._reporter is not None
        if self._forwarder is None:
            return
        orders = self._forwarder.governor.orders
        if not orders.paused and not self._said_paused:
            return
        paused = {name: one.words() for name in self._forwarder.copies() if (one := orders.pause_of(name.topic)) is not None}
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._say_again_ms:
            self._said_paused = dict.fromkeys(self._said_paused.keys() - paused.keys(), "")
            self._say_again_ms = now_ms + SAY_AGAIN_MS
        for name in self._said_paused.keys() - paused.keys():
            self._reporter.note(*name, "", timeout_ms)
            del self._said_paused[name]
        for name, words in paused.items():
            if self._said_paused.get(name) != words:
                self._reporter.note(*name, words, timeout_ms)
                self._said_paused[name] = words

    def _stop_reporting(self, thread: threading.Thread) -> None:
        self._reporting_ends.set()
        thread.join(LAST_REPORT_TIMEOUT_MS / 1000)
        if not thread.is_alive():
            try:
                self._publish(LAST_REPORT_TIMEOUT_MS)
            except HeadraceError as error:
                log.warning("last_report_failed", error=str(error))
