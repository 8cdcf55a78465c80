"""What must hold after each publish, counted by what a reader of `main` gets: no false COMPLETE, no wrong number, no row twice,
of no record or with another content, nothing back that others removed, nothing withheld from hours that nobody touched.
"""

from collections import Counter

from headrace.spark.publish.publish_job import PublishOutcome
from headrace.spark.warehouse.hours import hour_name
from headrace.spark.warehouse.proofs import AUDITED, DIFFERS, NOT_PUBLISHED
from tests.support.table_world.world import TableWorld


class WrongTable(AssertionError):
    """A revision, or a row for readers, that is not the truth."""


def check(seed: int) -> None:
    """Play one history. Raises WrongTable (or whatever the publish raises)."""
    world = TableWorld(seed).run(_look)
    for hour in world.hours:
        told = world.told.get(hour, [])
        is_sound = Counter(told) == Counter((offset, 0) for offset in world.records(hour))
        if hour in world.touched or not is_sound or not told:
            continue
        last = world.history(hour)[-1:]
        if [one.verdict for one in last] != ["COMPLETE"] or Counter(world.readers(hour)) != Counter(told):
            _fail(world, hour, "nobody touched it, all is told, and readers do not get all of it")


def _look(world: TableWorld, done: PublishOutcome) -> None:
    fresh = {(one.hour, one.revision) for one in done.revisions}
    for hour in world.hours:
        if world.is_hidden(hour):
            continue
        history, rows = world.history(hour), world.readers(hour)
        last = history[-1] if history else None
        if last is None or last.verdict in NOT_PUBLISHED:
            if rows:
                _fail(world, hour, "it is not published, and readers get rows of it")
            continue
        if last.verdict == DIFFERS:
            continue  # said, and what the next publish takes away
        records = {(offset, 0) for offset in world.records(hour)}
        if len(set(rows)) != len(rows) or not set(rows) <= records:
            _fail(world, hour, "readers get rows twice, of no record or with another content, and are told nothing")
        if last.row_count != len(rows):
            _fail(world, hour, f"readers get {len(rows)} rows, and the proof says {last.row_count}")
        told = world.told.get(hour, [])
        if last.verdict in AUDITED and (hour, last.revision) in fresh and Counter(told) != Counter(rows):
            _fail(world, hour, f"the audit had counted {len(told)} rows, readers get {len(rows)}, and it says {last.verdict}")
        if back := {offset for offset, _ in rows} & world.removed.get(hour, set()):
            _fail(world, hour, f"others removed {sorted(back)}, and a publish brought them back")


def _fail(world: TableWorld, hour: int, claim: str) -> None:
    proofs = [(one.revision, one.verdict, one.row_count, one.reason) for one in world.history(hour)]
    raise WrongTable(
        f"seed {world.seed}, {hour_name(hour)}: {claim}\nedges {sorted(world.edges)}\nproofs {proofs}\n"
        f"readers {sorted(world.readers(hour))}\ntold {sorted(world.told.get(hour, []))}\nremoved {world.removed.get(hour)}"
    )


def first_failure(seeds: range) -> tuple[int, str] | None:
    """Return the lowest seed whose history is told wrongly, with what is wrong; None when all are right."""
    for seed in seeds:
        try:
            check(seed)
        except Exception as error:
            return seed, f"{type(error).__name__}: {error}"
    return None
