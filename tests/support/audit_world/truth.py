"""The truth of one window, counted record by record. Knows nothing of CRCs, ranges or sweeps."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .edge_truth import at_the_edges
from .hearing import GROUP
from .producers import Run
from .records import ACKNOWLEDGED, Entry, Log
from .world import World


@dataclass
class Truth:
    """What is true of one window."""

    missing: Counter[str] = field(default_factory=Counter)
    """Tier → records."""
    doubled: Counter[str] = field(default_factory=Counter)
    altered: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    """Name → records."""
    unaudited: int = 0
    is_told: bool = True
    """Whether everything that is to be known is on the audit topic, or was read."""
    is_waiting: bool = False
    """Whether a run has more to say."""
    may_wait: bool = False
    """Whether a run that sealed the window continues."""
    is_hidden: bool = False
    """Whether some of it lay where the audit could not read in time."""
    is_double_to_be_seen: bool = False
    """Whether two copies of a record were read on live or, where it expired unread, are in the mirror's log."""
    is_held: bool = False
    """Whether the audit topic has a promise of records of which nothing tells what became of them."""
    by_a_person: bool = False
    named: dict[str, Counter[tuple[str, int, int]]] = field(default_factory=lambda: defaultdict(Counter))
    """Tier → what is wrong, partition, offset → how often."""
    accepted: set[str] = field(default_factory=set)
    """Tiers of which an operator has accepted just these records."""

    @property
    def first_bad(self) -> str | None:
        order = ("live", "mirror", "offline", "warehouse", "consumer:rates", "quarantine")
        return next((tier for tier in order if self.missing[tier] or self.doubled[tier] or self.altered[tier]), None)

    @property
    def is_balanced(self) -> bool:
        """Whether nothing is missing or altered but what an operator has accepted."""
        return not any(
            count for counts in (self.missing, self.altered) for tier, count in counts.items() if tier not in self.accepted
        )

    @property
    def kind(self) -> str:
        for kind, counts in (("INCOMPLETE", self.missing), ("ALTERED", self.altered), ("DOUBLED", self.doubled)):
            if any(count for tier, count in counts.items() if tier not in self.accepted):
                return kind
        if self.lost.total():
            return "ACCOUNTED"
        return "ACCEPTED" if self.by_a_person or self.accepted else "COMPLETE"


def truth_of(world: World, window: int, *, only_read: bool = False) -> Truth:
    """Return what is true of the window; with `only_read`, of those records that the audit has met in the live log."""
    # Of a topic of which nobody has announced himself, no window is decided.
    truth = Truth(may_wait=bool(world.unread), is_waiting=not any(run.is_known for run in world.runs))
    for partition in world.partitions:
        _at_live(world, window, partition, truth)
        for tier in (world.mirror, world.offline, world.warehouse, world.group):
            before, log = tier.before[partition], tier.logs[partition]
            met = world.live[partition].has_told if only_read else None
            copied = _damaged(world, window, partition) if tier is world.group else []
            former = _former(world, window, partition) if before is world.live[partition] else {}
            _between(tier.name, window, (partition, before, log), truth, met, {one.offset for one in copied}, former)
    for run in (one for one in world.runs if one.is_known):
        _run(world, window, run, truth)
    at_the_edges(world, window, truth)
    return truth


def _run(world: World, window: int, run: Run, truth: Truth) -> None:
    truth.lost.update(world.losses.get((run.instance, run.epoch, window), {}))
    has_gap = any(at < run.last_heard for at in run.vanished)
    has_sealed = window in run.sealed and run.sealed[window] <= run.last_heard and not has_gap
    if run.between is not None and not run.between[0] <= window < run.between[1] and not _was_met(world, window, run):
        return
    if run.holds is not None:
        _held(window, run, truth, has_gap=has_gap, has_sealed=has_sealed)
    elif run.is_retired:
        truth.by_a_person |= not has_sealed
    elif has_gap or not has_sealed:
        truth.is_waiting = True
    elif not run.has_said_all:
        truth.may_wait = True


def _held(window: int, run: Run, truth: Truth, *, has_gap: bool, has_sealed: bool) -> None:
    """What is true of a run that says what it holds: each record counts that `log` took with a promise that was heard."""
    is_open = any(at == window and promised <= run.last_heard for at, promised in run.open.values())
    truth.is_held |= is_open
    is_held = window in run.heard_holds
    if run.is_retired:
        truth.by_a_person |= is_open or has_gap or is_held
    elif has_gap or is_open:
        truth.is_waiting = True
    elif is_held or not has_sealed or not run.has_said_all:
        truth.may_wait = True


def _was_met(world: World, window: int, run: Run) -> bool:
    """Return whether anybody knows that the run logged events of the window: it said so, or the audit has read one of them.

    (It is asked of a run that breaks its announcement. Where its records expired before they were read, nobody can know.)
    """
    return (run.instance, run.epoch, window) in world.losses or any(
        one.window == window and one.producer_id == run.producer_id and log.has_told(one.offset)
        for log in world.live.values()
        for one in log.held
    )


def _at_live(world: World, window: int, partition: int, truth: Truth) -> None:
    log = world.live[partition]
    mirrored = world.mirror.logs[partition].held
    copied = {one.offset for one in mirrored}
    copied_well = {one.offset for one in mirrored if not one.content}
    copies: dict[int, list[Entry]] = {}
    for one in log.held:
        if one.window == window:
            copies.setdefault(one.record, []).append(one)
            if one.producer_id not in world.announced:
                truth.unaudited += 1
            if not log.has_told(one.offset):
                truth.is_hidden = True
    for run in (one for one in world.runs if one.is_known):
        for batch in run.batches:
            if batch.window != window or batch.partition != partition:
                continue
            end, places, last = run.standing(batch)
            for record in batch.records:
                there = copies.get(record, [])
                known = [one for one in there if one.numbers in places]
                unreported = len(there) - len(known)
                if run.is_retired:
                    truth.by_a_person |= unreported > 0
                else:
                    truth.doubled["live"] += unreported
                if not places:
                    continue
                if not known:
                    if end == ACKNOWLEDGED or (end is None and not run.is_retired):
                        truth.missing["live"] += 1
                    else:
                        truth.lost["send_failed"] += 1
                truth.doubled["live"] += max(0, len(known) - 1)
                to_be_seen = [one for one in known if log.has_told(one.offset) or one.offset in copied_well]
                truth.is_double_to_be_seen |= len(to_be_seen) > 1
                seen = [one for one in known if len(known) == 1 or log.has_told(one.offset) or one.offset in copied]
                if any(one.content and (end is not None or one.numbers != last) for one in seen):
                    truth.altered["live"] += 1
    read = {one.offset: one for at, one in world.lost_after_reading if at == partition and one.window == window}
    stands = {one.record for one in log.held}  # a second copy that is lost is not a loss of the record
    lost = [one.crc for one in read.values() if one.record not in stands]
    lost += [one.crc for one in _damaged(world, window, partition) if one.offset not in read]
    truth.missing["live"] += sum(crc not in world.said for crc in lost)


def _damaged(world: World, window: int, partition: int) -> list[Entry]:
    """Return what the mirror has of records that were damaged on live."""
    bad = [(low, high) for low, high, why in world.live[partition].skipped if why == "corrupt"]
    held = world.mirror.logs[partition].held if bad else []
    return [one for one in held if one.window == window and any(low <= one.offset < high for low, high in bad)]


def _former(world: World, window: int, partition: int) -> dict[int, Entry]:
    """Return what live held once, and the audit had read, of a tail that was cut off."""
    return {
        one.offset: one for one in world.live[partition].cut if one.window == window and (partition, one.offset) in world.was_read
    }


def _between(
    tier: str,
    window: int,
    logs: tuple[int, Log, Log],
    truth: Truth,
    met: Callable[[int], bool] | None,
    copied: set[int],
    former: Mapping[int, Entry],
) -> None:
    """Compare one tier with the one before it; of the records at `copied` it has to say whether it has them. `former`: what stood
    in the tier before when it was copied, and does not any more.
    """
    partition, before, log = logs
    came: dict[int, list[Entry]] = {}
    went: dict[int, list[Entry]] = {}
    for one in before.held:
        if one.window == window:
            came.setdefault(one.offset, []).append(one)
    for one in (*log.held, *log.aside):
        if one.window == window:
            went.setdefault(one.offset, []).append(one)
    for offset in came.keys() | went.keys() | copied:
        if met is not None and not met(offset):
            continue
        here, there = came.get(offset, []), went.get(offset, [])
        is_damaged = any(low <= offset < high for low, high, why in before.skipped if why == "corrupt")
        # If a record is damaged on live and the mirror has no copy, only a tier that reported it knows of it.
        is_unknown = is_damaged and not here and tier == GROUP and offset not in copied
        if not log.has_told(offset) and not is_unknown:
            truth.is_told = False
        if here and not there:
            if any(low <= offset < high for low, high, why in log.skipped if why == "expired"):
                truth.lost["expired"] += 1
            else:
                truth.missing[tier] += 1
                truth.named[tier]["missing", partition, offset] += 1
        came_in = len(here) or (1 if is_damaged or offset in former else 0)
        doubled = max(0, len(there) - came_in)
        if doubled:
            truth.doubled[tier] += doubled
            truth.named[tier]["doubled", partition, offset] += doubled
        origin = here or [former[offset]] if here or offset in former else []
        contents = {(one.record, one.content) for one in origin}
        if origin and any((one.record, one.content) not in contents for one in there):
            truth.altered[tier] += 1
            truth.named[tier]["altered", partition, offset] += 1
