"""What must hold of applications that were killed or ended, given what they wrote down and what the topics hold. Pure.

*returned True* is a subset of rows + quarantine + named drops, and those are a subset of *attempted*; at most one event per
thread and kill is undecided; nothing is there twice; each thread's events are in order within a partition. A `kill -9` of an
application that sends for itself (direct) may lose what its buffer held, and its run is never reported as closed; with a journal
it loses nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.audit.model.messages import QUARANTINED
from tests.chaos_sdk.ledgers import ProcessLedger, number_of, thread_of

MOST_SHOWN = 5


@dataclass
class Held:
    """What one topic and its quarantine hold, by event id."""

    rows: list[tuple[int, str]] = field(default_factory=list)
    """(Partition, id) in the partition's order."""
    quarantined: list[str] = field(default_factory=list)


@dataclass
class Told:
    """What the reports of one run say at the end."""

    losses: Mapping[str, int] = field(default_factory=dict)
    is_closed: bool = False


def violations(
    processes: Sequence[ProcessLedger], held: Held, told: Mapping[str, Told], *, has_journal: bool, buffer_records: int
) -> list[str]:
    """Return what does not hold, one line each; nothing where all is well. `told` is by instance."""
    found = [*_of_topic(processes, held)]
    there = {event_id for _, event_id in held.rows} | set(held.quarantined)
    for process in processes:
        run = told.get(process.instance or "", Told())
        found += [f"{process.name}: {fault}" for fault in process.faults]
        found += _of_process(process, there, run, has_journal=has_journal, buffer_records=buffer_records)
    return found


def _of_topic(processes: Iterable[ProcessLedger], held: Held) -> Iterable[str]:
    attempted = {event_id for process in processes for event_id in process.attempted}
    dropped = {event_id for process in processes for event_id in process.dropped}
    refused = {event_id for process in processes for event_id in process.refused}
    counts = Counter([event_id for _, event_id in held.rows] + held.quarantined)
    rows = {event_id for _, event_id in held.rows}
    yield from _unless_empty("doubled", {event_id for event_id, count in counts.items() if count > 1})
    yield from _unless_empty("never attempted", set(counts) - attempted)
    yield from _unless_empty("stored, though log returned False", rows & (dropped | refused))
    last: dict[tuple[int, str], int] = {}
    for partition, event_id in held.rows:
        place = (partition, thread_of(event_id))
        if last.get(place, -1) > number_of(event_id):
            yield f"out of order in partition {partition}: {event_id} after {last[place]}"
        last[place] = number_of(event_id)


def _of_process(process: ProcessLedger, there: set[str], run: Told, *, has_journal: bool, buffer_records: int) -> Iterable[str]:
    name = process.name
    missing = process.taken - there
    unquarantined = process.refused - there
    named = sum(count for loss, count in run.losses.items() if loss != QUARANTINED)
    if len(process.undecided) > (len(process.threads) if process.was_killed else 0):
        yield f"{name}: {len(process.undecided)} undecided in {len(process.threads)} threads: {_shown(process.undecided)}"
    if process.was_killed and not has_journal:
        if len(missing) > buffer_records:
            yield f"{name}: killed, and {len(missing)} taken events are gone: its buffer holds {buffer_records} at most"
        if run.is_closed:
            yield f"{name}: killed, and its run is told as closed"
        return
    gone = missing | process.dropped | unquarantined
    if len(gone) > named:
        yield f"{name}: {len(gone)} of its events are in no topic, {dict(run.losses)} are told: {_shown(missing)} were taken"
    if has_journal and missing and not process.may_give_up:
        yield f"{name}: {len(missing)} taken by the journal are in no topic: {_shown(missing)}"
    if named > len(gone) + len(process.undecided):
        yield f"{name}: {dict(run.losses)} are told, only {len(gone)} of its events are in no topic"
    if not process.was_killed:
        yield from _of_its_end(process, run, there)


def _of_its_end(process: ProcessLedger, run: Told, there: set[str]) -> Iterable[str]:
    """A clean end: the run is closed, and the logger's own ledger balances with what the broker holds."""
    if process.closed is None:
        yield f"{process.name}: it ended without closing its logger"
        return
    if not run.is_closed and not process.is_untouched:
        yield f"{process.name}: it closed its logger, and its run is not told as closed"
    own = process.closed
    stored = len((process.taken | process.undecided) & there)
    if own["acknowledged"] + own["journaled"] != stored:
        yield f"{process.name}: its ledger says {own}, the topic holds {stored} of its events"
    if own["quarantined"] != len(process.refused & there):
        yield f"{process.name}: its ledger says {own}, the quarantine holds {len(process.refused & there)} of its events"


def _unless_empty(what: str, event_ids: set[str]) -> Iterable[str]:
    if event_ids:
        yield f"{what}: {len(event_ids)}: {_shown(event_ids)}"


def _shown(event_ids: set[str]) -> str:
    return ", ".join(sorted(event_ids)[:MOST_SHOWN]) + (" …" if len(event_ids) > MOST_SHOWN else "")
