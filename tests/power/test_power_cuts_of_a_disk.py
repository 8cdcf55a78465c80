"""A broker on a real file system, the power of its disk cut, the broker started again on what is left, and that cut, too: what a
client was told on a topic that waits for the disk is there after a cut at any write of the block device, and so is what a
consumer saw where only what is flushed is shown. All of it is real: process, kernel, ext4 and its journal, but for the cut.
"""

import random
import threading
import uuid
from pathlib import Path

import pytest

from headrace.broker.log import LogConfig, PartitionLog, boot
from tests.crash.kills import seed_of
from tests.crash.load import create_topic, read_all
from tests.crash.test_power_cuts_of_a_broker import BATCHES, TOPICS, consume_all, produce_all
from tests.power.block_disk import BlockDisk, PowerCuts, mounted
from tests.support.broker import BrokerProcess
from tests.unit.broker_log.small_logs import NOW_MS, fetched

Promised = dict[str, dict[int, bytes]]
"""Topic and offset to the batch that somebody was told of."""
BOOT_ID = "/proc/sys/kernel/random/boot_id"


@pytest.mark.parametrize("episode", range(2))
def test_what_a_client_was_told_outlives_power_cuts_of_the_disk(zookeeper_chroot: str, tmp_path: Path, episode: int) -> None:
    chance = random.Random(seed_of(episode))
    promised: Promised = {topic: {} for topic in TOPICS}
    image = None
    for life in range(2):
        disk = BlockDisk(tmp_path / f"disk-{life}", tmp_path / f"broker-{life}" / "data", image)
        with disk, BrokerProcess(disk.mounted.parent, zookeeper_chroot, within=_another_boot(tmp_path)) as broker:
            live(broker.port, disk, life)
        image = disk.mounted.parent / "image"
        cuts = PowerCuts(disk, image)
        ends_at = chance.randint(disk.marks[0].count, disk.marks[-1].count)
        for count in range(ends_at + 1):
            told = told_by(disk, count, promised)
            for fate in (None, chance):
                cuts.cut(count, fate)
                all_is_there(image, tmp_path / "cut", told, f"life {life}, operation {count}")
        promised = told_by(disk, ends_at, promised)  # the next life begins with the last of these cuts


def live(port: int, disk: BlockDisk, life: int) -> None:
    """Have clients write to every topic and read from it."""
    if life == 0:
        for name, entry in TOPICS.items():
            create_topic(port, name, *entry)
    there = {topic: len(read_all(port, topic, 0)[1]) for topic in TOPICS}
    work = [threading.Thread(target=produce_all, args=(port, topic, disk, life)) for topic in TOPICS]
    work += [threading.Thread(target=consume_all, args=(port, topic, disk, there[topic] + BATCHES)) for topic in TOPICS]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join(60)
        assert not thread.is_alive()


def told_by(disk: BlockDisk, count: int, before: Promised) -> Promised:
    """Return what somebody had been told when so many operations had reached the disk."""
    promised = {topic: dict(batches) for topic, batches in before.items()}
    for mark in disk.marks:
        if mark.count <= count:
            promised[mark.fact.topic][mark.fact.offset] = mark.fact.data
    return promised


def all_is_there(image: Path, folder: Path, promised: Promised, when: str) -> None:
    with mounted(image, folder):
        for topic, batches in promised.items():
            if batches:
                there = read(folder / f"{topic}-0", topic)
                missing = [offset for offset, data in batches.items() if there.get(offset) != data]
                assert not missing, f"{topic}, {when}: {missing} were promised"


def read(folder: Path, topic: str) -> dict[int, bytes]:
    """Return what a log holds for who opens it after a reboot, by offset."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boot, "current", lambda: b"another boot, 16")
        log = PartitionLog.open(folder, topic=topic, partition=0, config=LogConfig(), now_ms=NOW_MS)
    return {header.base_offset: data for header, data in fetched(log, max_bytes=1 << 20)}


def _another_boot(folder: Path) -> list[str]:
    """Return the words of a command that runs another on a system that seems to have been started anew."""
    boot_id = folder / f"boot-{uuid.uuid4()}"
    boot_id.write_text(f"{uuid.uuid4()}\n")
    return ["unshare", "--mount", "sh", "-c", f'mount --bind {boot_id} {BOOT_ID} && exec "$@"', "sh"]
