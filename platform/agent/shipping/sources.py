"""Finds sources, reads them turn by turn, and has what it read planned. For one thread.

What is read and not settled is bounded, and so is the number of sources. When the cluster is away nothing more is read: the
journals and files are where it waits.
"""

from collections.abc import Mapping, Sequence

from ...audit.model.windows import window_start_ms
from ...client.connection.cluster import Cluster
from ...errors import HeadraceError
from ...runtime.backoff import Backoff
from ...runtime.clock import Clock
from ...runtime.logs import get_logger
from ...wire.quarantine_record import quarantine_topic
from ..audit_reports.audit_reports import AuditReports
from ..delivery.delivery import Delivery
from ..plan.entries import EVENT, NOTHING, QUARANTINE, ChunkPlan, Kind, entries_of
from ..source import Chunk, Position, Source, SourceGroup
from ..state.rows import ChunkRow, SourceRow
from ..state.store import Store
from .open_source import OpenSource
from .progress import Progress
from .schema_ids import SchemaIds
from .topic_checks import TopicChecks

log = get_logger(__name__)

MOST_CHUNKS = 4
"""Chunks of one source that are read and not settled."""
CHUNKS_A_TURN = 4


class Sources:
    """The sources of every group."""

    def __init__(
        self,
        store: Store,
        audit_reports: AuditReports,
        delivery: Delivery,
        cluster: Cluster,
        schema_ids: SchemaIds,
        groups: Sequence[SourceGroup],
        clock: Clock,
        *,
        chunk_bytes: int,
        buffer_bytes: int,
        most_sources: int,
    ) -> None:
        self._store = store
        self._audit_reports = audit_reports
        self._delivery = delivery
        self._schema_ids = schema_ids
        self._groups = groups
        self._clock = clock
        self._chunk_bytes = chunk_bytes
        self._buffer_bytes = buffer_bytes
        self._most_sources = most_sources
        self._rows = {row.name: row for row in store.sources()}
        self._known: dict[str, Position] = {name: row.planned for name, row in self._rows.items()}
        self._open: dict[str, OpenSource] = {}
        self._by_id: dict[int, OpenSource] = {}
        self._restored: dict[int, list[ChunkRow]] = {}
        """Source id → its chunks of an earlier agent, until the source is found."""
        self._ready: dict[str, OpenSource] = {}
        """Those to be read, the longest waiting first."""
        self._ended: dict[str, OpenSource] = {}
        """Those with nothing more to come, until the audit knows it."""
        self._unreleased: set[str] = set()
        """Those that do not know how far they are settled."""
        self._unannounced: set[str] = set()
        """Those that do not know that the audit has heard of their run."""
        self._enrolled_topics: tuple[str, ...] = ()
        self._backoff = Backoff()
        self._topics = TopicChecks(cluster)
        self.unopened: dict[str, str] = {}
        """What could not be opened → why, in the last scan."""
        self.progress = Progress(audit_reports)

    # -- start -----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take in what the state holds; enrol the groups' topics, and their runs."""
        for chunk in self._store.chunks():
            self._restored.setdefault(chunk.source_id, []).append(chunk)
            self._delivery.planned.restore(chunk)
        for topic in self._store.topics():
            self._audit_reports.enrol(topic)
        for group in self._groups:
            for topic in group.topics:
                self._audit_reports.enrol(topic)
                if group.run is not None:
                    self._audit_reports.adopt(group.run, topic)
                    self.progress.add_group(group.run.instance, group.name)

    def close(self) -> None:
        for one in self._open.values():
            one.source.close()
        for group in self._groups:
            group.close()

    # -- finding ---------------------------------------------------------------------------------------------------------

    def scan(self) -> None:
        """Ask every group what is new."""
        began_ms = self._clock.now_ms()
        unopened: dict[str, str] = {}
        blocked: set[str] = set()
        for group in self._groups:
            before = len(unopened)
            try:
                scan = group.scan(self._known)
                unopened.update(scan.unopened)
                for source in scan.changed:
                    self._found(source, unopened)
            except (HeadraceError, OSError) as error:
                unopened[group.name] = str(error)
            if len(unopened) > before:
                blocked.add(group.name)
        for what, why in unopened.items():
            if self.unopened.get(what) != why:
                log.warning("source_not_opened", source=what, reason=why, then="no window of these topics is sealed")
        self.unopened = unopened
        self.progress.scanned(began_ms, blocked)
        if not unopened:
            self._settle_missing()

    def answer_doorbells(self) -> bool:
        """Have sources read at once that have something new, as far as scans have found them. Return whether there were any."""
        has_rung = False
        for group in self._groups:
            for source in group.rung():
                has_rung = True
                one = self._open.get(source.name)
                if one is not None and one.row.name not in self._ended:
                    one.may_have_more = True
                    self._ready.setdefault(source.name, one)
        return has_rung

    def doorbells(self) -> list[int]:
        """Return the descriptors that are readable when a source has something new."""
        return [one for group in self._groups if (one := group.doorbell) is not None]

    def _found(self, source: Source, unopened: dict[str, str]) -> None:
        found = self._open.get(source.name)
        if found is None:
            if len(self._open) >= self._most_sources:
                unopened[source.name] = f"{self._most_sources} sources are open already: raise most_sources"
                return
            found = self._adopt(source)
        elif not found.is_active:
            found.drained_ms = self.progress.scanned_ms
        if found.row.name not in self._ended:
            found.may_have_more = True
            self._ready[source.name] = found

    def _adopt(self, source: Source) -> OpenSource:
        run = self._audit_reports.adopt(source.run, source.topic)
        self.progress.add_lateness(source.run.lateness_ms or 0)
        row = self._rows.get(source.name)
        if row is None:
            row = SourceRow(
                id=self._store.next_id("sources"), name=source.name, run_id=run.id, settled=source.start, planned=source.start
            )
            self._rows[source.name] = row
            self._known[source.name] = row.planned
            self._store.put_source(row)
            log.info("source_found", source=source.name, topic=source.topic, run=run.facts.instance)
        found = OpenSource(source, row)
        self._unreleased.add(source.name)
        self._unannounced.add(source.name)
        found.chunks.extend(self._restored.pop(row.id, ()))
        if not found.chunks and row.settled != row.planned:
            row.settled = row.planned
            self._store.put_source(row)
        self._open[source.name] = self._by_id[row.id] = found
        if run.is_closing:
            # Its last report was written by an earlier agent.
            found.may_have_more = False
            self._ended[source.name] = found
        return found

    def _settle_missing(self) -> None:
        """Give up the sources of the state that a whole scan has not found."""
        if len(self._rows) == len(self._open):
            return
        for name in [name for name in self._rows if name not in self._open]:
            row = self._rows[name]
            chunks = self._restored.get(row.id, [])
            if chunks:
                for chunk in chunks:
                    self._delivery.planned.build(chunk, {EVENT: NOTHING, QUARANTINE: NOTHING})
                continue
            log.warning("source_gone", source=name, settled=row.settled)
            self._forget(row)

    # -- reading ---------------------------------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Read again what an earlier agent has planned, or what was split, as far as its sources are found."""
        for chunk in self._delivery.planned.unbuilt():
            one = self._by_id.get(chunk.source_id)
            if one is None or one.retry_at_ms > self._clock.monotonic_ms():
                continue
            try:
                content = one.source.read_again(chunk.plan.start, chunk.plan.end)
            except (HeadraceError, OSError) as error:
                self._wait(one, str(error))
                continue
            self._delivery.planned.build(chunk, entries_of(content, chunk.plan))

    def read(self) -> bool:
        """Read and plan some chunks, each source in its turn. Return whether more could be read at once."""
        chunks = 0
        for name in list(self._ready):
            if self._delivery.planned.held_bytes >= self._buffer_bytes:
                return False
            if chunks >= CHUNKS_A_TURN:
                return True
            one = self._ready[name]
            if self._read(one):
                chunks += 1
                if name in self._ready:
                    self._ready[name] = self._ready.pop(name)
        return chunks > 0

    def _read(self, one: OpenSource) -> bool:
        if one.retry_at_ms > self._clock.monotonic_ms() or len(one.chunks) >= MOST_CHUNKS:
            return False
        source = one.source
        schema_id = self._schema_ids.get(source.topic, source.schema)
        if schema_id is None:
            one.trouble = f"the schema registry gives no id: {self._schema_ids.last_error or 'it was just asked'}"
            return False
        if (fault := self._topics.fault_of(source.topic)) is not None:
            self._wait(one, fault)
            return False
        topics: dict[Kind, str] = {EVENT: source.topic} if isinstance(schema_id, int) else {}
        if not self._delivery.is_ready(one.row.run_id, topics):
            one.trouble = f"the cluster is away: {self._delivery.last_error}"
            return False
        began_ms = self._clock.now_ms()
        try:
            chunk = source.read(one.row.planned, self._chunk_bytes)
            if chunk is not None:
                source.hold(one.row.settled, chunk.end)
        except (HeadraceError, OSError) as error:
            self._wait(one, str(error))
            return False
        one.trouble, one.attempts = None, 0
        if chunk is None:
            self._dry(one, began_ms)
            return False
        return self._plan(one, chunk, schema_id, began_ms)

    def _plan(self, one: OpenSource, chunk: Chunk, schema_id: int | str, now_ms: int) -> bool:
        source, row = one.source, one.row
        plan = ChunkPlan(
            source=source.name,
            start=row.planned,
            end=chunk.end,
            topic=source.topic,
            schema_id=schema_id if isinstance(schema_id, int) else -1,
            refusal=schema_id if isinstance(schema_id, str) else "",
            planned_ms=now_ms,
        )
        entries = entries_of(chunk, plan)
        aside = {QUARANTINE: quarantine_topic(source.topic)} if entries[QUARANTINE] else {}
        if aside and not self._delivery.is_ready(row.run_id, aside):
            # Read again when the quarantine's topic can be written.
            one.trouble = f"the cluster is away: {self._delivery.last_error}"
            return False
        for (window, name), count in chunk.losses.items():
            self._audit_reports.lost(row.run_id, source.topic, window, name, count)
        planned = ChunkRow(id=self._store.next_id("chunks"), source_id=row.id, run_id=row.run_id, plan=plan)
        row.planned = self._known[row.name] = chunk.end
        one.dry_ms = None
        one.chunks.append(planned)
        self._store.put_source(row)
        self._delivery.plan(planned, entries)
        return True

    def _dry(self, one: OpenSource, began_ms: int) -> None:
        """It has nothing more now."""
        self._ready.pop(one.row.name, None)
        one.may_have_more = False
        one.dry_ms = began_ms
        if not one.chunks:
            self._settled_dry(one)

    def _settled_dry(self, one: OpenSource) -> None:
        one.drained_ms = one.dry_ms
        if one.source.is_ended(one.row.settled):
            self._ended[one.row.name] = one

    def chunk_settled(self, chunk: ChunkRow) -> None:
        """Note that all records of a chunk have their end."""
        one = self._by_id.get(chunk.source_id)
        if one is None:
            # Its source is gone.
            self._restored[chunk.source_id] = [other for other in self._restored.get(chunk.source_id, ()) if other is not chunk]
            return
        if one.settle(chunk):
            self._unreleased.add(one.row.name)
            self._store.put_source(one.row)
            if not one.chunks and not one.may_have_more:
                self._settled_dry(one)

    def _wait(self, one: OpenSource, why: str) -> None:
        if one.trouble != why:
            log.warning("source_waits", source=one.row.name, reason=why)
        one.trouble = why
        one.retry_at_ms = self._clock.monotonic_ms() + self._backoff.wait_ms(one.attempts)
        one.attempts += 1

    # -- what the audit hears --------------------------------------------------------------------------------------------

    def note_losses(self) -> None:
        """Count what the applications dropped themselves."""
        for one in [*self._ready.values(), *self._ended.values()]:
            self._note_losses(one)

    def _note_losses(self, one: OpenSource) -> None:
        seen = self._store.seen_losses(one.row.id)
        for (at_ms, name), total in one.source.losses().items():
            window = window_start_ms(at_ms)
            more = total - seen.get((window, name), 0)
            if more > 0:
                self._audit_reports.lost(one.row.run_id, one.source.topic, window, name, more)
                self._store.put_seen_loss(one.row.id, window, name, total)

    def look(self) -> None:
        """Look at how far every source is settled; call it before reports are written."""
        self.progress.look(self._open.values())

    # -- ends ------------------------------------------------------------------------------------------------------------

    def end_sources(self) -> None:
        """Have the runs closed whose source has ended, and forget what is closed and removed."""
        for one in list(self._ended.values()):
            if one.retry_at_ms > self._clock.monotonic_ms() or not self._is_fully_reported(one):
                continue
            # Nothing of it is needed any more. If it comes back after a crash, it is removed again.
            try:
                one.source.remove()
            except (HeadraceError, OSError) as error:
                self._wait(one, str(error))
                continue
            one.source.close()
            self._drop(one)
            self._forget(one.row)
        for run_id in self._audit_reports.closed():
            if all(row.run_id != run_id for row in self._rows.values()):
                self._delivery.forget(run_id)
                self._audit_reports.forget(run_id)

    def _is_fully_reported(self, one: OpenSource) -> bool:
        """Return whether the audit topic holds everything about an ended source; write its run's last report, if it is time."""
        run = self._audit_reports.get(one.row.run_id)
        if not run.facts.ends_with_source:
            return True
        if not run.is_closing:
            self._note_losses(one)
        if run.is_closing or not one.source.lacks_tail(one.row.settled):
            return self._audit_reports.close_run(run.id) and self._audit_reports.is_closed(run.id)
        if not self._audit_reports.has_reported_all(run.id):
            return False
        why = "its windows stay UNKNOWN until an operator retires the run: headrace audit retire-producer"
        log.error("journal_lacks_tail", source=one.row.name, run=run.facts.instance, epoch=run.epoch, then=why)
        return True

    def after_commit(self) -> None:
        """Tell the sources how far they are settled on disk, and what the audit has heard of."""
        for name in [name for name in self._unannounced if name not in self._open]:
            self._unannounced.discard(name)
        for name in [one for one in self._unannounced if self._audit_reports.get(self._open[one].row.run_id).announced_ids >= 0]:
            self._open[name].source.announced()
            self._unannounced.discard(name)
        enrolment = self._audit_reports.enrolment
        if enrolment.announced_ids >= 0 and enrolment.topics != self._enrolled_topics:
            for group in self._groups:
                group.enrolled(enrolment.topics)
            self._enrolled_topics = enrolment.topics
        names, self._unreleased = self._unreleased, set()
        for name in names:
            if name in self._open:
                self._open[name].source.release(self._open[name].row.settled)

    def _drop(self, one: OpenSource) -> None:
        name = one.row.name
        self._ready.pop(name, None)
        self._ended.pop(name, None)
        del self._open[name], self._by_id[one.row.id]

    def _forget(self, row: SourceRow) -> None:
        del self._rows[row.name]
        self._known.pop(row.name, None)
        self._restored.pop(row.id, None)
        self._store.delete_source(row.id)

    # -- what is shown ---------------------------------------------------------------------------------------------------

    @property
    def open_sources(self) -> Sequence[OpenSource]:
        return list(self._open.values())

    @property
    def events(self) -> Mapping[str, Mapping[str, int]]:
        """Return what happened to the sources of each group."""
        return {group.name: dict(group.events) for group in self._groups}
