"""What a reader finds in a journal: all that was written, in order; and what became unreadable, by bytes and by records."""

import stat
from pathlib import Path

import pytest

from headrace.sdk.journal import START, Journal, JournalDamaged, JournalLocked, JournalTooNew, Kind, Position, open_journals
from headrace.sdk.journal.files.head import HEAD_FILE
from headrace.sdk.journal.files.layout import HEADER_BYTES, RECORD_HEAD_BYTES, RawRecord
from headrace.sdk.journal.files.segment_reader import SegmentReader
from headrace.sdk.journal.files.segment_writer import SegmentWriter, segment_name
from tests.unit.sdk.journal.journals import SEGMENT_BYTES, SmallJournal, read_all


def test_records_come_back_in_order_over_segments_while_the_writer_lives_and_after_its_end(tmp_path: Path) -> None:
    small = SmallJournal(tmp_path)
    bodies = [f"event {n}".encode() * (n % 9) for n in range(300)]
    for n, body in enumerate(bodies):
        small.put(body, timestamp_ms=n - 5, key=b"k" * (n % 3) if n % 2 else None)
    chunk = read_all(small.journal)
    assert [record.body for record in chunk.records] == bodies
    assert [record.timestamp_ms for record in chunk.records] == [n - 5 for n in range(300)]
    assert [record.key for record in chunk.records] == [b"k" * (n % 3) if n % 2 else None for n in range(300)]
    assert len(small.journal.segments()) > 3
    assert small.journal.is_alive
    assert not small.journal.is_ended(chunk.end)
    small.put(b"last", kind=Kind.QUARANTINE)
    small.close()
    rest = read_all(small.journal, chunk.end)
    assert [(record.kind, record.body) for record in rest.records] == [(Kind.QUARANTINE, b"last")]
    assert small.journal.is_ended(rest.end)
    assert not small.journal.is_ended(chunk.end)
    assert not small.journal.lacks_tail(rest.end)
    assert not chunk.unreadable
    assert not rest.unreadable


@pytest.mark.parametrize("most_bytes", [1, 200, 1_000])
def test_a_range_read_again_gives_the_same_records(tmp_path: Path, most_bytes: int) -> None:
    small = SmallJournal(tmp_path)
    for n in range(200):
        small.put(b"%d" % n * (n % 50))
    position, chunks = START, []
    while (chunk := small.journal.read(position, most_bytes)).end != position:
        chunks.append((position, chunk))
        position = chunk.end
    for n in range(200):
        small.put(b"more %d" % n)
    small.die()
    again = Journal(small.folder)
    for start, chunk in chunks:
        assert again.read(start, 1 << 20, until=chunk.end) == chunk
        assert Position(*chunk.end) == chunk.end
    assert sum(len(chunk.records) for _, chunk in chunks) == 200


def test_every_size_that_may_be_left_at_a_segment_s_end_is_passed(tmp_path: Path) -> None:
    for size in range(0, 80):
        small = SmallJournal(tmp_path, instance=f"host/app/{size}")
        small.put(bytes(3_800 + size))
        small.put(b"x" * 200)
        small.put(b"y")
        small.close()
        chunk = read_all(small.journal)
        assert [len(record.body) for record in chunk.records] == [3_800 + size, 200, 1], size
        assert not chunk.unreadable
        assert small.journal.is_ended(chunk.end)


@pytest.mark.parametrize("goes_on", [True, False])
def test_an_event_that_fills_its_segment_to_the_last_byte_is_not_the_journal_s_end(tmp_path: Path, *, goes_on: bool) -> None:
    """Found by the model: a living journal was taken for an ended one there, so its run would have been sealed."""
    small = SmallJournal(tmp_path)
    small.put(bytes(small.journal.head.segment_bytes - HEADER_BYTES - RECORD_HEAD_BYTES))
    chunk = small.journal.read(START, 1)
    assert len(chunk.records) == 1
    assert not small.journal.is_ended(chunk.end)
    if goes_on:
        small.put(b"more")
        assert [record.body for record in small.journal.read(chunk.end, 1).records] == [b"more"]
    small.close()
    end = read_all(small.journal, chunk.end)
    assert not end.unreadable
    assert small.journal.is_ended(end.end)
    assert not small.journal.lacks_tail(end.end)


def test_an_append_that_is_under_way_is_not_yet_there_and_is_no_loss_after_a_kill(tmp_path: Path) -> None:
    small = SmallJournal(tmp_path)
    small.put(b"whole")
    at = small.segment.position
    small.put(b"torn" * 20)
    path = small.folder / segment_name(0)
    content = bytearray(path.read_bytes())
    content[at + 60 : at + 72] = bytes(12)
    path.write_bytes(content)
    chunk = read_all(small.journal)
    assert [record.body for record in chunk.records] == [b"whole"]
    assert chunk.end.byte == at
    small.die()
    chunk = read_all(small.journal)
    assert [record.body for record in chunk.records] == [b"whole"]
    assert not chunk.unreadable
    assert small.journal.is_ended(chunk.end)


@pytest.mark.parametrize("is_alive", [True, False])
def test_damage_in_the_middle_is_told_in_bytes_and_records_and_the_rest_is_read(tmp_path: Path, is_alive: bool) -> None:
    small = SmallJournal(tmp_path)
    starts = []
    for n in range(20):
        starts.append(small.segment.position)
        small.put(b"event %d" % n, timestamp_ms=1_000 + n)
    path = small.folder / segment_name(0)
    content = bytearray(path.read_bytes())
    content[starts[5] + 20 : starts[8] + 4] = b"?" * (starts[8] + 4 - starts[5] - 20)
    path.write_bytes(content)
    if not is_alive:
        small.die()
    chunk = read_all(small.journal)
    assert [record.timestamp_ms - 1_000 for record in chunk.records] == [*range(5), *range(9, 20)]
    (gap,) = chunk.unreadable
    assert (gap.bytes, gap.records, gap.timestamp_ms) == (starts[9] - starts[5], 4, 1_009)
    assert small.journal.read(gap.start, 1, until=gap.end).unreadable == [gap]


def test_a_missing_segment_is_counted_by_the_next_record_s_number(tmp_path: Path) -> None:
    small = SmallJournal(tmp_path)
    counts = {0: 0}
    for n in range(200):
        small.put(b"event %d" % n)
        counts[small.segment.segment] = counts.get(small.segment.segment, 0) + 1
    small.close()
    (small.folder / segment_name(1)).unlink()
    chunk = read_all(small.journal)
    assert len(chunk.records) == 200 - counts[1]
    assert [gap.records for gap in chunk.unreadable] == [counts[1]]
    assert small.journal.is_ended(chunk.end)


def test_numbers_stay_in_order_when_a_record_found_no_room(tmp_path: Path) -> None:
    """Once, the record that began a segment and the one behind it had exchanged numbers: a gap was counted wrong by one."""
    small = SmallJournal(tmp_path)
    for n in range(200):
        small.put(b"event %d" % n)
    numbers: list[int] = []
    for segment in small.journal.segments():
        reader = SegmentReader(small.folder, small.made.head.id_bytes, segment)
        records = [item for item in reader.records_from(0, is_final=False) if isinstance(item, RawRecord)]
        numbers += [record.number for record in records if not record.is_end]
        reader.close()
    assert numbers == list(range(200))


def test_a_segment_that_was_just_made_hides_no_record(tmp_path: Path) -> None:
    """Once, a writer that lived, or was killed, between two segments was said to have lost a record."""
    small = SmallJournal(tmp_path)
    small.put(bytes(4096 - 64 - 32))
    head = small.made.head
    SegmentWriter(small.folder, head.id_bytes, 1, head.segment_bytes, small.numbers)
    assert not read_all(small.journal).unreadable
    small.segment = SegmentWriter(small.folder, head.id_bytes, 1, head.segment_bytes, small.numbers)
    small.put(b"next")
    SegmentWriter(small.folder, head.id_bytes, 2, head.segment_bytes, small.numbers)
    small.die()
    chunk = read_all(small.journal)
    assert (len(chunk.records), chunk.unreadable) == (2, [])
    assert small.journal.is_ended(chunk.end)


def test_segments_made_between_two_looks_of_a_reader_are_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, a reader that found no segment 1, and then segment 2, told all records of the first as lost: both had been made in
    between.
    """
    small = SmallJournal(tmp_path)
    small.put(bytes(SEGMENT_BYTES - HEADER_BYTES - RECORD_HEAD_BYTES))  # To the last byte: a reader passes it without a mark.
    end = read_all(small.journal).end
    assert end[:2] == (1, HEADER_BYTES)
    look = small.journal.segments

    def write_and_look() -> list[int]:
        while small.segment.segment < 2:
            small.put(b"event")
        return look()

    monkeypatch.setattr(small.journal, "segments", write_and_look)
    chunk = small.journal.read(end, 1 << 20)
    assert not chunk.unreadable
    assert {record.body for record in chunk.records} == {b"event"}


def test_a_segment_cut_or_gone_under_a_living_writer_is_an_error_by_name(tmp_path: Path) -> None:
    small = SmallJournal(tmp_path)
    small.put(b"event")
    end = read_all(small.journal).end
    path = small.folder / segment_name(0)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(JournalDamaged, match="was cut to 200 of 4096 bytes"):
        small.journal.read(end, 1)
    path.unlink()
    small.journal.close()
    with pytest.raises(JournalDamaged, match="has vanished"):
        small.journal.read(end, 1)


def test_a_segment_cut_under_a_dead_writer_is_unreadable_and_the_journal_ends(tmp_path: Path) -> None:
    small = SmallJournal(tmp_path)
    small.put(b"event")
    small.die()
    path = small.folder / segment_name(0)
    path.write_bytes(path.read_bytes()[:200])
    chunk = read_all(small.journal)
    assert [record.body for record in chunk.records] == [b"event"]
    assert [gap.bytes for gap in chunk.unreadable] == [4096 - 200]
    assert small.journal.is_ended(chunk.end)


def test_segments_are_released_when_they_are_passed_and_the_journal_is_removed_after_its_end(tmp_path: Path) -> None:
    small = SmallJournal(tmp_path)
    for n in range(200):
        small.put(b"event %d" % n)
    journal = small.journal
    end = read_all(journal).end
    assert journal.lag_bytes(START) > journal.lag_bytes(end)
    journal.release(end)
    assert journal.segments() == [end.segment]
    assert read_all(journal, end).end == end
    with pytest.raises(JournalLocked, match="still written"):
        journal.remove()
    small.close()
    journal.remove()
    journal.remove()
    assert not small.folder.exists()


def test_one_agent_has_a_journal(tmp_path: Path) -> None:
    small = SmallJournal(tmp_path)
    second = Journal(small.folder)
    small.journal.lock()
    small.journal.lock()
    with pytest.raises(JournalLocked, match="another agent"):
        second.lock()
    small.journal.close()
    second.lock()


def test_journals_are_found_and_what_cannot_be_opened_is_told(tmp_path: Path) -> None:
    assert open_journals(tmp_path / "none") == ([], {})
    small = SmallJournal(tmp_path, instance="host/app/../odd name\n")
    twin = SmallJournal(tmp_path, instance="host/app/../odd name\n")
    assert (small.made.head.epoch, twin.made.head.epoch) == (1_700_000_000_000, 1_700_000_000_001)
    broken = small.folder.parent / "broken.1"
    broken.mkdir()
    found, unopened = open_journals(tmp_path)
    assert [journal.head for journal in found] == [small.made.head, twin.made.head]
    assert list(unopened) == [broken]
    assert HEAD_FILE in unopened[broken]


def test_only_the_owner_reads_a_journal(tmp_path: Path) -> None:
    small = SmallJournal(tmp_path / "root")
    small.journal.lock()
    small.journal.hold(START, START)
    for path in [tmp_path / "root", *(tmp_path / "root").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_later_version_is_refused_with_words(tmp_path: Path) -> None:
    small = SmallJournal(tmp_path)
    head = small.folder / HEAD_FILE
    head.write_text(head.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(JournalTooNew, match="upgrade the agent before the applications"):
        Journal(small.folder)
    head.write_text("{}")
    with pytest.raises(JournalDamaged, match="is not a head of a journal"):
        Journal(small.folder)
