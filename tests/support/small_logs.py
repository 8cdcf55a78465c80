"""Small real logs for tests: batches with known values, small segments, and a fetch loop that reads everything back."""

import os
import random
import time
from pathlib import Path

import crc32c

from headrace.broker.log import LogConfig, PartitionLog
from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import BatchBuilder, BatchHeader, crc_matches, iter_batches, iter_records

NOW_MS = time.time_ns() // 1_000_000
"""Real time, because files get their times from the system."""
MAY_2015_MS = 1_431_857_100_000
DAY_MS = 86_400_000


def batch(
    *values: bytes,
    timestamp_ms: int = NOW_MS,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
) -> bytearray:
    """Return a batch as a producer sends it, one record a value, their timestamps a millisecond apart."""
    builder = BatchBuilder(codec, producer_id, epoch, sequence)
    for index, value in enumerate(values):
        builder.append(timestamp_ms + index, None, value)
    return bytearray(builder.build())


def more_records_than_bytes(count: int = 3_000) -> bytearray:
    """Return a real batch with more records, all equal, than bytes."""
    builder = BatchBuilder(Codec.ZSTD)
    for _ in range(count):
        builder.append(NOW_MS, None, b"x" * 13)
    made = bytearray(builder.build())
    assert len(made) < count
    return made


def claiming(record_count: int) -> bytearray:
    """Return a small batch whose header claims this many records; the log never opens it."""
    made = batch(b"a")
    made[57:61] = record_count.to_bytes(4, "big")
    made[23:27] = (record_count - 1).to_bytes(4, "big")
    return set_crc(made)


def recomputed_crc(batch: bytes | bytearray | memoryview) -> int:
    """Return the CRC that a batch should carry, by the library alone: it covers everything behind the CRC itself."""
    return crc32c.crc32c(bytes(batch[21:]))


def set_crc(made: bytearray) -> bytearray:
    """Set a batch's CRC to the right value again."""
    made[17:21] = recomputed_crc(made).to_bytes(4, "big")
    return made


def open_log(folder: Path, *, now_ms: int = NOW_MS, **settings: int | bool) -> PartitionLog:
    """Open a log whose index is sparse already at a few hundred bytes."""
    config = LogConfig(**{"index_interval_bytes": 200, **settings})  # type: ignore[arg-type]
    return PartitionLog.open(folder, topic="events", partition=0, config=config, now_ms=now_ms)


def fetched(
    log: PartitionLog, *, max_bytes: int = 1_000, from_offset: int | None = None, seed: int | None = None
) -> list[tuple[BatchHeader, bytes]]:
    """Return every batch that a client's fetch loop gets, each with a good CRC.

    The loop continues at a batch's last record + 1, as clients do. With a seed each fetch has another size. Wherever the loop
    continues, `read_on` must return the same as `read`, or None.
    """
    chance = random.Random(seed)
    offset = log.log_start_offset if from_offset is None else from_offset
    found: list[tuple[BatchHeader, bytes]] = []
    while offset < log.log_end_offset:
        size = max_bytes if seed is None else chance.randint(1, max_bytes)
        on = log.read_on(offset, size, log.log_end_offset)
        piece = log.read(offset, size)
        if piece is None:
            assert on is None
            break
        assert on is None or (on.fd, on.position, len(on)) == (piece.fd, piece.position, len(piece))
        data = piece.read()
        assert len(data) == len(piece) > 0
        got = 0
        for header, view in iter_batches(data):
            assert crc_matches(view, 0, header.size_bytes)
            found.append((header, bytes(view)))
            got += header.size_bytes
            offset = header.base_offset + header.record_count
        assert got == len(data), "a region ends with a whole batch"
    return found


def checkpointed(log: PartitionLog) -> PartitionLog:
    """Return the log after its missing and outdated sidecars were written."""
    job = log.checkpoint_job()
    if job is not None:
        job.run()
        job.done()
    return log


def twelve_batches(folder: Path, **config: int | bool) -> PartitionLog:
    """Return a log of batches of one producer, one with a hole. It is not closed, as after a kill."""
    log = open_log(folder, **config)
    for number in range(12):
        if number == 5:
            log.append(claiming(150), NOW_MS)
        else:
            log.append(batch(b"%d" % number, producer_id=7, epoch=1, sequence=number - (number > 5)), NOW_MS)
    return log


def scrubbed(log: PartitionLog) -> PartitionLog:
    """Return the log after the scrub has verified everything."""
    while (job := log.scrub_job()) is not None:
        job.run()
        job.done()
    return log


def held_open(folder: Path) -> list[str]:
    """Return the names of the files in `folder` that this process holds open."""
    links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    targets = sorted(os.readlink(link) for link in links if os.path.lexists(link))
    return [Path(target).name for target in targets if target.startswith(f"{folder}/")]


def values(batches: list[tuple[BatchHeader, bytes]]) -> list[bytes | None]:
    return [record.value for _, data in batches for record in iter_records(data)]


def headers(log: PartitionLog) -> list[BatchHeader]:
    return [header for header, _ in fetched(log)]
