"""docs/SCALING.md: its numbers follow from costs that are in the pages which it names."""

import re
from pathlib import Path

import pytest

from bench.scaling import COSTS, NOW, THEN, Cost, cores, figures, number, page

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("cost", COSTS, ids=lambda cost: cost.what)
def test_each_cost_stands_in_the_page_that_it_names(cost: Cost) -> None:
    assert cost.words in (ROOT / cost.source).read_text()


def test_the_page_holds_what_is_computed() -> None:
    assert (ROOT / "docs" / "SCALING.md").read_text().endswith("## Computed\n" + page())


def test_the_arithmetic_by_hand() -> None:
    # 172,000 events of 5.4 µs are 0.93 s of processor a second; half busy cores: twice as many.
    assert cores(THEN, 5.4) == pytest.approx(1.8576)
    found = {what: value for what, value, _ in figures(NOW)}
    assert found["events a second, at the peak"] == pytest.approx(2 * 32e12 / 86_400)
    assert found["loads: one run over all topics, each with something new"] == pytest.approx(400_000 * 0.263 / 3_600)
    assert found["audit: its store"] == pytest.approx(400_000 * 8.5 / 10_000)


def test_what_the_text_says_first_is_what_was_computed() -> None:
    text = (ROOT / "docs" / "SCALING.md").read_text().partition("## Computed")[0]
    for what, unit in (("live brokers (one core each)", "brokers"), ("mirror", "cores"), ("audit: both logs read back", "cores")):
        value = number(next(value for name, value, _ in figures(NOW) if name == what))
        assert re.search(rf"\b{value} {unit}", text), f"{what}: {value} {unit}"


def test_numbers_are_written_with_two_digits_that_count() -> None:
    assert [number(value) for value in (0.0263, 5.4, 12.3, 359, 172_000, 2_634.4)] == [
        "0.026",
        "5.4",
        "12",
        "360",
        "170,000",
        "2,600",
    ]
