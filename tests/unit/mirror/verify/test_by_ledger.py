"""A copy with offsets of its own: what differs, with batches that are really made and restamped."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from headrace.client.fetch.fetched import TopicPartition
from headrace.mirror.verify.by_ledger import Bounds, compare
from headrace.mirror.verify.findings import Finding, Findings, Kind
from headrace.mirror.verify.read_ahead import Batch, Chunk
from headrace.wire.batch.record_batch import BatchBuilder, read_header
from headrace.wire.batch.restamp import Stamp, placed_at, restamped
from headrace.wire.mirror_ledger import CopiedBatch, LedgerEntry, SkippedRange

NAME = TopicPartition("clicks", 0)
MIRROR = Stamp(4_000, 3, 0, True)


def batch_at(offset: int, value: bytes, count: int = 2) -> Batch:
    """Return a batch of records as it is at a dense offset."""
    builder = BatchBuilder()
    for number in range(count):
        builder.append(1_431_857_103_000, None, value + b"%d" % number)
    data = bytearray(builder.build())
    data[:8] = offset.to_bytes(8, "big")
    return read_header(data), memoryview(bytes(data))


def copy_of(batch: Batch, offset: int) -> Batch:
    """Return the batch as a mirror places it."""
    made = placed_at(restamped(*batch, MIRROR), offset)
    data = made.front + bytes(made.records)
    return read_header(data), memoryview(data)


def entry(pairs: Sequence[tuple[Batch, Batch]], skipped: Sequence[SkippedRange] = (), start: int = 0) -> LedgerEntry:
    batches = tuple(
        CopiedBatch(one.base_offset, one.last_offset_delta + 1, one.record_count, there.base_offset, one.crc ^ there.crc)
        for (one, _), (there, _) in pairs
    )
    ends = [one.source_next for one in batches] + [one.to_offset for one in skipped]
    return LedgerEntry(
        topic="clicks",
        partition=0,
        destination_topic="clicks",
        from_offset=start,
        to_offset=max(ends, default=start),
        batches=batches,
        skipped=tuple(skipped),
    )


def compared(
    source: Sequence[Batch], ledger: Sequence[LedgerEntry], destination: Sequence[Batch], bounds: Bounds | None = None
) -> tuple[Findings, Finding | None]:
    findings = Findings()
    tail = compare(NAME, [Chunk(source)], ledger, [Chunk(destination)], findings, bounds or Bounds())
    return findings, tail


@given(st.lists(st.sampled_from(["same", "lost", "altered", "unnamed"]), max_size=12))
def test_each_batch_is_told_as_what_became_of_it(fates: list[str]) -> None:
    source, destination, pairs, expected = [], [], [], []
    for number, fate in enumerate(fates):
        one = batch_at(number * 2, b"value %d " % number)
        source.append(one)
        there = copy_of(one, 100 + number * 2)
        if fate != "unnamed":
            pairs.append((one, there))
        if fate == "altered":
            there = copy_of(batch_at(number * 2, b"other %d " % number), 100 + number * 2)
        if fate in ("same", "altered"):
            destination.append(there)
        if fate != "same":
            expected.append((Kind.ALTERED if fate == "altered" else Kind.MISSING, number * 2))
    findings, tail = compared(source, [entry([pair], start=0) for pair in pairs], destination)
    found = [(one.kind, offset) for one in findings.kept if one.source for offset in range(one.source[0], one.source[1], 2)]
    assert found == expected
    assert tail is None
    assert findings.batches == len(source)


def test_what_the_ledger_does_not_name_in_the_copy_is_extra_and_behind_its_last_batch_a_tail() -> None:
    one, two = batch_at(0, b"one"), batch_at(2, b"two")
    pairs = [(one, copy_of(one, 0)), (two, copy_of(two, 10))]
    strangers = [batch_at(5, b"stranger"), batch_at(20, b"late")]
    destination = [pairs[0][1], strangers[0], pairs[1][1], strangers[1]]
    findings, tail = compared([one, two], [entry(pairs)], destination)
    assert [(found.kind, found.destination) for found in findings.kept] == [(Kind.EXTRA, (5, 7))]
    assert tail is not None
    assert tail.destination == (20, 22)


def test_a_refused_batch_is_told_as_that_whichever_entry_follows() -> None:
    """Fault: it was reported as missing where the next entry began behind it."""
    one, large, two = batch_at(0, b"one"), batch_at(2, b"large"), batch_at(4, b"two")
    first = entry([(one, copy_of(one, 0))], [SkippedRange(2, 4, "refused")])
    second = entry([(two, copy_of(two, 2))], start=4)
    findings, _ = compared([one, large, two], [first, second], [copy_of(one, 0), copy_of(two, 2)])
    assert [(found.kind, found.source) for found in findings.kept] == [(Kind.REFUSED, (2, 4))]


def test_heads_that_one_log_has_deleted_are_no_difference() -> None:
    one, two = batch_at(0, b"one"), batch_at(2, b"two")
    ledger = [entry([(one, copy_of(one, 0)), (two, copy_of(two, 2))])]
    findings, _ = compared([two], ledger, [copy_of(one, 0), copy_of(two, 2)], Bounds(source_start=2))
    assert [found.kind for found in findings.kept] == [Kind.EXPIRED_IN_SOURCE]
    findings, _ = compared([one, two], ledger, [copy_of(two, 2)], Bounds(destination_start=2))
    assert [found.kind for found in findings.kept] == [Kind.EXPIRED_IN_DESTINATION]
    assert findings.are_same


def test_a_batch_whose_crc_in_the_ledger_fits_and_whose_records_do_not_is_altered() -> None:
    """What the mirror wrote of the CRC is not believed: the bytes of both sides are compared."""
    one = batch_at(0, b"one")
    other = copy_of(batch_at(0, b"two"), 0)
    findings, _ = compared([one], [entry([(one, other)])], [other])
    assert [found.kind for found in findings.kept] == [Kind.ALTERED]


def test_findings_with_only_transaction_markers_between_them_are_one_range() -> None:
    """Fault: each transaction of a mirror was a finding of its own, because its marker takes an offset."""
    source = [batch_at(number * 2, b"value %d " % number) for number in range(4)]
    # The destination holds a transaction of one batch and a marker each, and the ledger names none of them.
    copies = [copy_of(one, 100 + number * 3) for number, one in enumerate(source)]
    markers = [(102 + number * 3, 103 + number * 3) for number in range(4)]
    findings = Findings()
    chunks = [Chunk(copies[:2], without_data=markers[:1]), Chunk(copies[2:], without_data=markers[1:])]
    tail = compare(NAME, [Chunk(source)], [entry([])], chunks, findings, Bounds())
    assert [(one.kind, one.source, one.batches) for one in findings.kept] == [(Kind.MISSING, (0, 8), 4)]
    assert tail is not None
    assert (tail.kind, tail.destination, tail.batches) == (Kind.EXTRA, (100, 112), 4)


def test_findings_with_a_whole_batch_between_them_stay_two() -> None:
    source = [batch_at(number * 2, b"value %d " % number) for number in range(3)]
    copies = [copy_of(one, 100 + number * 3) for number, one in enumerate(source)]
    pairs = list(zip(source, copies, strict=True))
    altered = [copy_of(batch_at(0, b"other"), 100), copies[1], copy_of(batch_at(4, b"other"), 106)]
    findings = Findings()
    chunk = Chunk(altered, without_data=[(102, 103), (105, 106), (108, 109)])
    compare(NAME, [Chunk(source)], [entry(pairs)], [chunk], findings, Bounds())
    assert [(one.kind, one.destination) for one in findings.kept] == [(Kind.ALTERED, (100, 103)), (Kind.ALTERED, (106, 109))]
