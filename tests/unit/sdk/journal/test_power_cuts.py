"""Power cuts, page by page: each 4 KB page of each file is on the disk as it was at the last flush, or as it is now, in any
mixture.

A durable journal loses nothing then. Another one loses what came after the last flush, counts what it can, and never returns a
record that was not written. Bytes that are damaged at will are the same to a reader.
"""

import os
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headrace.sdk.journal import Journal, JournalChunk, JournalError
from headrace.sdk.journal.files.head import HEAD_FILE
from headrace.sdk.journal.transport import JournalTransport
from tests.unit.sdk.journal.journals import read_all
from tests.unit.sdk.journal.transports import WINDOW, journal_of, started

PAGE = 4096
SEGMENT = 4 * PAGE
LARGE: dict[str, Any] = {"segment_bytes": SEGMENT, "quota_bytes": 64 * SEGMENT, "root_quota_bytes": 64 * SEGMENT}


def seed_of(case: int) -> int:
    given = os.environ.get("HEADRACE_CRASH_SEED")
    seed = int(given) if given else 20_261_123 if os.environ.get("CI") else random.randrange(1 << 32)
    print(f"HEADRACE_CRASH_SEED={seed}, case {case}")
    return seed + case


class Disk:
    """What of a folder is surely on the disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.flushed: dict[str, bytes] = {}

    def flush(self) -> None:
        self.flushed = {path.name: path.read_bytes() for path in self.folder.iterdir()}

    def after_a_power_cut(self, chance: random.Random, to: Path) -> Journal:
        """Return the journal as another boot finds it."""
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir()
        share = chance.choice((0.1, 0.5, 0.9))
        for path in self.folder.iterdir():
            now, before = path.read_bytes(), self.flushed.get(path.name)
            if before is None:
                if chance.random() < 0.3:
                    continue  # Its name did not reach the disk.
                before = bytes(len(now)) if chance.random() < 0.8 else b""
            size = len(now) if len(before) < len(now) and chance.random() < 0.8 else len(before) if before else len(now)
            pages = range(0, size, PAGE)
            content = b"".join((now if chance.random() < share else before.ljust(size, b"\0"))[at : at + PAGE] for at in pages)
            (to / path.name).write_bytes(content[:size])
        head = to / HEAD_FILE
        head.write_text(self.flushed[HEAD_FILE].decode().replace('"boot_id": "', '"boot_id": "an earlier boot '))
        return Journal(to)


def body_of(number: int, chance: random.Random) -> bytes:
    return b"%d " % number + b"x" * int(chance.expovariate(1 / 150))


def check_content(chunk: JournalChunk, bodies: list[bytes]) -> list[int]:
    """Return the numbers of the records; each is one that was written, in order, once."""
    numbers = [int(record.body.split()[0]) for record in chunk.records]
    assert [record.body for record in chunk.records] == [bodies[number] for number in numbers]
    assert numbers == sorted(set(numbers))
    return numbers


@pytest.mark.parametrize("case", range(40))
def test_a_durable_journal_loses_nothing_that_was_taken(tmp_path: Path, case: int) -> None:
    chance = random.Random(seed_of(case))
    transport = started(tmp_path / "live", is_durable=True, **LARGE)
    disk = Disk(transport.folder)
    bodies: list[bytes] = []
    for _ in range(chance.randrange(1, 200)):
        bodies.append(body_of(len(bodies), chance))
        assert transport.take(bodies[-1], WINDOW, None, 0) is None
    disk.flush()  # The last `take` flushed all.
    # One more is being written when the power goes: it may be there or not.
    bodies.append(body_of(len(bodies), chance))
    append_unflushed(transport, bodies[-1])
    journal = disk.after_a_power_cut(chance, tmp_path / "found")
    chunk = read_all(journal)
    assert check_content(chunk, bodies)[: len(bodies) - 1] == list(range(len(bodies) - 1))
    assert journal.is_ended(chunk.end)
    assert not journal.lacks_tail(chunk.end)


def append_unflushed(transport: JournalTransport, body: bytes) -> None:
    transport._segment.append(1, WINDOW, None, body)


@pytest.mark.parametrize("case", range(60))
def test_another_journal_loses_only_what_came_after_the_last_flush_and_counts_it(tmp_path: Path, case: int) -> None:
    chance = random.Random(seed_of(case))
    transport = started(tmp_path / "live", **LARGE)
    disk = Disk(transport.folder)
    disk.flush()
    bodies: list[bytes] = []
    flushed = 0
    for _ in range(chance.randrange(1, 400)):
        bodies.append(body_of(len(bodies), chance))
        assert transport.take(bodies[-1], WINDOW, None, 0) is None
        if chance.random() < 0.01:
            transport.flush(0)
            disk.flush()
            flushed = len(bodies)
    is_closed = chance.random() < 0.2
    if is_closed:
        transport._end_journal()
    journal = disk.after_a_power_cut(chance, tmp_path / "found")
    chunk = read_all(journal)
    numbers = check_content(chunk, bodies)
    assert numbers[:flushed] == list(range(flushed))
    told = len(numbers) + sum(gap.records for gap in chunk.unreadable)
    assert told <= len(bodies) + 2
    if journal.lacks_tail(chunk.end):
        assert journal.is_ended(chunk.end)
    else:
        assert is_closed
        assert told == len(bodies)
    position_by_position(journal, chunk)


def position_by_position(journal: Journal, whole: JournalChunk) -> None:
    """Read in small portions what was read at once: the same, and each range again gives the same."""
    small = read_all(journal, most_bytes=1_000)
    assert small.records == whole.records
    assert [(gap.bytes, gap.records, gap.end) for gap in small.unreadable] == [
        (gap.bytes, gap.records, gap.end) for gap in whole.unreadable
    ]
    assert small.end == whole.end


@pytest.mark.parametrize("case", range(60))
def test_damaged_bytes_never_become_a_wrong_record_nor_an_error_without_a_name(tmp_path: Path, case: int) -> None:
    chance = random.Random(seed_of(case))
    transport = started(tmp_path / "live", **LARGE)
    bodies: list[bytes] = []
    for _ in range(chance.randrange(1, 300)):
        bodies.append(body_of(len(bodies), chance))
        assert transport.take(bodies[-1], WINDOW, None, 0) is None
        if chance.random() < 0.1:
            transport.lost(WINDOW + 600_000 * chance.randrange(9), "dropped_journal_full")
    if chance.random() < 0.5:
        transport.close(0)
    journal = journal_of(tmp_path / "live")
    for _ in range(chance.randrange(1, 12)):
        path = chance.choice([path for path in journal.folder.iterdir() if path.suffix != ".lock"])
        with path.open("r+b") as file:
            size = path.stat().st_size
            at = chance.randrange(max(1, size))
            file.seek(at)
            file.write(chance.choice((bytes([chance.randrange(256)]), bytes(40), chance.randbytes(64)))[: size - at])
    with suppress(JournalError):
        check_content(read_all(Journal(journal.folder)), bodies)
    with suppress(JournalError):
        journal.losses()
    transport.close(0)
