"""When a broker copies ZooKeeper's tree into its folder, and when it keeps the copy that it has. Real loop, played ZooKeeper."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.event_loop.loop import Loop
from headrace.broker.event_loop.worker import Worker
from headrace.broker.partitions import tree_copies
from headrace.broker.partitions.tree_copies import TreeCopies
from headrace.coordination.backup import Backup
from headrace.coordination.errors import CoordinationError
from headrace.coordination.producer_ids import ClusterId
from tests.support.processes import eventually


class Ensemble:
    """What an export says."""

    def __init__(self) -> None:
        self.cluster_id: str | None = "ours"
        self.generation = 0

    def export(self) -> Backup:
        self.generation += 1
        if self.cluster_id is None:
            raise CoordinationError("there is no cluster")
        cluster = ClusterId(cluster_id=self.cluster_id, producer_id_prefix=1)
        return Backup(cluster=cluster, next_producer_id=None, nodes={"/brokers/topics/clicks": str(self.generation)})


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    thread = threading.Thread(target=loop.run, daemon=True)
    begun = threading.Event()
    loop.post(begun.set)
    thread.start()
    assert begun.wait(10)
    yield loop
    loop.stop()
    thread.join(10)


def copies_of(loop: Loop, ensemble: Ensemble, data: Path, interval_ms: int = 10) -> TreeCopies:
    worker = Worker("copies", loop.post)
    made = TreeCopies(loop, worker, ensemble.export, data=data, cluster_id="ours", interval_ms=interval_ms)
    made.start()
    return made


def kept(data: Path) -> int:
    return int(Backup.of_json((data / "tree.json").read_text()).nodes["/brokers/topics/clicks"])


def test_each_interval_replaces_the_copy(loop: Loop, tmp_path: Path) -> None:
    copies = copies_of(loop, Ensemble(), tmp_path)
    eventually((tmp_path / "tree.json").exists, within_ms=10_000, what="a first copy")
    eventually(lambda: kept(tmp_path) > 3, within_ms=10_000, what="later copies")
    copies.stop()
    assert copies.copied_at() == (tmp_path / "tree.json").stat().st_mtime
    assert [path.name for path in tmp_path.iterdir()] == ["tree.json"]


@pytest.mark.parametrize("cluster_id", [None, "another"])
def test_a_tree_that_was_lost_does_not_replace_the_copy_and_one_that_is_back_does(
    loop: Loop, tmp_path: Path, cluster_id: str | None
) -> None:
    ensemble = Ensemble()
    copies = copies_of(loop, ensemble, tmp_path)
    eventually((tmp_path / "tree.json").exists, within_ms=10_000, what="a copy")
    ensemble.cluster_id = cluster_id
    lost_at = ensemble.generation
    eventually(lambda: ensemble.generation > lost_at + 3, within_ms=10_000, what="exports of a lost tree")
    assert kept(tmp_path) <= lost_at + 1, "one export may have been under way"
    ensemble.cluster_id, back_at = "ours", ensemble.generation
    eventually(lambda: kept(tmp_path) > back_at, within_ms=10_000, what="a copy of the tree that is back")
    copies.stop()


def test_a_change_is_copied_soon_and_once(loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_copies, "LOOK_MS", 10)
    ensemble, turns = Ensemble(), list[None]()
    copies = copies_of(loop, ensemble, tmp_path, interval_ms=3_600_000)
    eventually((tmp_path / "tree.json").exists, within_ms=10_000, what="a first copy")
    copies.note_change()
    eventually(lambda: kept(tmp_path) > 1, within_ms=10_000, what="a copy of the change")
    made = ensemble.generation

    def turn() -> None:
        turns.append(None)
        loop.call_at(loop.now_ms + 10, turn)

    loop.post(turn)
    eventually(lambda: len(turns) > 10, within_ms=10_000, what="ten times the time after which it looks for changes")
    assert ensemble.generation == made
    copies.stop()


def test_a_disk_that_takes_nothing_is_tried_again(loop: Loop, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_text("a file where the folder was")
    ensemble = Ensemble()
    copies = copies_of(loop, ensemble, data)
    eventually(lambda: ensemble.generation > 2, within_ms=10_000, what="more than one trial")
    data.unlink()
    eventually((data / "tree.json").exists, within_ms=10_000, what="a copy")
    copies.stop()


def test_an_interval_of_none_makes_no_copy_and_shows_none(loop: Loop, tmp_path: Path) -> None:
    (tmp_path / "tree.json").write_text("of earlier")
    ensemble = Ensemble()
    copies = copies_of(loop, ensemble, tmp_path, interval_ms=0)
    copies.stop()
    assert (ensemble.generation, copies.copied_at(), (tmp_path / "tree.json").read_text()) == (0, None, "of earlier")
