"""Passing over settled hours changes no decision. The oracle is the same gate without its notes, which looks at every hour."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.runtime.clock import ManualClock
from headrace.spark.maintenance.compact_job import CompactJob
from headrace.spark.maintenance.retention_job import RetentionJob
from headrace.spark.maintenance.settings import CompactSettings
from headrace.spark.publish.gate import AuditedWindow
from headrace.spark.publish.publish_job import Gate
from headrace.spark.publish.settled import NAME
from headrace.spark.warehouse.commits.manifest_bins import merge_manifests
from headrace.spark.warehouse.topic_table import LOADS, MAIN
from tests.support.other_hands import compact, files, rewrite, roll_back
from tests.support.stored_rows import HOUR_MS
from tests.support.stored_table import Stored

TOPIC = "clicks"
NOW = ManualClock(1_000 * HOUR_MS)


class World:
    """A table of which the audit keeps the windows of the last two hours only."""

    def __init__(self, folder: Path) -> None:
        self.stored = Stored(folder, TOPIC)
        self.newest = -1
        self.kept = 2

    def hour(self) -> None:
        self.newest += 1
        self.stored.load(self.newest, 3)

    def late(self, hour: int) -> None:
        self.stored.load(hour, 2)

    def ask(self, topic: str) -> Sequence[AuditedWindow]:
        return [one for one in self.stored.audit.ask(topic) if one.hour > self.newest - self.kept]

    def gate(self) -> Gate:
        return Gate(self.stored.warehouse, TOPIC, self.ask)

    def publish(self) -> None:
        self.stored.count()
        self.gate().publish(wait_ms=0)

    def said(self) -> dict[int, tuple[str, bool]]:
        """Return hour → what would be done with it, and whether it is settled."""
        found = self.gate()._decided(0)
        said = {one.hour: (one.action, one.is_settled) for one in found.decisions}
        assert not said.keys() & found.quiet
        return {**said, **{hour: ("keep", True) for hour in found.quiet}}

    def check(self, what: str) -> None:
        """Compare with a gate that knows nothing."""
        notes = self.stored.warehouse.existing_table(TOPIC).records_folder / NAME
        with_notes, text = self.said(), notes.read_bytes() if notes.exists() else None
        if text is not None:
            notes.unlink()
        assert with_notes == self.said(), what
        if text is not None:
            notes.write_bytes(text)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Six published hours; of four the audit keeps no window, and they are noted as settled."""
    found = World(tmp_path)
    for _ in range(6):
        found.hour()
        found.publish()
    found.publish()
    assert sorted(found.gate()._decided(0).quiet) == [0, 1, 2, 3]
    return found


def of_hour(world: World, hour: int, branch: str = MAIN) -> list[Path]:
    table = world.stored.warehouse.existing_table(TOPIC)
    return [Path(str(table.path_of(file))) for file in table.files(branch, [hour])]


def test_a_quiet_hours_file_that_is_gone_or_changed_is_found_at_the_next_publish(world: World) -> None:
    of_hour(world, 0)[0].unlink()
    rewrite(of_hour(world, 1)[0], lambda rows: rows.slice(0, 2))
    world.check("gone and changed")
    said = world.said()
    assert [said[hour] for hour in range(4)] == [("withdraw", False)] * 2 + [("keep", True)] * 2


def test_a_quiet_hour_that_others_changed_gets_its_proof(world: World) -> None:
    compact(world.stored.warehouse, MAIN, 0)
    compact(world.stored.warehouse, MAIN, 1, lambda rows: rows.slice(0, 2))
    world.check("compacted by others")
    world.publish()
    history = world.stored.warehouse.proofs(TOPIC).read(up_to_publish=99)
    assert [history[hour][-1].verdict for hour in (0, 1, 2)] == ["COMPACTED", "REMOVED", "COMPLETE"]


def test_late_rows_of_a_quiet_hour_wait_for_the_audit(world: World) -> None:
    world.late(1)
    world.check("late")
    assert world.said()[1] == ("keep", False)
    world.kept = 100
    world.publish()
    assert len(of_hour(world, 1)) == 2


def test_a_quiet_hour_without_its_proofs_is_withdrawn(world: World) -> None:
    world.stored.warehouse.proofs(TOPIC).iceberg.delete("hour == 2")
    world.check("proofs deleted")
    assert world.said()[2] == ("withdraw", False)


def test_damaged_notes_are_made_anew(world: World) -> None:
    notes = world.stored.warehouse.existing_table(TOPIC).records_folder / NAME
    before = notes.read_bytes()
    for text in (b"", b"[]", b'{"v": 2}', before[: len(before) // 2], b'{"v": 1, "manifests": {}, "hours": {}}'):
        notes.write_bytes(text)
        assert world.gate()._decided(0).quiet == {}
    world.publish()
    assert notes.read_bytes() == before


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_happens_to_a_table_the_decisions_are_those_of_a_look_at_every_hour(world: World, seed: int) -> None:
    chosen = random.Random(seed)
    snapshots: list[int | None] = []
    passed_over = 0

    def any_hour() -> int:
        return chosen.randrange(world.newest + 1)

    def rolled_back() -> None:
        if snapshots:
            roll_back(world.stored.warehouse, chosen.choice(snapshots))

    def touched() -> None:
        some = [path for path in files(world.stored.warehouse, chosen.choice((LOADS, MAIN))) if path.exists()]
        if some:
            rewrite(chosen.choice(some), lambda rows: rows)

    def compacted_by_others() -> None:
        hour = any_hour()
        if of_hour(world, hour) and all(path.exists() for path in of_hour(world, hour)):
            compact(world.stored.warehouse, MAIN, hour)

    steps = {
        "hour": world.hour,
        "late": lambda: world.late(any_hour()),
        "publish": world.publish,
        "publish again": world.publish,
        "rolled back": rolled_back,
        "touched": touched,
        "compacted by others": compacted_by_others,
        "compacted": CompactJob(world.stored.warehouse, TOPIC, CompactSettings(), clock=NOW).run,
        "merged": lambda: [
            merge_manifests(world.stored.warehouse.existing_table(TOPIC), branch, at_least=2) for branch in (LOADS, MAIN)
        ],
        "retention": lambda: RetentionJob(
            world.stored.warehouse, TOPIC, keep_hours=1_000 - world.newest + 4, apply=True, clock=NOW
        ).run(),
    }
    for _ in range(12):
        name = chosen.choice([*steps, "hour", "publish"])
        steps[name]()
        snapshots = [one.snapshot_id for one in world.stored.warehouse.existing_table(TOPIC).iceberg.metadata.snapshots][-4:]
        world.check(f"after {name}, seed {seed}")
        passed_over += len(world.gate()._decided(0).quiet)
    assert passed_over, "nothing was compared"
