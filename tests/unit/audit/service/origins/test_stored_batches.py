"""Batches outside memory are found as those in memory are, and many of them take no more memory."""

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from headrace.audit.service.origins.origins import Origins
from headrace.audit.service.origins.stored_batches import StoredBatches, Walk
from headrace.wire.mirror_ledger import CopiedBatch, LedgerEntry, OriginMap

BATCHES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.booleans()), max_size=30)
"""Of each batch: its records, the offsets without records before it, and whether the copy is created again from a batch before
it.
"""


def _made(words: list[tuple[int, int, bool]]) -> list[CopiedBatch]:
    made: list[CopiedBatch] = []
    at = 0
    for number, (count, hole, is_anew) in enumerate(words):
        at = made[-1].destination_base if is_anew and made else at + hole
        deltas = tuple(range(0, 2 * count, 2)) if number % 3 == 0 else None
        made.append(CopiedBatch(1_000 * number, 10, count, at, number, deltas))
        at += count
    return made


@given(BATCHES, st.lists(st.integers(-1, 130), max_size=40), st.integers(1, 5))
def test_a_walk_finds_what_a_map_in_memory_finds(words: list[tuple[int, int, bool]], asked: list[int], at_once: int) -> None:
    made = _made(words)
    known, stored = OriginMap(made), StoredBatches()
    for one in made:
        stored.add(7, [one])
        stored.add(8, [one._replace(crc_change=-1)])
    walk = Walk(stored, 7)
    for offset in [*sorted(asked), *asked]:
        assert walk.at(offset) == known.at(offset)
        assert Walk(stored, 7).at(offset) == known.at(offset)
    stored.close()


@given(BATCHES, st.integers(0, 130))
def test_positions_are_those_of_a_map_in_memory(words: list[tuple[int, int, bool]], offset: int) -> None:
    made = _made(words)
    origins = Origins()
    origins.is_needed = True
    last = made[-1].destination_next if made else 0
    entry = LedgerEntry(topic="t", partition=0, destination_topic="t", from_offset=0, to_offset=10**6, destination_end=last)
    for one in made:
        origins.take([LedgerEntry(**{**_fields(entry), "batches": (one,)})], None)
    expected = 10**6 if made and offset >= last else _source_position(made, offset)
    assert origins.position("offline", "t", 0, offset) == expected


def _source_position(made: list[CopiedBatch], offset: int) -> int:
    """Return up to where the source is accounted for below `offset`: behind the last batch of the copy that begins below it."""
    kept = [one for at, one in enumerate(made) if all(later.destination_base > one.destination_base for later in made[at + 1 :])]
    below = [one for one in kept if one.destination_base < offset]
    if not below:
        return kept[0].source_base if kept else 0
    one = below[-1]
    return one.source_offset(offset) if offset < one.destination_next else one.source_next


def _fields(entry: LedgerEntry) -> dict[str, object]:
    return {name: getattr(entry, name) for name in LedgerEntry.__slots__}


_MANY = """
import resource
from headrace.audit.service.origins.origins import Origins
from headrace.wire.mirror_ledger import CopiedBatch, LedgerEntry
EACH, ENTRIES = 2_000, 300
origins = Origins()
origins.is_needed = True
def take(number):
    begin = number * EACH
    batches = tuple(CopiedBatch(at * 977, 977, 1, at, at * 7919 % (1 << 32)) for at in range(begin, begin + EACH))
    end = begin + EACH
    origins.take([LedgerEntry(topic="t", partition=0, destination_topic="t", from_offset=begin * 977, to_offset=end * 977,
                              batches=batches, destination_end=end)], None)
for number in range(40):
    take(number)
early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for number in range(40, ENTRIES):
    take(number)
assert origins.position("offline", "t", 0, 3) == 3 * 977
assert origins.position("offline", "t", 0, 599_999) == 599_999 * 977
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - early)
"""


def test_a_long_ledger_takes_no_more_memory_than_a_short_one() -> None:
    """Fault: each batch that the mirror ever copied stood in the audit's memory. Here 520,000 more batches, of 150 bytes then."""
    done = subprocess.run([sys.executable, "-c", _MANY], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 8_192, f"{done.stdout} KiB"
