"""What a de-duplication remembers, forgets, and keeps over a restart. The oracle is a plain set of identities."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.consumer.stream_message import Message
from headrace.client.deduplication import Deduplicator
from headrace.client.deduplication.ranges import SeenRanges
from headrace.client.deduplication.store import DeduplicationStoreError

names = st.tuples(st.integers(0, 1), st.integers(-1, 1), st.integers(0, 30))


def message(partition: int = 0, producer_id: int = -1, number: int = 0, *, offset: int | None = None) -> Message:
    named = (producer_id, 0, number) if producer_id >= 0 else (-1, -1, -1)
    at = offset if offset is not None else number
    return Message("t", partition, at, at + 1, 0, None, b"", (), *named)


@settings(max_examples=200, deadline=None)
@given(st.lists(names, max_size=60))
def test_exactly_what_was_done_is_known_as_done(done: list[tuple[int, int, int]]) -> None:
    seen = Deduplicator()
    known = set()
    for one in done:
        assert seen.is_new(message(*one)) == (one not in known)
        seen.done(message(*one))
        known.add(one)
    for partition in (0, 1):
        for producer_id in (-1, 0, 1):
            for number in range(32):
                one = (partition, producer_id, number)
                assert seen.is_new(message(*one)) == (one not in known)


def test_a_record_read_at_another_offset_is_known_by_its_producer() -> None:
    seen = Deduplicator()
    seen.done(message(0, 7, 3, offset=1_000))
    assert not seen.is_new(message(0, 7, 3, offset=4))
    assert seen.is_new(message(0, 7, 4, offset=1_000)), "another record at the same offset of another cluster"
    by_offset = Deduplicator(by_producer=False)
    by_offset.done(message(0, 7, 3, offset=1_000))
    assert by_offset.is_new(message(0, 7, 3, offset=4))


def test_records_in_order_cost_one_run_and_the_bound_forgets_the_longest_untouched() -> None:
    seen = Deduplicator(most_ranges=3)
    for number in range(1_000):
        seen.done(message(0, 1, number))
    assert seen.range_count == 1
    for start in (0, 10, 20):
        seen.done(message(1, -1, start))
    assert (seen.range_count, seen.forgotten) == (3, 1)
    assert seen.is_new(message(0, 1, 0)), "what was forgotten counts as new"
    assert not seen.is_new(message(1, -1, 0))


def test_what_is_too_old_is_forgotten() -> None:
    now = [0]
    seen = Deduplicator(longest_ms=100, now_ms=lambda: now[0])
    seen.done(message(number=1))
    now[0] = 100
    seen.done(message(number=50))
    assert not seen.is_new(message(number=1))
    now[0] = 101
    seen.done(message(number=90))
    assert seen.is_new(message(number=1))
    assert (seen.range_count, seen.forgotten) == (2, 1)


def test_a_message_whose_processing_failed_is_not_remembered() -> None:
    seen = Deduplicator()
    messages = [message(number=number) for number in (0, 1, 1, 2)]
    fresh = seen.fresh(messages)

    def work() -> None:
        assert [next(fresh).offset, next(fresh).offset] == [0, 1]
        assert next(fresh).offset == 2
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert (seen.is_new(messages[1]), seen.is_new(messages[3]), seen.duplicates) == (False, True, 1)


WRITER = """
import os, signal, sys
from pathlib import Path
from headrace.client.consumer.stream_message import Message
from headrace.client.deduplication import Deduplicator
seen = Deduplicator(path=Path(sys.argv[1]))
for number in range(500):
    seen.done(Message("t", 0, number * 3, number * 3 + 1, 0, None, b"", ()))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_is_remembered_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "seen"
    code = subprocess.run([sys.executable, "-c", WRITER, str(path)], env=os.environ, check=False, timeout=60).returncode
    assert code == -signal.SIGKILL
    with Deduplicator(path=path) as seen:
        assert all(not seen.is_new(message(number=number * 3)) for number in range(500))
        assert seen.is_new(message(number=1))
    with Deduplicator(path=path, most_ranges=10) as seen:
        assert (seen.range_count, seen.forgotten) == (10, 490), "a smaller bound holds for what was kept, too"


def test_a_file_that_is_not_one_or_is_another_processs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "seen"
    path.write_bytes(b"no database, but long enough to be taken for one" * 40)
    with pytest.raises(DeduplicationStoreError, match="cannot be opened"):
        Deduplicator(path=path)
    with Deduplicator(path=tmp_path / "held") as first:
        first.done(message())
        with pytest.raises(DeduplicationStoreError, match="a file of its own"):
            Deduplicator(path=tmp_path / "held")


@pytest.mark.parametrize(("most_ranges", "longest_ms"), [(0, 1), (1, 0)])
def test_bounds_that_hold_nothing_are_refused(most_ranges: int, longest_ms: int) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        SeenRanges(most_ranges=most_ranges, longest_ms=longest_ms)
