"""What a load's commit and a publish open does not grow with the hours that lie behind. Counted, not timed."""

from collections import Counter
from pathlib import Path

from bench.all_topics.history import TOGETHER, TOPIC, History
from headrace.spark.maintenance.compact_job import CompactJob
from headrace.spark.publish import publish_job
from headrace.spark.publish.publish_job import Gate
from headrace.spark.warehouse.commits.manifest_bins import BIN_HOURS
from headrace.spark.warehouse.topic_table import LOADS, MAIN
from headrace.spark.warehouse.warehouse import Warehouse
from tests.support.opened_files import opened_files

FEW = 20
MANY = FEW + 5 * BIN_HOURS
"""The same place in its bin."""


def lived(folder: Path, hours: int) -> History:
    history = History(folder)
    history.pretend(hours)
    return history


def opened_by_ten_hours(history: History, begin: int) -> tuple[Counter[str], Counter[str]]:
    """Return what the last load's commit of ten hours opens, and what their publish does."""
    for hour in range(begin, begin + TOGETHER - 1):
        history.add(hour)
    publishes, history._publish = history._publish, lambda: None  # type: ignore[method-assign]
    with opened_files() as of_load:
        history.add(begin + TOGETHER - 1)
    with opened_files() as of_publish:
        publishes()
    return of_load, of_publish


def test_a_load_and_a_publish_open_the_same_files_whatever_lies_behind(tmp_path: Path) -> None:
    """Fault: a publish read every manifest of both branches and every proof: 2.1 times as long after 3,000 hours."""
    histories = {hours: lived(tmp_path / str(hours), hours) for hours in (FEW, MANY)}
    found = {hours: opened_by_ten_hours(history, hours) for hours, history in histories.items()}
    for few, many in zip(found[FEW], found[MANY], strict=True):
        assert {kind: many[kind] for kind in ("metadata", "list", "manifest", "data")} == {
            kind: few[kind] for kind in ("metadata", "list", "manifest", "data")
        }
        assert many["manifest bytes"] <= 1.1 * few["manifest bytes"]
        assert many["data bytes"] <= 1.1 * few["data bytes"] + 1_000 * MANY, "the merged proofs are one file of any length"
    of_load, of_publish = found[MANY]
    assert (of_load["manifest"], of_publish["manifest"] > 0) == (0, True)
    # The check that finds them: without the notes everything is opened.
    table = histories[MANY].warehouse.existing_table(TOPIC)
    (table.records_folder / "settled.json").unlink()
    with opened_files() as everything:
        Gate(Warehouse(tmp_path / str(MANY)), TOPIC, lambda topic: ()).publish(wait_ms=0)
    assert everything["manifest bytes"] > 2 * found[MANY][1]["manifest bytes"]


def test_hours_that_are_settled_are_not_examined_again(tmp_path: Path, monkeypatch: object) -> None:
    history = lived(tmp_path, 40)
    looked_at: list[int] = []
    examine = publish_job.examine

    def noting(hour: int, *words: object, **named: object) -> object:
        looked_at.append(hour)
        return examine(hour, *words, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(publish_job, "examine", noting)  # type: ignore[attr-defined]
    for hour in range(40, 50):
        history.add(hour)
    assert looked_at == list(range(40, 50))
    done = Gate(history.warehouse, TOPIC, lambda topic: ()).publish(wait_ms=0)
    assert (len(done.open_hours), done.complete_through) == (50, "1970-01-03T01")
    looked_at.clear()
    Gate(history.warehouse, TOPIC, lambda topic: ()).publish(wait_ms=0)
    assert looked_at == []


def test_a_compaction_leaves_the_manifests_of_other_bins_as_they_are(tmp_path: Path) -> None:
    """Fault: all manifests became one of the whole history, which each later change wrote anew."""
    history = lived(tmp_path, MANY)

    def manifests(branch: str) -> set[str]:
        return {one.manifest_path for one in history.warehouse.existing_table(TOPIC).branch_files(branch).manifests()}

    before = {branch: manifests(branch) for branch in (LOADS, MAIN)}
    assert [len(some) for some in before.values()] == [6, 6]
    for hour in range(MANY, MANY + TOGETHER):
        history.add(hour)
    assert len(CompactJob(history.warehouse, TOPIC).run().hours) == TOGETHER
    for branch, some in before.items():
        assert len(some & manifests(branch)) >= 5
