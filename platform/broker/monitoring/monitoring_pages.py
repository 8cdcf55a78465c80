"""The pages `/metrics`, `/healthz` and `/readyz` of a running broker.

The pages exist before anything else has started, so that they show the progress of a long start. They run on the HTTP server's
thread, ask the loop for the loop's own state, and wait `ANSWER_MS` at most. Knows no part of the broker: `app` passes in where
the numbers come from."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ...coordination.standing import SessionState
from ...runtime import disk_room
from ...runtime.monitoring.http_server import Page, Pages
from ...wire.errors import ErrorCode
from ...wire.messages import produce
from ..event_loop.loop import Loop, monotonic_ms
from ..metrics import BrokerMetrics, Durations
from ..partitions.catalog import Catalog
from ..partitions.partition import PartitionTable
from ..replicas.damage_book import DamageCounts
from ..settings.broker_settings import BrokerSettings
from . import health, metrics_snapshot
from .group_lag import LagSnapshot
from .metrics_page import MetricsPage, Source
from .replication import ReplicationReader

ANSWER_MS = 1_000
"""Health checks and scrapers give up after a few seconds."""
BEAT_EVERY_MS = 250
"""How often the loop's lag is measured."""


class WatchedSession(Protocol):
    """The part of the ZooKeeper session that is used here."""

    @property
    def state(self) -> SessionState: ...

    @property
    def generation(self) -> int:
        """Grows by one with every lost session."""
        ...

    def is_sure(self) -> bool: ...

    def on_change(self, callback: Callable[[SessionState], None]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The sources of the numbers. The callables may be called on any thread; `groups` only on the loop thread."""

    metrics: BrokerMetrics
    partitions: PartitionTable
    connections: metrics_snapshot.Connections
    accepted: Callable[[], int]
    """Connections accepted so far."""
    rejections: Callable[[], Mapping[str, int]]
    """Connections and frames that were refused, by reason."""
    flushes: Callable[[], tuple[Durations, int]]
    """Durations of flushes, and how many failed."""
    cold_reads: Callable[[], tuple[int, int]]
    """Fetches that waited for the disk, and the bytes read for them."""
    groups: metrics_snapshot.Groups
    group_lag: Callable[[int], LagSnapshot]
    """How far groups are behind, waited for at most so many ms. Not on the loop thread."""
    tree_copied_at: Callable[[], float | None]
    """When ZooKeeper's tree was last copied, in seconds of the epoch."""
    session: WatchedSession
    api_names: Mapping[int, str]
    catalog: Callable[[], Catalog]
    """The cluster as this broker knows it."""
    damage: Callable[[], DamageCounts]
    stopped_replicas: Callable[[], int]


class MonitoringPages:
    """One a broker."""

    def __init__(self, settings: BrokerSettings, loop: Loop, loop_lives: Callable[[], bool]) -> None:
        self.phase = "starting"
        self.doing = "nothing yet"
        """The present step of the start. The thread that starts and stops the broker writes this and `phase`."""
        self.fatal: str | None = None
        self._settings = settings
        self._loop = loop
        self._loop_lives = loop_lives
        self._loop_began = False
        self._session_state = SessionState.SURE
        self._refused_count = 0
        self._refused_ms: int | None = None
        """When the file system last refused an append, by the loop's clock."""
        self._parts: Parts | None = None
        self._metrics: MetricsPage | None = None

    def pages(self) -> Pages:
        return {"/metrics": self._metrics_page, "/healthz": self._healthz, "/readyz": self._readyz}

    def watch(self, parts: Parts) -> None:
        """Begin to show the numbers of these parts. Call it before the loop runs."""
        settings = self._settings
        source = Source(
            broker_id=settings.broker_id,
            data=settings.data,
            partitions_max=settings.metrics_partitions_max,
            metrics=parts.metrics,
            api_names=parts.api_names,
            accepted=parts.accepted,
            rejections=parts.rejections,
            flushes=parts.flushes,
            cold_reads=parts.cold_reads,
            session=lambda: (parts.session.state.value, parts.session.generation),
            is_ready=lambda: not health.why_not_ready(self._facts()),
            snapshot=lambda: metrics_snapshot.take(
                self._loop, parts.partitions, parts.connections, parts.groups, within_ms=ANSWER_MS
            ),
            group_lag=lambda: parts.group_lag(ANSWER_MS),
            tree_copied_at=parts.tree_copied_at,
            replication=ReplicationReader(parts.catalog, settings.broker_id, settings.topic_defaults).read,
            damage=parts.damage,
            stopped_replicas=parts.stopped_replicas,
        )
        self._metrics = MetricsPage(source)
        parts.session.on_change(self._session_changed)
        self._parts = parts
        self._loop.post(self._beat)

    def _session_changed(self, state: SessionState) -> None:
        # The session calls this after the registration was renewed. So SURE means that clients find this broker again.
        self._session_state = state

    def _beat(self) -> None:
        self._loop_began = True
        due_ns = (self._loop.now_ms + BEAT_EVERY_MS) * 1_000_000

        def beat() -> None:
            assert self._parts is not None
            self._parts.metrics.loop_lag.add(max(0, time.monotonic_ns() - due_ns))
            self._notice_refused(self._parts.metrics)
            self._beat()

        self._loop.call_at(self._loop.now_ms + BEAT_EVERY_MS, beat)

    def _notice_refused(self, metrics: BrokerMetrics) -> None:
        produced = metrics.apis.get(produce.API_KEY)
        count = 0 if produced is None else produced.errors.get(int(ErrorCode.KAFKA_STORAGE_ERROR), 0)
        if count > self._refused_count:
            self._refused_count, self._refused_ms = count, self._loop.now_ms

    def _facts(self, failed_logs: tuple[str, ...] = ()) -> health.Facts:
        session = None if self._parts is None else self._parts.session
        return health.Facts(
            phase=self.phase,
            doing=self.doing,
            loop_turned_ms_ago=monotonic_ms() - self._loop.now_ms if self._loop_began else None,
            loop_lives=self._loop_lives() or not self._loop_began or self.phase == "stopping",
            zookeeper="not begun" if session is None else session.state.value,
            is_sure=session is not None and session.is_sure() and self._session_state is SessionState.SURE,
            fatal=self.fatal,
            failed_logs=failed_logs,
            room=None if self._parts is None else disk_room.look(self._settings.data),
            append_refused_ms_ago=None if self._refused_ms is None else monotonic_ms() - self._refused_ms,
        )

    def _healthz(self) -> Page:
        facts = self._facts()
        return health.page("alive", health.why_dead(facts), facts)

    def _readyz(self) -> Page:
        failed_logs = self._failed_logs()
        facts = self._facts(failed_logs or ())
        reasons = health.why_not_ready(facts)
        if failed_logs is None and not reasons:
            reasons = [f"the loop did not answer within {ANSWER_MS} ms"]
        return health.page("ready", reasons, facts)

    def _failed_logs(self) -> tuple[str, ...] | None:
        """Return the logs that accept no more appends, None when the loop does not answer."""
        parts = self._parts
        if parts is None or not self._loop_began or self.phase != "ready":
            return ()
        found: list[tuple[str, ...]] = []
        done = threading.Event()

        def look() -> None:
            found.append(tuple(f"{one.topic}-{one.index}" for one in parts.partitions.kept() if one.log.failure is not None))
            done.set()

        self._loop.post(look)
        return found[0] if done.wait(ANSWER_MS / 1000) else None

    def _metrics_page(self) -> Page:
        if self._metrics is None:
            return Page(503, "text/plain; charset=utf-8", f"starting: {self.doing}\n".encode())
        return self._metrics()
