"""A journal against its model, a list: whatever is written, closed, killed, read and released, in any order."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.sdk.journal import START, Journal, JournalRecord, Kind
from tests.unit.sdk.journal.journals import SmallJournal, read_all


class JournalMachine(RuleBasedStateMachine):
    """One writer and one reader."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @initialize()
    def begin(self) -> None:
        self.small = SmallJournal(self.root)
        self.written: list[JournalRecord] = []
        self.read: list[JournalRecord] = []
        self.position = START
        self.is_over = False

    @precondition(lambda self: not self.is_over)
    @rule(
        size=st.one_of(st.integers(0, 60), st.integers(0, 4096 - 64 - 32 - 8)),
        timestamp_ms=st.integers(-(1 << 63), (1 << 63) - 1),
        key=st.none() | st.binary(max_size=8),
        kind=st.sampled_from((Kind.EVENT, Kind.QUARANTINE)),
    )
    def write(self, size: int, timestamp_ms: int, key: bytes | None, kind: Kind) -> None:
        body = bytes(n % 251 for n in range(size))
        self.small.put(body, timestamp_ms=timestamp_ms, key=key, kind=kind)
        self.written.append(JournalRecord(kind, timestamp_ms, key, body))

    @rule(most_bytes=st.integers(1, 5_000))
    def read_on(self, most_bytes: int) -> None:
        chunk = self.small.journal.read(self.position, most_bytes)
        assert self.small.journal.read(self.position, 1 << 20, until=chunk.end) == chunk
        assert not chunk.unreadable
        self.read += chunk.records
        self.position = chunk.end

    @rule()
    def release(self) -> None:
        self.small.journal.release(self.position)

    @rule()
    def start_the_reader_again(self) -> None:
        self.small.journal.close()
        self.small.journal = Journal(self.small.folder)

    @precondition(lambda self: not self.is_over)
    @rule(is_clean=st.booleans())
    def end(self, is_clean: bool) -> None:
        (self.small.close if is_clean else self.small.die)()
        self.is_over = True

    @precondition(lambda self: self.is_over)
    @rule()
    def read_to_the_end(self) -> None:
        chunk = read_all(self.small.journal, self.position)
        self.read += chunk.records
        self.position = chunk.end
        assert self.read == self.written
        assert self.small.journal.is_ended(self.position)

    @invariant()
    def what_was_read_is_what_was_written(self) -> None:
        if hasattr(self, "written"):
            assert self.read == self.written[: len(self.read)]
            if self.small.journal.is_ended(self.position):
                assert self.is_over
                assert self.read == self.written


TestJournal = JournalMachine.TestCase
TestJournal.settings = settings(max_examples=12, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck))
