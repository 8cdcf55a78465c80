"""Messages out of a stream, cut into pieces anywhere."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.agent.receive.syslog_framing import BAD_FRAMING, CUT_SHORT, TOO_LONG, SyslogFraming

LIMIT = 20


def fed(pieces: list[bytes], limit: int = LIMIT) -> list[tuple[bytes, str]]:
    framing = SyslogFraming(limit)
    found = []
    for piece in pieces:
        found += framing.feed(piece)
        assert framing.held_bytes <= limit + len(piece) + 12
    found += framing.end()
    return [(one.content, one.code) for one in found]


def test_both_framings_may_follow_each_other() -> None:
    assert fed([b"<1>one\n5 <2>tw<3>three\0\n\n"]) == [(b"<1>one", ""), (b"<2>tw", ""), (b"<3>three", "")]


def test_a_line_without_its_end_is_a_message_and_a_count_without_its_octets_is_not() -> None:
    assert fed([b"<1>one"]) == [(b"<1>one", "")]
    assert fed([b"9 <1>one"]) == [(b"9 <1>one", CUT_SHORT)]


def test_what_is_too_long_is_skipped_and_the_next_is_read() -> None:
    long = b"<1>" + b"x" * 30
    assert fed([long + b"\n<2>y\n"]) == [(long[:LIMIT], TOO_LONG), (b"<2>y", "")]
    assert fed([b"33 " + long + b"4 <2>y"]) == [(long[:LIMIT], TOO_LONG), (b"<2>y", "")]


def test_a_digit_without_a_count_ends_the_connection() -> None:
    framing = SyslogFraming(LIMIT)
    assert [one.code for one in framing.feed(b"<1>a\n12x3 <1>b\n")] == ["", BAD_FRAMING]
    assert framing.is_broken
    assert framing.feed(b"<1>c\n") == []


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    """Messages, and their stream in pieces."""
    messages = draw(st.lists(st.binary(min_size=1, max_size=16).map(lambda b: b"<1>" + b.translate(None, b"\n\0")), max_size=8))
    stream = b"".join(
        (b"%d " % len(one)) + one if draw(st.booleans()) else one + draw(st.sampled_from([b"\n", b"\0"])) for one in messages
    )
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    return messages, [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


@given(streams())
def test_wherever_a_stream_is_cut_its_messages_are_the_same(stream: tuple[list[bytes], list[bytes]]) -> None:
    messages, pieces = stream
    assert fed(pieces) == [(one, "") for one in messages]
