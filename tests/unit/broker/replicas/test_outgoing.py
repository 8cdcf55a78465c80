"""What a leader sends to one follower, and when."""

from pathlib import Path

from headrace.broker.replicas.outgoing import RESEND_MS, WINDOW_BYTES, Outgoing
from tests.support.small_logs import NOW_MS, fetched, twelve_batches


def test_what_is_under_way_is_not_sent_again_for_a_while() -> None:
    out = Outgoing()
    out.asked(100, 1_000)
    assert out.has_news(300, 100, 0)
    out.sent(100, 300, 1_000, 0, 300)
    out.asked(100, 1_000 + RESEND_MS - 1)
    assert not out.has_news(300, 100, 0)
    out.asked(100, 1_000 + RESEND_MS)
    assert out.position == 100
    assert out.has_news(300, 100, 0)


def test_a_follower_that_went_back_gets_everything_from_there() -> None:
    out = Outgoing()
    out.asked(100, 1_000)
    out.sent(100, 300, 1_000, 0, 300)
    out.asked(40, 1_001)
    assert out.position == 40


def test_a_window_bounds_what_is_not_acknowledged() -> None:
    out = Outgoing()
    out.asked(0, 0)
    out.sent(0, WINDOW_BYTES, 0, 0, 2 * WINDOW_BYTES)
    assert not out.has_news(2 * WINDOW_BYTES, 0, 0)
    assert out.has_news(2 * WINDOW_BYTES, 1, 0)


def test_what_cannot_be_read_is_tried_when_it_is_asked_for_again() -> None:
    out = Outgoing()
    out.asked(100, 0)
    out.sent(100, 100, 0, 0, 300)
    assert not out.has_news(300, 100, 0)
    out.asked(100, 1)
    assert out.has_news(300, 100, 0)


def test_a_new_log_start_is_told() -> None:
    out = Outgoing()
    out.asked(100, 0)
    assert out.has_news(100, 100, 0), "the first answer tells it"
    out.sent(100, 100, 0, 0, 100)
    assert not out.has_news(100, 100, 0)
    assert out.has_news(100, 100, 50)


def test_an_answer_at_the_logs_end_does_not_hold_back_what_is_appended_after_it() -> None:
    """A new leader's first answer tells its log's start. What was appended next then waited for the follower's next tick."""
    out = Outgoing()
    out.asked(100, 0)
    out.sent(100, 100, 0, 0, 100)
    assert out.has_news(120, 100, 0)


def test_a_follower_that_lacks_what_was_deleted_gets_the_first_batch_that_is_kept(tmp_path: Path) -> None:
    """DeleteRecords may name an offset inside a batch: an empty log must begin where that batch does."""
    log = twelve_batches(tmp_path, segment_bytes=300)
    kept = fetched(log)[5][0]
    log.advance_start(kept.position + 1, NOW_MS)
    out = Outgoing()
    out.asked(0, 1_000)
    data, first, end = out.read(log, 1)
    assert (first, end) == (kept.position, kept.next_offset)
    out.asked(kept.position, 2_000)
    assert out.read(log, 1) == (data, first, end)
    log.advance_start(log.log_end_offset, NOW_MS)
    assert out.read(log, 1) == (b"", -1, kept.position)
