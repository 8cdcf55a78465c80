"""What must hold in every history: no false COMPLETE, no wrong number, no wrong first tier, no false alarm."""

import random
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, suppress

from headrace.audit.model.errors import MalformedReport
from headrace.audit.model.facts import Kind, Verdict
from headrace.audit.model.messages import ProducerReport, Report
from headrace.audit.model.tier_reports import LogKey, TierReports
from headrace.audit.model.tiers import LIVE, OFFLINE
from tests.support.audit_world.hearing import DEADLINE_MS, hear
from tests.support.audit_world.memory_journal import MemoryJournal
from tests.support.audit_world.records import TOPIC, WINDOW_MS
from tests.support.audit_world.truth import Truth, truth_of
from tests.support.audit_world.world import World

from .still import STEPS_MS, Still

LATER_MS = 5 * DEADLINE_MS
STILL_SHARE = 4
"""Of so many histories one is judged a second time, as a judge does who judges only when it must."""
BALANCED = (Kind.COMPLETE, Kind.ACCOUNTED, Kind.ACCEPTED)


class WrongVerdict(AssertionError):
    """A verdict that is not the truth."""


def check(seed: int) -> None:
    """Play one history. Raises WrongVerdict (or whatever the model raises)."""
    world = World(seed)
    early: list[tuple[int, Verdict]] = []
    still = Still(world, lambda words: _moved(world, words)) if seed % STILL_SHARE == 0 else None

    def look(at: World) -> None:
        early.extend(_look(at))
        if still is not None:
            still.look()

    world.run(look)
    for later_ms in STEPS_MS if still is not None else ():
        still.look(later_ms)
    kept = _at_the_end(world, world.books, "at the end", hidden=None)
    for window in world.windows:
        _no_early_alarm(world, window, [verdict for of, verdict in early if of == window])
    _stored(world, kept)
    _rebuilt(world, world.topic, "rebuilt")
    edges = world.edges
    if edges.is_second:
        _rebuilt(world, [world.topic[at] for at in edges.second_heard], "at a second audit")
    if "unread" in edges.faults:
        _without_reports(world)
    if edges.late.begins and "corrupt" not in world.faults and not any(log.cut for log in world.live.values()):
        _who_began_midway(world)


def _moved(world: World, words: str) -> None:
    raise WrongVerdict(f"seed {world.seed}: {words}\nfaults {sorted(world.faults)}")


def _fail(world: World, window: int, when: str, claim: str, verdict: Verdict, truth: Truth) -> None:
    raise WrongVerdict(f"seed {world.seed}, window {window}, {when}: {claim}\nfaults {sorted(world.faults)}\n{verdict}\n{truth}")


def _look(world: World) -> list[tuple[int, Verdict]]:
    """Judge in the middle of a history: what is called balanced is so, as far as everybody has spoken."""
    seen = []
    for window in world.windows:
        verdict = world.judge(window)
        if verdict is None or not verdict.kind.is_final:
            continue
        seen.append((window, verdict))
        if verdict.kind in BALANCED and world.has_heard_all:
            truth = truth_of(world, window, only_read=True)
            # A held window balances only where an operator has retired the run: ACCEPTED, or ACCOUNTED with losses by name.
            is_held = truth.is_held and not verdict.retired
            if not truth.is_balanced or is_held:
                _fail(world, window, "in between", "not balanced", verdict, truth)
    return seen


def _no_early_alarm(world: World, window: int, verdicts: list[Verdict]) -> None:
    alarms = [verdict for verdict in verdicts if verdict.differences]
    if not alarms or "corrupt" in world.faults or world.edges.has_changed:
        return  # with damage, the truth itself changed
    truth = truth_of(world, window)
    for verdict in alarms:
        _no_false_alarm(world, window, "in between", verdict, truth, but={("doubled", LIVE)})


def _no_false_alarm(
    world: World, window: int, when: str, verdict: Verdict, truth: Truth, *, but: Container[tuple[str, str]] = ()
) -> None:
    for name in ("missing", "altered", "doubled"):
        for tier in {difference.tier for difference in verdict.differences}:
            said = sum(getattr(difference, name) for difference in verdict.differences if difference.tier == tier)
            if said > getattr(truth, name)[tier] and (name, tier) not in but:
                _fail(world, window, when, f"false alarm: {name} at {tier}", verdict, truth)


def _at_the_end(world: World, books: TierReports, when: str, *, hidden: bool | None) -> dict[int, Verdict | None]:
    """Check the verdicts now and after all deadlines; return the latter."""
    late: dict[int, Verdict | None] = {}
    for window in world.windows:
        truth = truth_of(world, window)
        is_hidden = truth.is_hidden if hidden is None else hidden
        for later_ms in (0, LATER_MS):
            verdict = late[window] = world.judge(window, later_ms=later_ms, books=books)
            if verdict is None:
                if truth.is_held:
                    raise WrongVerdict(f"seed {world.seed}, window {window}, {when}: it is held, and does not exist\n{truth}")
                continue
            if verdict.kind.is_final:
                _exact(world, window, when, verdict, truth, is_hidden=is_hidden)
            elif truth.is_told and not truth.is_waiting and not truth.may_wait and not is_hidden:
                _fail(world, window, when, "everything is known, and it is not decided", verdict, truth)
            elif later_ms and verdict.kind is not Kind.UNKNOWN:
                _fail(world, window, when, "deadlines have passed, and nobody is named", verdict, truth)
    return late


def _exact(world: World, window: int, when: str, verdict: Verdict, truth: Truth, *, is_hidden: bool) -> None:
    nobody_speaks = is_hidden and _has_records_of_which_nobody_speaks(world, window)
    if (not truth.is_told and not nobody_speaks) or truth.is_waiting:
        _fail(world, window, when, "decided, and not all is told", verdict, truth)
    if is_hidden:
        _as_far_as_can_be_known(world, window, when, verdict, truth)
        return
    numbers = (verdict.missing, verdict.doubled, verdict.altered)
    if numbers != (truth.missing.total(), truth.doubled.total(), truth.altered.total()):
        _fail(world, window, when, "wrong numbers", verdict, truth)
    if verdict.first_bad_tier != truth.first_bad:
        _fail(world, window, when, "wrong first tier", verdict, truth)
    if dict(verdict.accounted) != {name: count for name, count in truth.lost.items() if count}:
        _fail(world, window, when, "wrong losses", verdict, truth)
    if verdict.kind.value != truth.kind:
        _fail(world, window, when, "wrong verdict", verdict, truth)
    if verdict.unaudited != truth.unaudited:
        _fail(world, window, when, "wrong unaudited", verdict, truth)
    for name, logs in (
        ("live", world.live),
        *((tier.name, tier.logs) for tier in (world.mirror, world.offline, world.warehouse)),
    ):
        count = sum(one.window == window for log in logs.values() for one in log.held)
        if verdict.tiers[name] != count:
            _fail(world, window, when, f"wrong count at {name}", verdict, truth)
    for difference in verdict.differences:
        told = sum(one.count for one in difference.records) + difference.more
        if told != difference.missing + difference.doubled + difference.altered:
            _fail(world, window, when, "the records are not as many as the numbers", verdict, truth)


def _as_far_as_can_be_known(world: World, window: int, when: str, verdict: Verdict, truth: Truth) -> None:
    """Part of the live log expired before the audit could read it: nothing false may be said, though not all can be."""
    if verdict.kind in BALANCED and not truth.is_balanced and not _has_records_of_which_nobody_speaks(world, window):
        _fail(world, window, when, "not balanced", verdict, truth)
    if verdict.kind in BALANCED and truth.is_double_to_be_seen:
        _fail(world, window, when, "a double that the mirror's copy proves", verdict, truth)
    _no_false_alarm(world, window, when, verdict, truth)


def _has_records_of_which_nobody_speaks(world: World, window: int) -> bool:
    """Return whether the live log got records that no report names: once they expire unread, nobody knows of them."""
    batches = [batch for run in world.runs for batch in run.batches if batch.window == window]
    return "foreign" in world.faults or bool(world.edges.runs) or any(not batch.run.standing(batch)[1] for batch in batches)


def _stored(world: World, kept: dict[int, Verdict | None]) -> None:
    """Books that were written down and read back say the same as those in memory, `kept`."""
    assert isinstance(world.journal, MemoryJournal)
    for tier, logs in world.books.book(TOPIC).logs.items():
        for partition, log in logs.items():
            world.journal.put_log(LogKey(tier, TOPIC, partition), log)
    again = world.journal.load()
    for window in world.windows:
        read = world.judge(window, later_ms=LATER_MS, books=again)
        if kept[window] != read:
            raise WrongVerdict(f"seed {world.seed}, window {window}: the store gives another verdict\n{kept[window]}\n{read}")


def _rebuilt(world: World, topic: Sequence[Report], when: str) -> None:
    """Books rebuilt from this much of the audit topic, after part of the live log has expired, say nothing that is not true."""
    with _books_anew(world, topic):
        _at_the_end(world, world.books, when, hidden=any(log.begins_at for log in world.live.values()))


def _without_reports(world: World) -> None:
    """The store and the beginning of the audit topic are lost: no window balances with records of runs unheard since."""
    draw = random.Random(f"lost reports {world.seed}")
    runs = [*world.runs, *world.edges.runs]
    if draw.random() < 0.7:  # one run began and ended in the lost part
        lost = draw.choice(runs)
        left = [one for one in world.topic if not isinstance(one, ProducerReport) or one.instance != lost.instance]
    else:
        left = world.topic[draw.randint(0, len(world.topic)) :]
    heard = {(one.instance, one.epoch) for one in left if isinstance(one, ProducerReport)}
    unheard = {run.producer_id for run in runs if (run.instance, run.epoch) not in heard}
    with _books_anew(world, left):
        ends = {partition: (0, log.end) for partition, log in world.live.items()}
        for window in world.windows:
            verdict = world.judge(window, later_ms=LATER_MS, unheard=ends)
            stored = [one for log in world.live.values() for one in log.held if one.window == window and log.has_told(one.offset)]
            if verdict is not None and verdict.kind in BALANCED and any(one.producer_id in unheard for one in stored):
                _fail(world, window, "after reports were lost", "balanced over unread reports", verdict, truth_of(world, window))


@contextmanager
def _books_anew(world: World, topic: Sequence[Report]) -> Iterator[None]:
    """Let an audit that knows nothing hear these reports, and read the logs as they are now."""
    quarantine = world.edges.quarantine
    names = ("books", "journal", "position", "lost_after_reading", "was_read", "heard_all_ms")
    kept = {name: getattr(world, name) for name in names}
    told = {id(log): log.told for log in (*world.live.values(), *world.offline.logs.values())}
    known = quarantine.forget() if quarantine is not None else None
    world.books, world.journal, world.position = TierReports(WINDOW_MS), MemoryJournal(WINDOW_MS), {}
    world.lost_after_reading, world.was_read = [], set()
    for log in (*world.live.values(), *world.offline.logs.values()):
        log.told = []
    for report in topic:
        with suppress(MalformedReport):  # a person's word on a run of which no report is left
            hear(world.books, report, world.now_ms, world.journal)
    world.now_ms += 1
    for tier in (LIVE, OFFLINE):
        world.read(tier, to_end=True)
    if quarantine is not None:
        quarantine.read(to_end=True)
    world.now_ms += 1
    world.heard_all_ms = world.now_ms
    yield
    for name, value in kept.items():
        setattr(world, name, value)
    for log in (*world.live.values(), *world.offline.logs.values()):
        log.told = told[id(log)]
    if quarantine is not None and known is not None:
        quarantine.remember(known)


def _who_began_midway(world: World) -> None:
    """The row of a sink that began somewhere in the log has the true numbers of what lies behind that."""
    late = world.edges.late
    for window in world.windows:
        verdict = world.judge(window, later_ms=LATER_MS)
        row = None if verdict is None else verdict.sinks.get(late.name)
        if row is None or verdict is None or truth_of(world, window).is_hidden:
            continue
        if not row.kind.is_final:
            behind = {
                (partition, one.offset)
                for partition, log in late.logs.items()
                for one in (*world.live[partition].held, *log.held)
                if one.window == window and one.offset >= late.begins[partition]
            }
            if verdict.kind.is_final and all(late.logs[partition].has_told(offset) for partition, offset in behind):
                _fail(
                    world, window, "at the end", f"all is told of a sink, and its row is {row}", verdict, truth_of(world, window)
                )
            continue
        missing = doubled = 0
        for partition, log in late.logs.items():
            before = Counter(
                one.offset for one in world.live[partition].held if one.window == window and one.offset >= late.begins[partition]
            )
            mine = Counter(one.offset for one in log.held if one.window == window)
            for offset in before.keys() | mine.keys():
                is_expired = any(low <= offset < high for low, high, why in log.skipped if why == "expired")
                missing += bool(before[offset] and not mine[offset] and not is_expired)
                doubled += max(0, mine[offset] - before[offset])
        if (row.missing, row.doubled) != (missing, doubled):
            claim = f"the sink that began at {late.begins} has {missing} missing, {doubled} doubled, and its row says {row}"
            _fail(world, window, "at the end", claim, verdict, truth_of(world, window))
