"""How sure one may be of a session: scenarios as transcripts of events."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.coordination.standing import SessionState, Standing

SURE, UNSURE, LOST = SessionState.SURE, SessionState.UNSURE, SessionState.LOST


def sure_standing() -> Standing:
    standing = Standing(lease_ms=100)
    standing.connected()
    standing.confirmed(1, 1_000)
    standing.take_changes()
    return standing


def test_a_connection_alone_makes_nobody_sure() -> None:
    standing = Standing(lease_ms=100)
    standing.connected()
    assert not standing.is_sure(0)
    assert standing.take_changes() == []


def test_an_answer_makes_sure_for_a_lease_counted_from_the_question() -> None:
    standing = sure_standing()
    assert standing.is_sure(1_099)
    assert not standing.is_sure(1_100)


def test_a_lease_that_ran_out_is_a_change_to_unsure() -> None:
    standing = sure_standing()
    standing.tick(1_100)
    assert standing.take_changes() == [UNSURE]


def test_a_broken_connection_ends_the_certainty_at_once() -> None:
    standing = sure_standing()
    standing.suspended()
    assert not standing.is_sure(1_001)
    assert standing.take_changes() == [UNSURE]


def test_an_answer_of_an_earlier_connection_proves_nothing() -> None:
    standing = sure_standing()
    standing.suspended()
    standing.connected()
    standing.confirmed(1, 1_050)
    assert not standing.is_sure(1_051)
    standing.confirmed(2, 1_060)
    assert standing.is_sure(1_061)


def test_a_lost_session_counts_up_once() -> None:
    standing = sure_standing()
    standing.suspended()
    standing.lost()
    standing.lost()
    assert standing.generation == 1
    standing.connected()
    standing.confirmed(2, 2_000)
    assert standing.take_changes() == [LOST, SURE]


def test_a_late_answer_never_shortens_the_lease() -> None:
    standing = sure_standing()
    standing.confirmed(1, 900)
    assert standing.is_sure(1_099)


@settings(max_examples=200)
@given(st.lists(st.sampled_from(["connected", "suspended", "lost", "confirmed", "tick"]), max_size=60))
def test_untaken_changes_stay_bounded_and_end_in_the_present_state(events: list[str]) -> None:
    standing = Standing(lease_ms=10)
    before, losses, now_ms = LOST, 0, 0
    for event in events:
        now_ms += 4
        match event:
            case "connected":
                standing.connected()
            case "suspended":
                standing.suspended()
            case "lost":
                losses += standing.state is not LOST
                standing.lost()
            case "confirmed":
                standing.confirmed(standing.connection, now_ms)
            case "tick":
                standing.tick(now_ms)
        assert not standing.is_sure(now_ms) or standing.state is SURE
    changes = standing.take_changes()
    assert len(changes) <= 2
    assert (changes[-1] if changes else before) is standing.state
    assert standing.generation == losses
