"""A broker on a real file system. The power of its disk is cut, the broker restarts on what is left, and the power is cut
again. After a cut at any write of the block device, every batch acknowledged on a topic that waits for the disk is there, and
so is every batch that a consumer saw on a topic that shows only flushed data. Process, kernel, ext4 and its journal are real;
only the cut is simulated.
"""

import random
from pathlib import Path

import pytest

from tests.crash.kills import seed_of
from tests.crash.load import create_topic, read_all
from tests.crash.promises import TOPICS, Promised, all_is_kept, nothing_promised, tell_all
from tests.power.block_disk import BlockDisk, PowerCuts, mounted
from tests.power.boots import in_another_boot
from tests.support.broker import BrokerProcess


@pytest.mark.needs("block disk")
@pytest.mark.parametrize("episode", range(2))
def test_what_a_client_was_told_outlives_power_cuts_of_the_disk(zookeeper_chroot: str, tmp_path: Path, episode: int) -> None:
    chance = random.Random(seed_of(episode))
    promised = nothing_promised()
    image = None
    for life in range(2):
        home = tmp_path / f"broker-{life}"
        disk = BlockDisk(tmp_path / f"disk-{life}", home / "data", image)
        with disk, BrokerProcess(home, zookeeper_chroot, within=in_another_boot(tmp_path / f"boot-{life}")) as broker:
            live(broker.port, disk, life)
        image = home / "image"
        cuts = PowerCuts(disk, image)
        ends_at = chance.randint(disk.marks[0].count, disk.marks[-1].count)
        for count in range(ends_at + 1):
            told = told_by(disk, count, promised)
            for fate in (None, chance):
                cuts.cut(count, fate)
                with mounted(image, tmp_path / "cut") as folder:
                    all_is_kept(told, folder, {}, f"life {life}, operation {count}")
        promised = told_by(disk, ends_at, promised)  # the next life begins with the last of these cuts


def live(port: int, disk: BlockDisk, life: int) -> None:
    """Let clients write to every topic and read from it."""
    if life == 0:
        for name, (partitions, settings) in TOPICS.items():
            create_topic(port, name, partitions, settings)
    there = {topic: len(read_all(port, topic, 0)[1]) for topic in TOPICS}
    assert tell_all(port, disk, life=life, there=there) == len(disk.marks)


def told_by(disk: BlockDisk, count: int, before: Promised) -> Promised:
    """Return the promises made before this many operations had reached the disk."""
    promised = {topic: dict(batches) for topic, batches in before.items()}
    for mark in disk.marks:
        if mark.count <= count:
            promised[mark.fact.topic][mark.fact.offset] = mark.fact.data
    return promised
