"""Whether the books of one window balance. Values in, verdict out; `now_ms` is one of them. Source: DESIGN.md section 6.

The order of the argument, tier by tier: every run of every producer has sealed the window; the live log was read to its
end after the last seal; each later tier has accounted for the offsets where the tier before it holds the window. Where
that holds, the two tiers are compared, partition by partition: in = out + named losses. Where it does not yet hold, the
window is OPEN; where whoever is missing has stood still past its deadline, it is UNKNOWN and names them. Nothing else
makes COMPLETE. A producer that died may be retired by a person: then its last word stands for its seal, what it had
acknowledged and never reported is nobody's surplus, and a window that balances so is ACCEPTED, never COMPLETE.
"""

from collections.abc import Mapping, Sequence

from .facts import Cell, Difference, Kind, TopicFacts, Verdict, WindowFacts
from .runs import Run, RunKey
from .tiers import LIVE, PRODUCER, TierRule

MOST_REASONS = 4
AUDIT = "audit"
"""Named as silent when the audit itself cannot hear: its topic or the live cluster does not answer."""


def decide(topic: TopicFacts, window: WindowFacts, *, now_ms: int) -> Verdict:
    """Return the verdict on `window` as of `now_ms`."""
    return _Judgement(topic, window, now_ms).verdict()


class _Judgement:
    """The argument on one window: what is settled so far, what is waited for, who is silent, what differs."""

    __slots__ = (
        "differences",
        "doubts",
        "heard_ms",
        "now_ms",
        "retired",
        "settled",
        "silent",
        "tiers",
        "topic",
        "waiting",
        "window",
    )

    def __init__(self, topic: TopicFacts, window: WindowFacts, now_ms: int) -> None:
        self.topic = topic
        self.window = window
        self.now_ms = now_ms
        self.heard_ms = now_ms if topic.heard_all_ms is None else topic.heard_all_ms
        self.settled: dict[str, bool] = {}
        self.tiers: dict[str, int | None] = {}
        self.waiting: list[str] = []
        self.silent: dict[str, str] = {}
        """Who → in words. A dict keeps the order and each name once."""
        self.doubts: list[str] = []
        self.retired: dict[str, str] = {}
        """Instance → who took its seal's place, in words."""
        self.differences: list[Difference] = []

    def verdict(self) -> Verdict:
        for rule in self.topic.rules:
            if rule.name == PRODUCER:
                self.settled[PRODUCER] = self._producers_sealed(rule)
            elif rule.name == LIVE:
                self.settled[LIVE] = self._live_read(rule)
                if self.settled[LIVE] and rule.before is not None:
                    self.settled[LIVE] = self._compare_producers(rule.deadline_ms)
            else:
                self.settled[rule.name] = self._follows(rule)
            self.tiers[rule.name] = self._count(rule.name)
        return self._sum_up()

    # -- who has said all ---------------------------------------------------------------------------------------------

    def _blame(self, who: str, since_ms: int, deadline_ms: int, waiting_for: str) -> None:
        """Wait for `who`, or call it silent when it has stood still since `since_ms` for longer than its deadline."""
        still_ms = self.heard_ms - max(since_ms, self.topic.listening_since_ms)
        if still_ms > deadline_ms:
            self.silent.setdefault(who, f"{waiting_for} (silent for {still_ms // 1000} s)")
        else:
            self.waiting.append(waiting_for)

    def _seen_ms(self) -> int:
        """Return when anything was last learnt about this window."""
        seen = self.window.reported_ms or 0
        for by_partition in self.window.cells.values():
            for cell in by_partition.values():
                seen = max(seen, cell.updated_ms)
        return seen

    def _producers_sealed(self, rule: TierRule) -> bool:
        if not self.topic.runs and self.topic.closed_ms is None:
            self._blame(PRODUCER, self._seen_ms(), rule.deadline_ms, "no producer of this topic has announced itself")
            return False
        waits = len(self.waiting) + len(self.silent)
        for run in self.topic.runs:
            self._run_sealed(run, rule.deadline_ms)
        return len(self.waiting) + len(self.silent) == waits

    def _run_sealed(self, run: Run, deadline_ms: int) -> None:
        name = f"{PRODUCER}:{run.key.instance}"
        if run.retired is not None:
            if self._lacks_a_word_of(run):
                self.retired[run.key.instance] = f"{name}, retired by {run.retired.by}: {run.retired.reason}"
            return
        if run.gaps:
            lost = sum(end - start for start, end in run.gaps)
            self.silent.setdefault(name, f"{lost} of the reports of {name} never arrived")
            return
        if run.sealed_ms(self.window.window_end_ms) is not None:
            return
        touches = self._is_touched_by(run)
        succeeded_at = self.topic.superseded_at.get(run.key)
        if succeeded_at is not None:
            # It ended without sealing. What it had acknowledged and not yet reported makes the live log hold more than the
            # books: that is no proof of doubles, and what it lost in memory nobody can count.
            if touches or self.window.window_start_ms < succeeded_at:
                self.silent.setdefault(name, f"an earlier run of {name} (epoch {run.key.epoch}) ended without sealing")
            return
        still_ms = self.heard_ms - max(run.heard_ms, self.topic.listening_since_ms)
        if still_ms > self.topic.presumed_dead_ms and not touches and self.window.window_start_ms > run.heard_ms:
            return
        self._blame(name, run.heard_ms, deadline_ms, f"{name} has not sealed the window")

    def _is_touched_by(self, run: Run) -> bool:
        return run.key in self.window.acknowledged or run.key in self.window.arrived

    def _lacks_a_word_of(self, run: Run) -> bool:
        """Return whether a run that will say nothing more may have had more to say about this window."""
        if not run.gaps and run.sealed_ms(self.window.window_end_ms) is not None:
            return False
        ended_ms = self.topic.superseded_at.get(run.key, run.heard_ms)
        return self._is_touched_by(run) or self.window.window_start_ms <= ended_ms

    def _live_read(self, rule: TierRule) -> bool:
        """Return whether the live log was read to its end after everything that producers said, and their words after it."""
        if rule.before is not None and not self.settled[rule.before]:
            return False
        cells = self.window.cells.get(LIVE, {})
        after_ms = self.window.reported_ms or 0
        if rule.before is not None:
            sealed = [run.sealed_ms(self.window.window_end_ms) for run in self.topic.runs]
            sealed += [run.retired.heard_ms for run in self.topic.runs if run.retired is not None]
            after_ms = max([after_ms, self.topic.closed_ms or 0, *(at for at in sealed if at is not None)])
        read = self.topic.progress.get(LIVE, {})
        if not read:
            self._blame(LIVE, max(after_ms, self._seen_ms()), rule.deadline_ms, "the live log has not been read")
            return False
        for partition, progress in read.items():
            if progress.caught_up_ms is None or progress.caught_up_ms <= after_ms:
                self._blame(
                    LIVE, max(after_ms, progress.moved_ms), rule.deadline_ms, f"live-{partition} is not read up to the last seal"
                )
                return False
        counted_ms = max((cell.updated_ms for cell in cells.values()), default=0)
        if self.topic.heard_all_ms is None or self.topic.heard_all_ms < counted_ms:
            # A producer that the audit has not heard of yet may have written these; it announced itself before it wrote.
            self.waiting.append("the audit topic is not read up to what the live log holds")
            return False
        return True

    def _follows(self, rule: TierRule) -> bool:
        """Return whether the tier has accounted for all that the tier before it holds, and the other way round."""
        before = rule.before
        if before is None:
            return True
        if not self.settled[before]:
            return False
        mine = self.topic.progress.get(rule.name, {})
        if not mine:
            self._blame(rule.name, self._seen_ms(), rule.deadline_ms, f"{rule.name} has never reported for this topic")
            return False
        held = self.window.cells.get(before, {})
        for partition, cell in held.items():
            progress = mine.get(partition)
            if not rule.is_required and self._answers_later(rule, partition, cell):
                continue
            if progress is None or not progress.covers(cell.found.first_offset, cell.found.end_offset):
                moved_ms = progress.moved_ms if progress is not None else 0
                self._blame(
                    rule.name,
                    max(cell.updated_ms, moved_ms),
                    rule.deadline_ms,
                    f"{rule.name} has not accounted for {self.topic.topic}-{partition} up to offset {cell.found.end_offset}",
                )
                return False
        theirs = self.topic.progress.get(before, {})
        for partition, cell in self.window.cells.get(rule.name, {}).items():
            progress = theirs.get(partition)
            if before != PRODUCER and (progress is None or not progress.covers(cell.found.first_offset, cell.found.end_offset)):
                before_rule = next(one for one in self.topic.rules if one.name == before)
                self._blame(
                    before,
                    max(cell.updated_ms, progress.moved_ms if progress is not None else 0),
                    before_rule.deadline_ms,
                    f"{before} has not accounted for {self.topic.topic}-{partition} up to offset {cell.found.end_offset}",
                )
                return False
        self._compare(rule)
        return True

    def _answers_later(self, rule: TierRule, partition: int, cell: Cell) -> bool:
        """Return whether the tier, one that nobody requires, began behind (some of) this window: it is not asked then."""
        progress = self.topic.progress.get(rule.name, {}).get(partition)
        return progress is not None and progress.begins_at > cell.found.first_offset

    # -- what they said ------------------------------------------------------------------------------------------------

    def _compare(self, rule: TierRule) -> None:
        if rule.before == PRODUCER or rule.before is None:
            return
        held = self.window.cells.get(rule.before, {})
        found = self.window.cells.get(rule.name, {})
        for partition in sorted(held.keys() | found.keys()):
            if not rule.is_required and partition in held and self._answers_later(rule, partition, held[partition]):
                continue
            came_in = held[partition].found.count if partition in held else 0
            went_out = found[partition].found.count + found[partition].found.quarantined if partition in found else 0
            self._differ(rule.name, partition, came_in, went_out)

    def _differ(self, tier: str, partition: int, came_in: int, went_out: int) -> None:
        if came_in != went_out:
            self.differences.append(
                Difference(tier=tier, partition=partition, missing=max(0, came_in - went_out), extra=max(0, went_out - came_in))
            )

    def _compare_producers(self, deadline_ms: int) -> bool:
        """Compare what producers had acknowledged with what stands in the live log under their producer ids.

        Return False where a producer that goes on may yet tell of the surplus: a late event, its report on its way.

        Instance by instance, its epochs added up. A record whose send was given up may have arrived after all: where all of
        them did the books balance, where some did nobody can say whether an acknowledged one is missing instead.
        """
        acknowledged = _by_instance(self.window.acknowledged)
        arrived = _by_instance(self.window.arrived)
        for instance in sorted(acknowledged.keys() | arrived.keys()):
            said, found = acknowledged.get(instance, {}), arrived.get(instance, {})
            spare = self.window.send_failed.get(instance, 0)
            surplus = {p: found.get(p, 0) - said.get(p, 0) for p in sorted(said.keys() | found.keys())}
            excess = sum(n for n in surplus.values() if n > 0)
            if excess and self._may_yet_tell(instance, deadline_ms):
                self.waiting.append(f"{PRODUCER}:{instance} may yet tell of {excess} late records in the live log")
                return False
            if instance in self.retired:
                if excess:
                    self.retired[instance] += f" ({excess} of its records in the live log were never reported)"
                surplus = {partition: min(n, 0) for partition, n in surplus.items()}
            elif spare and excess:
                if excess < spare:
                    self.doubts.append(f"{excess} of {spare} records that {PRODUCER}:{instance} gave up did arrive")
                    self.silent.setdefault(f"{PRODUCER}:{instance}", "does not know which of its failed sends arrived")
                    continue
                for partition, n in surplus.items():
                    forgiven = min(max(n, 0), spare)
                    spare -= forgiven
                    surplus[partition] = n - forgiven
            for partition, n in surplus.items():
                self._differ(LIVE, partition, max(0, -n), max(0, n))
        return True

    def _may_yet_tell(self, instance: str, deadline_ms: int) -> bool:
        if not any(run.key.instance == instance and not run.is_closed and run.retired is None for run in self.topic.runs):
            return False
        counted_ms = max((cell.updated_ms for cell in self.window.cells.get(LIVE, {}).values()), default=0)
        return self.heard_ms - max(counted_ms, self.topic.listening_since_ms) <= deadline_ms

    def _count(self, tier: str) -> int | None:
        """Return the tier's count of the window: None until it reported, 0 once it has passed it with none."""
        if tier == PRODUCER:
            said = self.window.acknowledged
            total = sum(sum(by_partition.values()) for by_partition in said.values())
            return total if said or self.settled[PRODUCER] else None
        cells = self.window.cells.get(tier, {})
        if cells:
            return sum(cell.found.count for cell in cells.values())
        if not self.settled[tier]:
            return None
        rule = next(one for one in self.topic.rules if one.name == tier)
        if not rule.is_required and rule.before is not None:
            held = self.window.cells.get(rule.before, {})
            if held and all(self._answers_later(rule, partition, cell) for partition, cell in held.items()):
                return None
        return 0

    def _sum_up(self) -> Verdict:
        missing = sum(one.missing for one in self.differences)
        extra = sum(one.extra for one in self.differences)
        if not all(self.settled.values()) or self.silent:
            deaf_ms = self.now_ms - (self.topic.heard_all_ms or self.topic.listening_since_ms)
            deadline_ms = max((rule.deadline_ms for rule in self.topic.rules if rule.name in (PRODUCER, LIVE)), default=0)
            if deaf_ms > deadline_ms:
                self.silent.setdefault(AUDIT, f"the audit has not been able to read its own topic for {deaf_ms // 1000} s")
            kind = Kind.UNKNOWN if self.silent else Kind.OPEN
        elif missing:
            kind = Kind.INCOMPLETE
        elif extra:
            kind = Kind.OVERCOUNTED
        else:
            kind = Kind.ACCEPTED if self.retired else Kind.COMPLETE
        bad = {one.tier for one in self.differences}
        first_bad = next((rule.name for rule in self.topic.rules if rule.name in bad), None) if bad else None
        return Verdict(
            kind=kind,
            tiers=self.tiers,
            missing=missing,
            extra=extra,
            first_bad_tier=first_bad,
            quarantined=self._quarantined(),
            losses=self.window.losses,
            unaudited=self.window.unaudited,
            redelivered=self.window.redelivered,
            silent=tuple(self.silent),
            retired=tuple(self.retired.values()),
            reason=self._reason(kind, missing, extra, first_bad),
            differences=tuple(self.differences),
        )

    def _quarantined(self) -> int:
        stages = sum(cell.found.quarantined for cells in self.window.cells.values() for cell in cells.values())
        return stages + self.window.losses.get("quarantined", 0)

    def _reason(self, kind: Kind, missing: int, extra: int, first_bad: str | None) -> str:
        match kind:
            case Kind.UNKNOWN:
                words = _some([*self.silent.values(), *self.doubts])
            case Kind.OPEN:
                words = _some(list(dict.fromkeys(self.waiting)))
            case Kind.INCOMPLETE | Kind.OVERCOUNTED:
                words = f"the first tier that differs from the one before it is {first_bad}"
            case Kind.COMPLETE:
                words = "every tier accounts for what the one before it holds"
            case Kind.ACCEPTED:
                words = "every tier accounts for what the one before it holds, but for what nobody can say of "
                words += _some(list(self.retired.values()))
        if not kind.is_final and (missing or extra):
            words += f"; so far proven: {missing} missing, {extra} extra, first at {first_bad}"
        if self.retired and kind is not Kind.ACCEPTED:
            words += f"; without the last word of {_some(list(self.retired.values()))}"
        return words


def _some(reasons: Sequence[str]) -> str:
    """Return the reasons in words, the first few of many."""
    more = len(reasons) - MOST_REASONS
    return "; ".join([*reasons[:MOST_REASONS], *([f"and {more} more"] if more > 0 else [])])


def _by_instance(by_run: Mapping[RunKey, Mapping[int, int]]) -> dict[str, dict[int, int]]:
    """Return instance → partition → records: the epochs of an instance add up."""
    added: dict[str, dict[int, int]] = {}
    for key, by_partition in by_run.items():
        mine = added.setdefault(key.instance, {})
        for partition, count in by_partition.items():
            mine[partition] = mine.get(partition, 0) + count
    return added
