"""The quick way through a segment finds what the careful one finds, up to the first thing that is not plainly an event."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.sdk.journal.files.layout import Kind, record_at, record_bytes
from headrace.sdk.journal.files.plain_records import JournalRecord, plain_records

SALT = 77
WHOLE = 1 << 30
RECORDS = st.lists(
    st.tuples(
        st.integers(0, 1 << 40),
        st.integers(-(1 << 62), 1 << 62),
        st.sampled_from([*Kind, 0, 9]),
        st.none() | st.binary(max_size=20),
        st.binary(max_size=60),
    ),
    max_size=12,
)


def carefully(memory: bytes, most_bytes: int, until: int) -> tuple[list[JournalRecord], int, int]:
    found, at, next_number = [], 0, 0
    while at < until and most_bytes > 0:
        record = record_at(memoryview(memory), at, SALT)
        if record is None or record.is_end:
            break
        found.append(JournalRecord(Kind(record.kind), record.timestamp_ms, record.key, record.body))
        next_number = max(next_number, record.number + 1)
        most_bytes -= 32 + len(record.key or b"") + len(record.body)
        at = record.end
    return found, at, next_number


@given(RECORDS, st.integers(0, 3_000), st.integers(0, 255), st.integers(1, 900), st.integers(0, 1_200))
def test_the_quick_way_finds_what_the_careful_one_finds(
    records: list[tuple[int, int, int, bytes | None, bytes]], damaged_at: int, value: int, most_bytes: int, until: int
) -> None:
    memory = bytearray(b"".join(record_bytes(*record, SALT) for record in records))
    if damaged_at < len(memory):
        memory[damaged_at] = value
    for size in (len(memory), len(memory) * 2 // 3):
        for limits in ((WHOLE, WHOLE), (most_bytes, until)):
            found, run = plain_records(bytes(memory[:size]), 0, SALT, *limits)
            assert (found, run.end, run.next_number) == carefully(bytes(memory[:size]), *limits)
            assert (run.record_count, run.last_ms) == (len(found), found[-1].timestamp_ms if found else 0)
