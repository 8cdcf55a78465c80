"""The page of the paper's test: its curves, figures and tables, from results that are given."""

import xml.etree.ElementTree as ElementTree

import pytest

from bench.paper.chart import draw
from bench.paper.page import page
from bench.paper.series import Series, pieces, sizes


def test_a_curve_has_a_rate_for_each_piece_over_all_that_went_before() -> None:
    one = Series(subject="x", how="")
    one.add(5_000, 0.5)
    one.add(5_000, 2.0)
    assert one.points == [(1.0, 10_000.0), (2.0, 2_500.0)]
    assert one.messages_per_s == 4_000
    assert Series.of(one.words()) == one


def test_pieces_add_up_to_the_run() -> None:
    assert pieces([(100, 1.0), (250, 2.0)], 300, 2.5) == [(100, 1.0), (150, 1.0), (50, 0.5)]
    assert pieces([], 300, 2.5) == [(300, 2.5)]
    for total, count, multiple in ((10_000_000, 40, 50), (1_010, 40, 50), (49, 3, 50)):
        found = sizes(total, count, multiple)
        assert sum(found) == total
        assert all(size % multiple == 0 for size in found[:-1])


def test_the_figure_has_a_line_for_each_subject() -> None:
    series = [Series(subject=f"S<{number}>", how="", points=[(1.0, 10.0**number), (2.0, 5.0)]) for number in range(1, 6)]
    found = ElementTree.fromstring(draw("A & B", series))
    lines = [one for one in found.iter() if one.tag.endswith("polyline")]
    assert len(lines) == 5
    assert "S<3>" in [one.text for one in found.iter()]
    with pytest.raises(ValueError, match="nothing"):
        draw("none", [])


def test_the_page_says_that_a_trial_is_one_and_what_was_left_out() -> None:
    result = {
        "at": "now",
        "messages": 1_000,
        "peer_s": 5.0,
        "machine": {"cores": 2},
        "versions": {"a": "A 1"},
        "skipped": {"R": "no R"},
    }
    one = Series(subject="A", how="as it is", note="ended after 5 s")
    one.add(1_000, 0.1)
    text = page(result, [one], [one])
    assert "A trial of 1,000 messages" in text
    assert "- R: no R" in text
    assert "cores 2" in text
    assert "| A | 10,000 | 1,000 | 0.1 | as it is; ended after 5 s |" in text
    assert "trial" not in page({**result, "messages": 10_000_000}, [one], [one])
