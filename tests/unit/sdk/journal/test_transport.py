"""What an application's journal takes, refuses and counts: full ones, quotas, threads, forks."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.sdk.errors import LoggerClosed, LoggerForked
from headrace.sdk.journal import START, JournalRefused, Kind, Position, SegmentGivenUp
from headrace.sdk.journal.enrolment import enrol, leave, mark_announced
from headrace.sdk.journal.transport import JournalTransport
from headrace.wire.quarantine_record import QuarantineRecord
from tests.unit.sdk.journal.journals import read_all
from tests.unit.sdk.journal.transports import SMALL, WINDOW, journal_of, refused, started

FULL = "dropped_journal_full"
BODY = bytes(1_000)
"""Three of them fill a segment."""


def test_what_is_taken_stands_in_the_journal_at_once_and_the_ledger_balances(tmp_path: Path) -> None:
    transport = started(tmp_path)
    assert transport.take(b"first", WINDOW + 5, b"key", 0) is None
    transport.quarantine(refused(0), max_block_ms=0)
    assert transport.take(b"before 1970", -7, None, 0) is None
    transport.lost(WINDOW, "refused_by_schema", 2)
    journal = journal_of(tmp_path)
    first, second, third = read_all(journal).records
    assert first == (Kind.EVENT, WINDOW + 5, b"key", b"first")
    assert (second.kind, QuarantineRecord.from_json(second.body)) == (Kind.QUARANTINE, refused(0))
    assert (third.timestamp_ms, third.body) == (-7, b"before 1970")
    assert journal.losses().counts == {(WINDOW, "refused_by_schema"): 2}
    ledger = transport.ledger()
    assert (ledger.taken, ledger.journaled, ledger.acknowledged, ledger.quarantined) == (2, 2, 0, 1)
    assert ledger.dropped == {"refused_by_schema": 2}
    transport.flush(0)
    transport.close(0)
    transport.close(0)
    assert journal.is_ended(read_all(journal).end)
    with pytest.raises(LoggerClosed):
        transport.take(BODY, WINDOW, None, 0)
    with pytest.raises(LoggerClosed):
        transport.quarantine(refused(1), max_block_ms=0)
    with pytest.raises(LoggerClosed):
        transport.lost(WINDOW, FULL)
    assert transport.ledger() == ledger


def test_a_full_journal_drops_the_newest_by_default_and_takes_again_when_its_agent_released_a_segment(tmp_path: Path) -> None:
    transport = started(tmp_path)
    answers = [transport.take(BODY, WINDOW + n, None, 0) for n in range(20)]
    assert answers == [None] * 12 + [FULL] * 8
    assert transport.take(bytes(100), WINDOW, None, 0) is None, "a small one still finds room"
    transport.quarantine(refused(0, payload=BODY), max_block_ms=0)
    journal = journal_of(tmp_path)
    assert journal.losses().counts == {(WINDOW, FULL): 8, (WINDOW, "refused_by_schema"): 1}
    chunk = read_all(journal)
    journal.release(chunk.end)
    wait_until_taken(transport)
    ledger = transport.ledger()
    assert ledger.taken + ledger.quarantined + sum(ledger.dropped.values()) == 22 + ledger.dropped[FULL] - 8 + 1
    assert read_all(journal, chunk.end).records[0].body == BODY


def wait_until_taken(transport: Any) -> None:
    deadline = threading.Event()
    timer = threading.Timer(30, deadline.set)
    timer.start()
    while transport.take(BODY, WINDOW, None, 0) is not None:
        assert not deadline.is_set()
    timer.cancel()


def test_drop_oldest_gives_up_whole_segments_but_none_that_is_under_way(tmp_path: Path) -> None:
    transport = started(tmp_path, when_full="drop_oldest")
    transport.quarantine(refused(0, payload=bytes(500)), max_block_ms=0)
    assert transport.take(b"%04d" % 0 + BODY, WINDOW, None, 0) is None
    journal = journal_of(tmp_path)
    for n in range(1, 6):
        assert transport.take(b"%04d" % n + BODY, WINDOW + n, None, 0) is None
    # The agent has read into the second segment, and says so before it commits its plan.
    first = journal.read(START, 1 << 20, until=Position(1, 64, 0))
    second = journal.read(first.end, 1)
    assert (first.end.segment, second.end.segment) == (1, 1)
    journal.hold(first.end, second.end)
    for n in range(6, 40):
        assert transport.take(b"%04d" % n + BODY, WINDOW + n, None, 0) is None
    left = {int(record.body[:4]) for record in read_all(journal, first.end).records}
    under_way = {int(record.body[:4]) for record in journal.read(first.end, 1 << 20, until=Position(2, 64, 0)).records}
    assert under_way <= left
    assert len(under_way) == 3
    # What is before the agent's mark is settled: it made room, and was not a loss.
    settled = len(first.records) - 1
    losses = journal.losses().counts
    assert losses == {(WINDOW, FULL): 40 - settled - len(left)}
    ledger = transport.ledger()
    assert (ledger.taken, ledger.quarantined, ledger.dropped) == (settled + len(left), 1, {FULL: 40 - settled - len(left)})
    chunk = read_all(journal, first.end)
    assert {int(record.body[:4]) for record in chunk.records} == left
    assert not chunk.unreadable
    assert len(journal.segments()) <= 4


def test_an_agent_that_was_too_slow_is_told_and_reads_on_behind_what_was_given_up(tmp_path: Path) -> None:
    """Once, the reader kept the deleted segment open and met it again and again."""
    transport = started(tmp_path, when_full="drop_oldest")
    journal = None
    for n in range(30):
        assert transport.take(b"%04d" % n + BODY, WINDOW, None, 0) is None
        if journal is None:
            journal = journal_of(tmp_path)
            chunk = journal.read(START, 1)
    assert journal is not None
    with pytest.raises(SegmentGivenUp, match="read it again"):
        journal.hold(START, chunk.end)
    again = journal.read(START, 1 << 20)
    journal.hold(START, again.end)
    assert len(again.records) + sum(journal.losses().counts.values()) == 30
    assert not again.unreadable


def test_a_range_over_segments_that_were_gone_before_it_was_read_can_be_held(tmp_path: Path) -> None:
    """Names a fault: an agent that came when the first segments were given up could hold nothing, and never shipped the rest."""
    transport = started(tmp_path, when_full="drop_oldest")
    for n in range(40):
        assert transport.take(b"%04d" % n + BODY, WINDOW + n, None, 0) is None
    journal = journal_of(tmp_path)
    assert journal.segments()[0] > 0
    chunk = journal.read(START, 1)
    journal.hold(START, chunk.end)
    # What is given up between the reading and the hold is in the range: it must be read again.
    journal.hold(chunk.end, chunk.end)
    held = journal.segments()[0]
    late = read_all(journal, Position(held + 1, 64, 0))
    for n in range(40, 80):
        assert transport.take(b"%04d" % n + BODY, WINDOW + n, None, 0) is None
    with pytest.raises(SegmentGivenUp):
        journal.hold(Position(held + 1, 64, 0), late.end)
    again = read_all(journal, Position(held + 1, 64, 0))
    journal.hold(Position(held + 1, 64, 0), again.end)
    assert {record.body for record in again.records}.isdisjoint(record.body for record in late.records)


def test_a_segment_that_is_told_as_given_up_is_not_read_though_a_kill_left_its_file(tmp_path: Path) -> None:
    """Names a fault: a writer killed between `dropped.json` and the deletion had a segment's events reported as lost, and
    shipped.
    """
    transport = started(tmp_path, when_full="drop_oldest")
    assert transport.take(b"0000" + BODY, WINDOW, None, 0) is None
    journal = journal_of(tmp_path)
    early = journal.read(START, 1)
    file = journal.folder / "00000000000000000000.seg"
    kept = file.read_bytes()
    for n in range(1, 40):
        assert transport.take(b"%04d" % n + BODY, WINDOW + n, None, 0) is None
    file.write_bytes(kept)
    chunk = read_all(journal)
    assert len(chunk.records) + journal.losses().counts[WINDOW, FULL] == 40
    assert not chunk.unreadable
    journal.hold(START, chunk.end)
    with pytest.raises(SegmentGivenUp):
        journal_of(tmp_path).hold(START, early.end)


def test_block_waits_for_room_as_long_as_it_may(tmp_path: Path) -> None:
    transport = started(tmp_path, when_full="block")
    for n in range(12):
        assert transport.take(BODY, WINDOW + n, None, 60_000) is None
    assert transport.take(BODY, WINDOW, None, 50) == FULL
    answers: list[str | None] = []
    waiting = threading.Thread(target=lambda: answers.append(transport.take(BODY, WINDOW, None, 60_000)))
    waiting.start()
    journal = journal_of(tmp_path)
    journal.release(read_all(journal).end)
    waiting.join(60)
    assert answers == [None]


def test_the_quota_of_a_root_is_shared_by_its_journals(tmp_path: Path) -> None:
    first = started(tmp_path, "host/app/1", root_quota_bytes=20_480)
    second = started(tmp_path, "host/app/2", root_quota_bytes=20_480)
    taken = [transport.take(BODY, WINDOW, None, 0) is None for _ in range(12) for transport in (first, second)]
    segments = list(tmp_path.rglob("*.seg"))
    assert len(segments) == 5
    assert sum(taken) == 15


def test_an_application_that_is_started_again_and_again_without_an_agent_stays_within_the_quota_of_the_root(
    tmp_path: Path,
) -> None:
    """Fault: a journal's first segment was not counted against the root's quota."""
    for number in range(5):
        started(tmp_path, f"host/app/{number}", root_quota_bytes=20_480).close(0)
    with pytest.raises(JournalRefused, match=r"take 20480 bytes.*root_quota_bytes \(20480\).*headrace agent status"):
        started(tmp_path, "host/app/5", root_quota_bytes=20_480)
    assert len([*tmp_path.rglob("*.seg")]) == 5
    assert not [*tmp_path.rglob(".new-*")]


def test_an_event_larger_than_a_segment_is_told_as_too_large(tmp_path: Path) -> None:
    transport = started(tmp_path)
    largest = 4096 - 64 - 32
    assert transport.take(bytes(largest + 1), WINDOW, None, 0) == "dropped_too_large"
    assert transport.take(bytes(largest), WINDOW, None, 0) is None
    assert transport.take(bytes(largest - 8), WINDOW, b"eightnow", 0) is None
    assert transport.ledger().dropped == {"dropped_too_large": 1}


def test_settings_that_cannot_be_are_refused_all_at_once(tmp_path: Path) -> None:
    with pytest.raises(JournalRefused, match=r"segment_bytes is 5000.*two segments.*when_full is 'never'"):
        started(tmp_path, segment_bytes=5_000, quota_bytes=6_000, when_full="never")


def test_a_root_that_is_no_folder_is_refused_with_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalRefused, match="no journal can be made in"):
        started(tmp_path / "file")
    assert os.listdir(tmp_path) == ["file"]


def test_threads_take_at_once_and_each_one_s_order_holds(tmp_path: Path) -> None:
    transport = started(tmp_path, quota_bytes=1 << 22, root_quota_bytes=1 << 22)
    each = 2_000

    def log_some(thread: int) -> None:
        for n in range(each):
            assert transport.take(b"%d %d" % (thread, n), WINDOW, None, 0) is None

    threads = [threading.Thread(target=log_some, args=(thread,)) for thread in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    chunk = read_all(journal_of(tmp_path))
    of_each: dict[int, list[int]] = {}
    for record in chunk.records:
        thread_number, number = map(int, record.body.split())
        of_each.setdefault(thread_number, []).append(number)
    assert of_each == {thread: list(range(each)) for thread in range(6)}
    assert not chunk.unreadable
    assert transport.ledger().taken == 6 * each


def log_all(transport: JournalTransport, bodies: list[bytes]) -> None:
    for body in bodies:
        assert transport.take(body, WINDOW, None, 0) is None


def test_a_forked_child_writes_nothing_into_its_parent_s_journal_and_does_not_keep_it_alive(tmp_path: Path) -> None:
    transport = started(tmp_path)
    transport.take(b"parent", WINDOW, None, 0)
    told, tell = os.pipe()
    hold, let_go = os.pipe()
    child = os.fork()
    if not child:
        answer = b"took it"
        try:
            transport.take(b"child", WINDOW, None, 0)
        except LoggerForked:
            answer = b"refused"
        transport.close(0)
        os.write(tell, answer)
        os.read(hold, 1)
        os._exit(0)
    try:
        assert os.read(told, 20) == b"refused"
        journal = journal_of(tmp_path)
        assert journal.is_alive
        assert transport.take(b"parent again", WINDOW, None, 0) is None
        transport.close(0)
        assert not journal.is_alive
        chunk = read_all(journal)
        assert [record.body for record in chunk.records] == [b"parent", b"parent again"]
        assert journal.is_ended(chunk.end)
    finally:
        os.write(let_go, b"x")
        os.waitpid(child, 0)


def test_it_is_announced_when_an_agent_is_enrolled_for_its_topic_or_has_opened_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    transport = started(tmp_path)
    assert "journal_without_agent" in caplog.text
    assert not transport.is_announced
    enrol(tmp_path, "host/agent/a", ["other"])
    assert not transport.is_announced
    caplog.clear()
    second = started(tmp_path, "host/app/2")
    assert "journal_without_agent" not in caplog.text
    enrol(tmp_path, "host/agent/a", ["clicks", "other"])
    assert second.is_announced
    leave(tmp_path, "host/agent/a")
    assert second.is_announced, "what was handed over stays so"
    assert not transport.is_announced
    mark_announced(next(tmp_path.glob("app/*1.*/journal.json")).parent)
    assert transport.is_announced


def test_the_smallest_journal_fits_its_settings() -> None:
    assert SMALL["quota_bytes"] == 4 * SMALL["segment_bytes"]
