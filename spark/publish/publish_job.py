"""Publishes hours: asks the audit, decides by `gate`, writes proofs, then moves the proven files to the branch `main`.

    headrace.proofs     a row for each revision of an hour, written first
    branch main         the files of every published hour; one commit a publish, with the publish's number

A crash between the two leaves proofs that nothing names; the next publish deletes them. What others removed from `main` is never
added again. Decision 21.
"""

import json
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyiceberg.manifest import DataFile

from ...runtime import failpoints
from ...runtime.clock import Clock, SystemClock
from ...runtime.layout import Layout
from ...runtime.logs import get_logger
from ..lineage.datasets import HourFact, TableDataset
from ..lineage.runs import observed_run
from ..source.digest import MODULUS
from ..warehouse.counted import CountedView, view_counted
from ..warehouse.delete_files import Taken
from ..warehouse.file_rows import FileFacts, read_file
from ..warehouse.hours import BEFORE_1970, hour_name, hour_names, hour_of, hour_of_name
from ..warehouse.leases import Lease
from ..warehouse.proofs import DIFFERS, ERASED, WITHDRAWN, Proof, ProvenFile, proven_offsets
from ..warehouse.settings import WarehouseSettings
from ..warehouse.store import StorePath
from ..warehouse.topic_table import LOADS, MAIN, TopicTable
from ..warehouse.warehouse import Warehouse
from . import settings
from .asking import Ask, AskDays, AskSequences, ask_audit, ask_days_of_audit, ask_for_sequences
from .gate import HOUR_MS, AuditedWindow, HourDecision, HourFacts, complete_through, decide, empty_hours, never_proven
from .hour_files import HourFiles, ReadersView, examine
from .main_reports import report_main_if_new
from .read_back import Facts, names_of
from .settled import Quiet, Settled, look, read_settled

log = get_logger(__name__)

WAIT_MS = 60_000
ASK_EVERY_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOutcome:
    """What readers see now, and why they do not see the other hours. Hours by name."""

    topic: str
    published: tuple[str, ...] = ()
    """Hours that this run published or extended."""
    withdrawn: tuple[tuple[str, str], ...] = ()
    """Hours that this run took away, and why."""
    open_hours: tuple[str, ...] = ()
    pending: tuple[tuple[str, str], ...] = ()
    """Published hours of which more is known than readers see, and what."""
    shut: tuple[tuple[str, str], ...] = ()
    """Hours that are not published, and why."""
    complete_through: str | None = None
    """The last hour up to which everything known is published; None: not even the first."""
    expired_through: str | None = None
    """The last hour that retention has dropped, with all before it; None: none."""
    may_change_soon: bool = False
    """Whether the audit is about to decide on an hour: it is worth the wait to publish again."""
    revisions: tuple[Proof, ...] = ()
    """The proofs that this run wrote."""
    added: tuple[DataFile, ...] = ()
    """The files that this run added to `main`."""

    def then(self, after: "PublishOutcome") -> "PublishOutcome":
        """Return the outcome of both, where `after` was a publish of the same topic behind this one."""
        return replace(
            after,
            published=tuple(dict.fromkeys([*self.published, *after.published])),
            withdrawn=(*self.withdrawn, *after.withdrawn),
            revisions=(*self.revisions, *after.revisions),
            added=(*self.added, *after.added),
        )


class Gate:
    """Publishes and withdraws the hours of one topic."""

    def __init__(
        self,
        warehouse: Warehouse,
        topic: str,
        ask: Ask,
        *,
        ask_days: AskDays = lambda topic: (),
        ask_sequences: AskSequences | None = None,
        restore: Collection[int] = (),
        clock: Clock | None = None,
    ) -> None:
        """`restore`: hours of which a person wants back what others removed from `main`."""
        self._ask_sequences = ask_sequences
        self._restore = restore
        self._warehouse = warehouse
        self._topic = topic
        self._ask = ask
        self._ask_days = ask_days
        self._clock = clock or SystemClock()

    def publish(self, *, wait_ms: int = WAIT_MS) -> PublishOutcome:
        """Publish what is proven, withdraw what is spoiled; wait up to `wait_ms` for windows that may be decided soon.

        Raises AuditUnreachable (then nothing is changed), WarehouseError.
        """
        if self._warehouse.table(self._topic) is None:
            return PublishOutcome(topic=self._topic)
        # Two at once could add what the other has just withdrawn.
        with self._warehouse.locked(f"publish-{self._topic}") as lease:
            found = self._decided(wait_ms)
            done = self._apply(found, lease)
            if any(mine.is_held_back for mine in found.hours.values()):
                done = done.then(self._apply(self._decided(0), lease))
            return done

    def _decided(self, wait_ms: int) -> "_Decided":
        despite = settings.despite(self._warehouse.folder, self._topic)
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        while True:
            table = self._warehouse.existing_table(self._topic)
            table.look()
            # The audit is asked last: its word is never older than what it is about.
            expired = table.expired_through()
            counted = view_counted(table.records_folder)
            windows: dict[int, list[AuditedWindow]] = {}
            for window in sorted(self._ask(self._topic), key=lambda one: one.window_start_ms):
                if not _has_expired(expired, window.hour):
                    windows.setdefault(window.hour, []).append(window)
            found = self._look(table, counted, windows)
            found.decisions = self._decide(found, windows, despite)
            if not any(one.may_change_soon for one in found.decisions) or self._clock.monotonic_ms() >= deadline_ms:
                return found
            time.sleep(ASK_EVERY_MS / 1000)

    def _look(self, table: TopicTable, counted: CountedView, windows: Collection[int]) -> "_Decided":
        proofs = self._warehouse.proofs(self._topic)
        before, refused, expired = read_settled(table.records_folder), counted.refused, table.expired_through()
        marks = proofs.last_marks(up_to_publish=table.last_publish)
        asked = {*windows, *self._restore, *_hours_of(table, counted.rotten)}
        seen = look(table, before, marks, asked=asked)
        busy = {hour for hour in {*seen.busy, *(refused.keys() - seen.quiet.keys())} if not _has_expired(expired, hour)}
        quiet = {hour: one for hour, one in seen.quiet.items() if not _has_expired(expired, hour)}
        loads, main = (table.files_by_hour(branch, busy) for branch in (LOADS, MAIN))
        deletes = table.deletes(MAIN, busy)
        history = proofs.read(up_to_publish=table.last_publish, hours=busy)
        files = counted.files
        differing = {start // HOUR_MS for starts in counted.differing.values() for start in starts}
        found = _Decided(table, files, before, Settled(seen.manifests, quiet))
        for hour in sorted(busy):
            mine = examine(
                hour,
                loads.get(hour, ()),
                main.get(hour, ()),
                history.get(hour, ()),
                files,
                deletes=deletes.get(hour, ()),
                differs=hour in differing,
                is_restored=hour in self._restore,
                rotten=counted.rotten,
                path_of=table.path_of,
            )
            mine.facts = replace(mine.facts, refused=refused[hour])
            found.hours[hour] = mine
        return found

    def _decide(
        self, found: "_Decided", windows: Mapping[int, Sequence[AuditedWindow]], despite: frozenset[str]
    ) -> list[HourDecision]:
        now_ms, hours = self._clock.now_ms(), found.hours
        decisions = {}
        for hour in sorted({*hours, *windows}):
            mine = hours.setdefault(hour, _no_files(hour))
            view = ReadersView(mine, mine.proof, found.table.path_of) if mine.proof is not None else None
            decisions[hour] = decide(mine.facts, windows.get(hour, ()), view, despite=despite, now_ms=now_ms)
        proven = {hour for hour, one in decisions.items() if one.is_settled and one.windows}
        empty = empty_hours({*decisions, *found.settled.hours}, proven)
        in_days = self._ask_days(self._topic) if empty else ()
        for hour in empty:
            hours[hour] = _no_files(hour)
            decisions[hour] = never_proven(hour) if hour in in_days else decide(hours[hour].facts, (), None, now_ms=now_ms)
        return [decisions[hour] for hour in sorted(decisions)]

    def _apply(self, found: "_Decided", lease: Lease) -> PublishOutcome:
        table = found.table
        number = table.last_publish + 1
        revisions: list[Proof] = []
        add: list[DataFile] = []
        remove: list[DataFile] = []
        for decision in found.decisions:
            mine = found.hours[decision.hour]
            if decision.action == "publish":
                add += mine.add
                remove += mine.remove
            elif decision.action == "withdraw":
                remove += mine.main
            elif decision.action == "shut" or not mine.change:
                continue
            revisions.append(self._revision(table, mine, decision, number, found.counted))
        if revisions:
            lease.check()
            proofs = self._warehouse.proofs(self._topic)
            proofs.discard_leftovers(after_publish=table.last_publish)
            proofs.append(revisions)
            failpoints.reach("publish.before_commit", self._warehouse.home)
            lease.check()
            table.commit_publish(number=number, add=add, remove=remove)
            wrong = self._read_back(table, revisions)
            if wrong:
                proofs.append(wrong)
                revisions += wrong
        found.note_settled()
        return self._outcome(found, revisions, add)

    def _outcome(self, found: "_Decided", revisions: Sequence[Proof], added: Sequence[DataFile]) -> PublishOutcome:
        decisions, quiet = found.decisions, found.quiet

        def named(action: str) -> list[HourDecision]:
            return [one for one in decisions if one.action == action]

        for one in named("withdraw"):
            log.warning("hour_withdrawn", topic=self._topic, hour=hour_name(one.hour), reason=one.reason)
        for one in named("publish"):
            log.info("hour_published", topic=self._topic, hour=hour_name(one.hour), rows=one.row_count)
        opened = sorted({*quiet, *(one.hour for one in decisions if one.action in ("publish", "keep"))})
        through = complete_through({**dict.fromkeys(quiet, True), **{one.hour: one.is_settled for one in decisions}})
        expired = found.table.expired_through()
        return PublishOutcome(
            topic=self._topic,
            published=tuple(hour_name(one.hour) for one in named("publish")),
            withdrawn=tuple((hour_name(one.hour), one.reason) for one in named("withdraw")),
            open_hours=hour_names(opened),
            pending=tuple((hour_name(one.hour), one.reason) for one in named("keep") if not one.is_settled),
            shut=tuple((hour_name(one.hour), one.reason) for one in named("shut")),
            complete_through=None if through is None else hour_name(through),
            expired_through=None if expired is None else hour_name(expired),
            may_change_soon=any(one.may_change_soon for one in decisions),
            revisions=tuple(revisions),
            added=tuple(added),
        )

    def _revision(self, table: TopicTable, mine: HourFiles, decision: HourDecision, number: int, counted: Facts) -> Proof:
        before, loaded = mine.proof, table.offsets()
        if decision.action == "withdraw":
            verdict, after, deletes = WITHDRAWN, [], []
        elif decision.action == "publish":
            verdict, after, deletes = decision.verdict, mine.after, mine.deletes_after
        else:
            verdict = ERASED if decision.reason.startswith(ERASED) else mine.change
            after, deletes = mine.main, list(mine.deletes)
            # It notes what others did. What was loaded since the last publish is late still.
            loaded = {one.partition: one.loaded_to for one in before.offsets} if before is not None else loaded
        facts = {file.file_path: _facts(table.path_of(file), counted) for file in after}
        facts |= Taken(deletes, table.path_of).facts([*facts])
        return Proof(
            topic=self._topic,
            hour=mine.hour,
            revision=1 if before is None else before.revision + 1,
            previous=None if before is None else before.revision,
            publish=number,
            verdict=verdict,
            reason=decision.reason,
            row_count=sum(one.row_count for one in facts.values()),
            digest=f"{sum(one.digest for one in facts.values()) % MODULUS:032x}",
            files=tuple(_proven_file(path, one) for path, one in sorted(facts.items())),
            gone=tuple(sorted(mine.gone)),
            offsets=proven_offsets(facts.values(), loaded),
            windows=json.dumps(self._words(decision)),
            loads_snapshot_id=table.snapshot_id(LOADS),
            main_snapshot_id=table.snapshot_id(MAIN),
            at_ms=self._clock.now_ms(),
        )

    def _read_back(self, table: TopicTable, revisions: Sequence[Proof]) -> list[Proof]:
        """Return the next revisions of hours that the snapshot of the commit does not hold as they were to be published.

        They name the files that were to be there: the next publish compares again, and takes away what is of no load.
        """
        hours = {one.hour for one in revisions}
        standing, deletes = table.files_by_hour(MAIN, hours), table.deletes(MAIN, hours)
        wrong = []
        for proof in revisions:
            main = standing.get(proof.hour, [])
            rows = sum(file.record_count for file in main)
            merged = deletes.get(proof.hour, [])
            is_same = Counter(file.path for file in proof.files) == names_of(main, merged)
            if is_same and rows == sum(max(0, file.row_count) for file in proof.files):
                continue
            reason = (
                f"read back, {len(main)} files hold {rows} rows{f', {len(merged)} delete files take some' if merged else ''}; "
                f"{len(proof.files)} with {proof.row_count} rows were published"
            )
            log.error("hour_differs", topic=self._topic, hour=hour_name(proof.hour), reason=reason)
            wrong.append(replace(proof, revision=proof.revision + 1, previous=proof.revision, verdict=DIFFERS, reason=reason))
        return wrong

    def _words(self, decision: HourDecision) -> list[Mapping[str, Any]]:
        """Return the audit's words on the hour's windows, with the sequence numbers of their producers."""
        if self._ask_sequences is None or not decision.windows:
            return [window.words for window in decision.windows]
        found = self._ask_sequences(self._topic, decision.hour)
        named = {start: {"sequences": words} for start, words in found.items()}
        return [{**window.words, **named.get(window.window_start_ms, {})} for window in decision.windows]


@dataclass(slots=True)
class _Decided:
    """One look at the table, and what is decided of the hours that were looked at."""

    table: TopicTable
    counted: Facts
    before: Settled
    settled: Settled
    """The manifests as they are, and the hours that need no look."""
    hours: dict[int, HourFiles] = field(default_factory=dict)
    decisions: list[HourDecision] = field(default_factory=list)

    @property
    def quiet(self) -> Collection[int]:
        return self.settled.hours

    def note_settled(self) -> None:
        """Store which hours the next publish may pass over. What this one has changed is looked at once more."""
        after = Settled(self.settled.manifests, dict(self.settled.hours))
        for decision in self.decisions:
            mine = self.hours[decision.hour]
            if decision.action == "keep" and decision.is_settled and not decision.windows and not mine.change and mine.proof:
                quiet = Quiet.of(mine.proof)
                if quiet.is_untouched(self.table):
                    after.hours[decision.hour] = quiet
        if after != self.before:
            after.write(self.table.records_folder)


def _hours_of(table: TopicTable, rotten: Collection[str]) -> set[int]:
    """Return the published hours of which a file has other bytes than it had."""
    return {hour_of(file) for file in table.files(MAIN) if str(table.path_of(file)) in rotten} if rotten else set()


def _has_expired(through: int | None, hour: int) -> bool:
    return through is not None and max(hour, BEFORE_1970) <= through


def _no_files(hour: int) -> HourFiles:
    return HourFiles(hour=hour, facts=HourFacts(hour=hour), main=[], loads=[], proof=None)


def _facts(path: StorePath, counted: Mapping[str, FileFacts]) -> FileFacts:
    facts = counted.get(str(path))
    return facts if facts is not None and facts.is_still(path) else read_file(path)[0]


def _proven_file(path: str, facts: FileFacts) -> ProvenFile:
    return ProvenFile(
        path=path,
        size_bytes=facts.size_bytes,
        sha256=facts.sha256,
        row_count=facts.row_count,
        digest=f"{facts.digest:032x}",
    )


def run_publish(
    layout: Layout,
    topic: str,
    *,
    wait_ms: int = WAIT_MS,
    restore: Collection[str] = (),
    warehouse: Warehouse | None = None,
) -> PublishOutcome:
    """Publish one topic of a local platform; `restore`: names of hours, see `Gate`. Raises WarehouseError for other names.

    `warehouse`: the layout's, if it is open already.
    """
    hours = {hour_of_name(name) for name in restore}
    warehouse = warehouse or Warehouse(WarehouseSettings.of(layout))
    url = layout.audit_url
    gate = Gate(
        warehouse,
        topic,
        ask_audit(url),
        ask_days=ask_days_of_audit(url),
        ask_sequences=ask_for_sequences(url),
        restore=hours,
    )
    table = warehouse.table(topic)
    if table is None:
        return gate.publish(wait_ms=wait_ms)
    loads = TableDataset(location=table.iceberg.location(), branch=LOADS, snapshot_id=table.snapshot_id(LOADS))
    with observed_run("publish", topic, inputs=[loads]) as observed:
        outcome = gate.publish(wait_ms=wait_ms)
        report_main_if_new(layout, warehouse, topic)
        if outcome.revisions:
            observed.wrote(lambda: _published(outcome, warehouse.existing_table(topic)))
    return outcome


def _published(outcome: PublishOutcome, table: TopicTable) -> TableDataset:
    """Return what OpenLineage is told of a publish: what it added, and each revision that it proved or took away."""
    return TableDataset(
        location=table.iceberg.location(),
        branch=MAIN,
        snapshot_id=table.snapshot_id(MAIN),
        row_count=sum(file.record_count for file in outcome.added),
        size_bytes=sum(file.file_size_in_bytes for file in outcome.added),
        file_count=len(outcome.added),
        topic=outcome.topic,
        hours=[_hour_fact(proof) for proof in outcome.revisions],
    )


def _hour_fact(proof: Proof) -> HourFact:
    windows = json.loads(proof.windows)
    missing, doubled, altered = (sum(one.get(name) or 0 for one in windows) for name in ("missing", "doubled", "altered"))
    return HourFact(
        hour=hour_name(proof.hour),
        verdict=proof.verdict,
        revision=proof.revision,
        row_count=proof.row_count,
        missing=missing,
        doubled=doubled,
        altered=altered,
    )
