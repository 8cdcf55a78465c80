"""Signal handlers interrupt an append into a journal, wherever they can: nothing is lost, doubled or unreadable."""

import dis
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import count, pairwise
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from headrace.sdk.errors import LoggerClosed
from headrace.sdk.journal import START, Journal, Position, files
from headrace.sdk.journal import journal as journal_module
from headrace.sdk.journal.files.segment_reader import SegmentReader
from headrace.sdk.journal.transport import JournalTransport
from tests.unit.sdk.journal.journals import read_all
from tests.unit.sdk.journal.transports import WINDOW, journal_of, started

FULL = "dropped_journal_full"
CODE = str(Path(files.__file__).parents[1])
"""The folder of the code that is interrupted."""
SMALL_BODY, LARGE_BODY = 8, 3_000
"""Bytes of an event for which the segment has room; and of which each one needs a segment of its own."""


class Interrupted(BaseException):
    """What a handler raises: as KeyboardInterrupt does."""


def interrupt(call: Callable[[], object], at: int, handler: Callable[[], None], *, at_checks: bool = False) -> bool:
    """Call it, and `handler` before the bytecode number `at` of the journal's code; return whether the call came so far.

    A bytecode of a loop counts once. `at_checks`: only those count before which CPython looks for signals. An error at another
    place could leave a `with` open, which no signal does.
    """
    seen: set[tuple[CodeType, int]] = set()
    came = False

    def trace(frame: Any, event: str, argument: object) -> Any:
        nonlocal came
        code: CodeType = frame.f_code
        if came or not code.co_filename.startswith(CODE):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        if event == "opcode" and (not at_checks or frame.f_lasti in looks_for_signals(code)):
            place = code, frame.f_lasti
            if place not in seen and len(seen) == at:
                came = True
                handler()
            seen.add(place)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return came


@cache
def looks_for_signals(code: CodeType) -> frozenset[int]:
    """Return the bytecodes before which a signal's handler may run: those behind a call, and where a function or a loop begins.
    None of a finalizer: Python ignores what is raised there.
    """
    if code.co_name == "__del__":
        return frozenset()
    words = list(dis.get_instructions(code))
    behind = {later.offset for one, later in pairwise(words) if one.opname.startswith(("CALL", "RESUME"))}
    return frozenset(behind | {one.argval for one in words if "JUMP_BACKWARD" in one.opname})


class Watched:
    """A transport whose journal is read on and on, by a reader beside it and by one that begins after a kill."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.transport: JournalTransport = started(root, quota_bytes=1 << 24, root_quota_bytes=1 << 24)
        self.journal: Journal = journal_of(root)
        self._monkeypatch = monkeypatch
        self._read_up_to: Position = START
        self._sizes: dict[bytes, int] = {}
        self.read: list[bytes] = []

    def take(self, name: bytes, size: int) -> str | None:
        return self.transport.take(name.ljust(size, b"."), WINDOW, None, 60_000)

    def look(self) -> None:
        """Read what is new. Nothing is unreadable, neither now nor for who comes after a kill at this very instant."""
        with self._monkeypatch.context() as patch:
            patch.setattr(journal_module, "is_alive", lambda *_: False)
            after_kill = read_all(self.journal, self._read_up_to)
        living = read_all(self.journal, self._read_up_to)
        assert not after_kill.unreadable
        assert not living.unreadable
        assert after_kill.records == living.records
        self.read += [record.body.rstrip(b".") for record in living.records]
        self._read_up_to = living.end
        self.journal.release(self._read_up_to)

    @property
    def is_ended(self) -> bool:
        return self.journal.is_ended(self._read_up_to)

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of the records of the newest segments."""
        for segment in self.journal.segments():
            reader = SegmentReader(self.journal.folder, self.journal.head.id_bytes, segment)
            yield from (item.number for item in reader.records_from(0, is_final=True) if not item.is_end)  # type: ignore[union-attr]
            reader.close()


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(tmp_path, monkeypatch)


@pytest.mark.parametrize("outer_bytes", [SMALL_BODY, LARGE_BODY])
def test_a_handler_that_logs_anywhere_in_an_append_loses_and_harms_nothing(watched: Watched, outer_bytes: int) -> None:
    taken: list[bytes] = []
    dropped = 0
    for at in count():
        nested: dict[bytes, str | None] = {}

        def handler(at: int = at, nested: dict[bytes, str | None] = nested) -> None:
            watched.look()
            for size in (SMALL_BODY, LARGE_BODY):
                name = b"%d nested in %d" % (size, at)
                nested[name] = watched.take(name, size)

        outer: list[str | None] = []
        call = lambda at=at, to=outer: to.append(watched.take(b"outer %d" % at, outer_bytes))  # noqa: E731
        came = interrupt(call, at, handler, at_checks=outer_bytes == LARGE_BODY)
        watched.look()
        assert outer == [None], f"bytecode {at}"
        assert set(nested.values()) <= {None, FULL}
        dropped += list(nested.values()).count(FULL)
        taken += [b"outer %d" % at, *(name for name, answer in nested.items() if answer is None)]
        assert sorted(watched.read) == sorted(taken), f"bytecode {at}"
        if not came:
            break
    assert at > 5
    ledger = watched.transport.ledger()
    assert (ledger.taken, sum(ledger.dropped.values())) == (len(taken), dropped)
    # Where a segment is changed, a handler whose event needs another one finds the journal full.
    assert dropped > 20 or outer_bytes == SMALL_BODY


@pytest.mark.parametrize("outer_bytes", [SMALL_BODY, LARGE_BODY])
def test_a_handler_that_raises_anywhere_in_an_append_leaves_a_journal_that_goes_on(watched: Watched, outer_bytes: int) -> None:
    """Fault: raised behind the write, it had the event's number given to the next event too."""
    certain: set[bytes] = set()
    open_ones: set[bytes] = set()
    for at in count():

        def handler() -> None:
            watched.look()
            raise Interrupted

        try:
            came = interrupt(partial(watched.take, b"outer %d" % at, outer_bytes), at, handler, at_checks=True)
        except Interrupted:
            came = True
            open_ones.add(b"outer %d" % at)
        assert watched.take(b"next %d" % at, outer_bytes) is None
        certain.add(b"next %d" % at)
        numbers = [*watched.numbers()]
        assert len(numbers) == len(set(numbers)), f"bytecode {at}: {numbers}"
        watched.look()
        if not came:
            certain.add(b"outer %d" % at)
            break
    assert at > 5
    assert certain <= set(watched.read) <= certain | open_ones
    assert len(watched.read) == len(set(watched.read))


def test_a_handler_that_closes_in_the_middle_of_an_append_ends_the_journal_behind_all_that_was_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in count():
        watched = Watched(tmp_path / str(at), monkeypatch)
        assert watched.take(b"first", LARGE_BODY) is None
        expected = [b"first"]
        came = True
        try:
            came = interrupt(partial(watched.take, b"outer", LARGE_BODY), at, partial(watched.transport.close, 0), at_checks=True)
            expected.append(b"outer")
        except LoggerClosed:
            pass
        if not came:
            break
        watched.look()
        assert watched.read == expected, f"bytecode {at}"
        assert watched.is_ended, f"bytecode {at}"
        with pytest.raises(LoggerClosed):
            watched.take(b"late", LARGE_BODY)
    assert at > 5


def test_a_signal_handler_that_logs_into_an_append_neither_waits_nor_harms(tmp_path: Path) -> None:
    transport = started(tmp_path, quota_bytes=1 << 22, root_quota_bytes=1 << 22)
    journal = journal_of(tmp_path)
    handled: list[str | None] = []
    taken: list[str | None] = []
    place, read = START, 0
    before = signal.signal(signal.SIGALRM, lambda *_: handled.append(transport.take(b"of the handler", WINDOW, None, 60_000)))
    try:
        for round_ in range(300):
            signal.setitimer(signal.ITIMER_REAL, 0.00001 * (1 + round_ % 20))
            while len(handled) == round_:
                taken.append(transport.take(bytes(200), WINDOW, None, 0))
            if round_ % 50 == 49:
                chunk = read_all(journal, place)
                assert not chunk.unreadable
                # What is released is gone: the reading continues behind it, as an agent's does.
                place, read = chunk.end, read + len(chunk.records)
                journal.release(place)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    answers = [*taken, *handled]
    assert set(answers) <= {None, FULL}
    ledger = transport.ledger()
    assert read == ledger.taken == answers.count(None)
    assert sum(ledger.dropped.values()) == answers.count(FULL)
