"""Power cuts of a serving broker. On a topic that waits for the disk, every acknowledged batch is there after a cut at any
moment. On every topic that shows only flushed data, so is every batch that a consumer saw. Real sockets, threads and logs on a
recorded disk.
"""

import shutil
from pathlib import Path

from tests.crash.disk_operations import Mark
from tests.crash.fates import AnyKept, Fate
from tests.crash.promises import BATCHES, DURABLE, TOPICS, all_is_kept, nothing_promised, tell_all
from tests.crash.recorded_disk import RecordedDisk
from tests.support.serving_broker import ServingBroker

SEED = 20_261_121


def test_what_a_client_was_told_outlives_any_power_cut(tmp_path: Path) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    disk = RecordedDisk(root)
    with disk, ServingBroker(root, topics={**TOPICS}) as broker:
        told = tell_all(broker.port, disk)
    assert disk.is_complete(tmp_path / "whole")
    assert told == sum(isinstance(operation, Mark) for operation in disk.operations)
    assert told == BATCHES * (len(TOPICS) + len(DURABLE) + 1), "readers of all, writers of three, one of whom sends twice"
    cut_everywhere(disk, tmp_path / "cut")


def cut_everywhere(disk: RecordedDisk, scratch: Path) -> None:
    promised = nothing_promised()
    for count, operation in enumerate([*disk.operations, None]):
        is_mark = isinstance(operation, Mark)
        if count and isinstance(mark := disk.operations[count - 1], Mark):
            fact = mark.fact
            promised[fact.topic][fact.offset] = fact.data
        if is_mark:
            continue  # nothing happens on the disk until the next one
        for fate in (Fate(), AnyKept(f"{SEED}/{count}", in_any_order=True)):
            numbers = disk.after(count).write_out(scratch, fate)
            all_is_kept(promised, scratch, numbers, f"operation {count}, {fate}")
            shutil.rmtree(scratch)
