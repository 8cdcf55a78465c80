"""Damage at any byte: a bad batch is never served, and the batches after it are, whether the log was closed cleanly or its
broker was killed. Positions are tried one by one; the flipped bit follows from the seed.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.broker.log import PartitionLog
from headrace.wire.batch.record_batch import HEADER_SIZE
from tests.crash.possible_disk import reopened
from tests.support.small_logs import NOW_MS, batch, fetched, open_log

SEED = 20_261_121
LEADER_EPOCH = range(12, 16)
"""The CRC does not cover it, so damage there cannot be detected."""
CONFIG = {"segment_bytes": 700, "index_interval_bytes": 200}


class Original:
    """A log of some segments on disk, and where its batches are."""

    def __init__(self, folder: Path, *, closed: bool) -> None:
        self.folder = folder
        log = open_log(folder, **CONFIG)
        for number in range(14):
            log.append(batch(b"%04d" % number + b"." * 60, producer_id=7, epoch=0, sequence=number), NOW_MS)
            if number == 9:
                log.flush()
        self.batches = {header.position: data for header, data in fetched(log)}
        if closed:
            log.close()
        else:
            job = log.checkpoint_job()
            assert job is not None
            job.run()
        self.numbers = {path.name: path.stat().st_ino for path in folder.iterdir()}

    @property
    def last(self) -> int:
        return max(self.batches)

    def damaged(self, copy: Path, damage: Callable[[Path], None]) -> Iterator[PartitionLog]:
        """Yield the damaged copy, opened. It passes for the original file by file, so that its sidecars are believed."""
        shutil.copytree(self.folder, copy)
        damage(copy)
        with reopened({(copy / name).stat().st_ino: number for name, number in self.numbers.items()}, after_power_cut=False):
            log = open_log(copy, **CONFIG)
            yield log
            while (scrub := log.scrub_job()) is not None:
                scrub.run()
                scrub.done()
            yield log
            log.close()
            yield open_log(copy, **CONFIG)
        shutil.rmtree(copy)


@pytest.fixture(params=["closed", "killed"])
def original(request: pytest.FixtureRequest, tmp_path: Path) -> Original:
    return Original(tmp_path / "original", closed=request.param == "closed")


def change(offset: int, at: int, data: bytes) -> Callable[[Path], None]:
    """Return a function that overwrites bytes of the batch at `offset`."""

    def damage(folder: Path) -> None:
        path = max(path for path in folder.glob("*.log") if int(path.stem) <= offset)
        with path.open("r+b") as file:
            file.seek(offset - int(path.stem) + at)
            file.write(data)

    return damage


def served(log: PartitionLog, seed: int) -> dict[int, bytes]:
    """Return what a client receives; every batch's CRC is checked."""
    return {header.position: data for header, data in fetched(log, seed=seed)}


def holds(log: PartitionLog, original: Original, hurt: int, seed: int) -> None:
    """Assert that the damaged batch is not served and all others are. Damage to the last one is a torn tail: the log continues
    from there.
    """
    there = served(log, seed)
    assert there == {offset: data for offset, data in original.batches.items() if offset != hurt}
    if hurt != original.last:
        assert log.log_end_offset == original.last + len(original.batches[original.last])


@pytest.mark.parametrize("which", [0, 5, 8, 13])
def test_a_flipped_bit_costs_one_batch_and_no_other(original: Original, tmp_path: Path, which: int) -> None:
    chance = random.Random(f"{SEED}/{which}")
    hurt = sorted(original.batches)[which]
    data = original.batches[hurt]
    for at in range(len(data)):
        if at in LEADER_EPOCH or (at > HEADER_SIZE and at % 7):
            continue
        flipped = bytes([data[at] ^ 1 << chance.randrange(8)])
        for log in original.damaged(tmp_path / "copy", change(hurt, at, flipped)):
            try:
                holds(log, original, hurt, at)
            except BaseException as error:
                error.add_note(f"batch {which} at offset {hurt}, byte {at}: {data[at]} became {flipped[0]}")
                raise


@pytest.mark.parametrize("which", [0, 5, 8, 13])
def test_a_hole_of_zeros_costs_what_it_covers_and_nothing_behind_it(original: Original, tmp_path: Path, which: int) -> None:
    hurt = sorted(original.batches)[which]
    size = len(original.batches[hurt])
    for at in range(0, size, 16):
        for log in original.damaged(tmp_path / "copy", change(hurt, at, bytes(min(16, size - at)))):
            if at == 0 or at not in LEADER_EPOCH:
                there = served(log, at)
                assert hurt not in there or there[hurt] == original.batches[hurt]
                assert there.keys() | {hurt} == original.batches.keys()


def test_a_torn_tail_is_cut_and_appends_go_on_there(tmp_path: Path) -> None:
    original = Original(tmp_path / "original", closed=False)
    size = len(original.batches[original.last])

    def torn(folder: Path) -> None:
        path = max(folder.glob("*.log"))
        os.truncate(path, path.stat().st_size - size + kept)

    for kept in range(size):
        for log in original.damaged(tmp_path / "copy", torn):
            assert served(log, kept) == {offset: data for offset, data in original.batches.items() if offset != original.last}
            assert log.log_end_offset == original.last
