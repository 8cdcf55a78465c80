"""Two logs with the same offsets: what differs, against an oracle that thinks in single offsets."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from headrace.client.fetch.fetched import TopicPartition
from headrace.mirror.verify.findings import Finding, Findings, Kind
from headrace.mirror.verify.identical import compare
from headrace.mirror.verify.read_ahead import Chunk
from headrace.wire.batch.record_batch import BatchHeader

NAME = TopicPartition("clicks", 0)


def header(position: int, size_bytes: int, crc: int) -> BatchHeader:
    return BatchHeader(position + size_bytes - 1, size_bytes, 0, crc, 0, 0, 0, 0, -1, -1, -1, 1)


def chunks(headers: Sequence[BatchHeader], lengths: Sequence[int] = ()) -> list[Chunk]:
    """Return the batches in chunks of these lengths, the rest in one."""
    found, at = [], 0
    for length in [*lengths, len(headers)]:
        found.append(Chunk([(one, memoryview(b"")) for one in headers[at : at + length]]))
        at += length
    return found


def compared(source: list[Chunk], destination: list[Chunk]) -> Findings:
    findings = Findings()
    compare(NAME, iter(source), iter(destination), findings)
    return findings


def offsets(findings: Findings, kind: Kind) -> set[int]:
    return {one for found in findings.kept if found.kind is kind and found.source for one in range(*found.source)}


SLOTS = st.lists(st.tuples(st.integers(62, 70), st.sampled_from(["same", "missing", "extra", "altered", "neither"])), max_size=40)


@given(SLOTS, st.lists(st.integers(0, 7), max_size=8), st.lists(st.integers(0, 7), max_size=8))
def test_every_offset_is_told_as_what_it_is(slots: list[tuple[int, str]], ours: list[int], theirs: list[int]) -> None:
    source, destination, position = [], [], 0
    expected: dict[Kind, set[int]] = {Kind.MISSING: set(), Kind.EXTRA: set(), Kind.ALTERED: set()}
    for number, (size_bytes, fate) in enumerate(slots):
        if fate in ("same", "missing", "altered"):
            source.append(header(position, size_bytes, number))
        if fate in ("same", "extra", "altered"):
            destination.append(header(position, size_bytes, number + (1_000 if fate == "altered" else 0)))
        for kind in expected:
            if kind.value == fate:
                expected[kind] |= set(range(position, position + size_bytes))
        position += size_bytes
    findings = compared(chunks(source, ours), chunks(destination, theirs))
    assert {kind: offsets(findings, kind) for kind in expected} == expected
    assert findings.are_same == (not any(expected.values()))
    assert (findings.batches, findings.bytes) == (len(source), sum(one.size_bytes for one in source))


def test_batches_with_other_borders_are_altered_and_what_follows_is_compared_again() -> None:
    source = [header(0, 100, 1), header(100, 100, 2), header(200, 100, 3)]
    destination = [header(0, 100, 1), header(100, 62, 9), header(162, 38, 8), header(200, 100, 3)]
    findings = compared(chunks(source), chunks(destination))
    assert [(one.kind, one.source) for one in findings.kept] == [(Kind.ALTERED, (100, 200))]


def test_damage_on_one_side_is_told_as_damage_and_not_as_a_difference_of_the_other() -> None:
    sound = [header(0, 100, 1), header(100, 100, 2), header(200, 100, 3)]
    damaged = [Chunk([(sound[0], memoryview(b"")), (sound[2], memoryview(b""))], unreadable=[(100, 200)])]
    in_destination = compared(chunks(sound), damaged)
    assert [(one.kind, one.source) for one in in_destination.kept] == [(Kind.UNREADABLE_IN_DESTINATION, (100, 200))]
    in_source = compared(damaged, chunks(sound))
    assert [(one.kind, one.source) for one in in_source.kept] == [(Kind.UNREADABLE_IN_SOURCE, (100, 200))]
    assert not in_source.are_same
    nowhere = compared(damaged, chunks([sound[0], sound[2]]))
    assert [(one.kind, one.source) for one in nowhere.kept] == [(Kind.UNREADABLE_IN_SOURCE, (100, 200))]


def test_what_expires_meanwhile_is_no_difference_and_is_named() -> None:
    sound = [header(0, 100, 1), header(100, 100, 2), header(200, 100, 3)]
    expired = [Chunk([(sound[0], memoryview(b""))]), Chunk(expired=(100, 200)), Chunk([(sound[2], memoryview(b""))])]
    findings = compared(expired, chunks(sound))
    assert [(one.kind, one.source) for one in findings.kept] == [(Kind.EXPIRED_IN_SOURCE, (100, 200))]
    assert findings.are_same


def test_the_ranges_that_are_kept_have_a_bound_and_the_others_are_counted() -> None:
    findings = Findings(most=3)
    for number in range(10):
        found = Finding(kind=Kind.MISSING, topic="clicks", partition=0, source=(number * 10, number * 10 + 5), batches=1)
        findings.add(found)
    assert (len(findings.kept), findings.ranges) == (3, {Kind.MISSING: 10})
