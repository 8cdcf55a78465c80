"""Columns of hours: newest first, years shown, gaps marked."""

from headrace.console.hours import HOUR_MS, Column, Day, columns, days

T = 1_431_849_600_000  # 2015-05-17 08:00 UTC


def test_the_newest_hour_comes_first_under_its_day_with_the_year() -> None:
    found = columns([T, T + HOUR_MS, T + 2 * HOUR_MS])
    assert [one.text for one in found] == ["10", "09", "08"]
    assert days(found) == [Day(text="2015-05-17", width=3)]


def test_a_gap_stands_between_two_hours_that_do_not_follow_each_other() -> None:
    found = columns([T, T + 3 * HOUR_MS])
    assert found == [
        Column(start_ms=T + 3 * HOUR_MS, text="11"),
        Column(start_ms=None, text="2 hours without a window"),
        Column(start_ms=T, text="08"),
    ]
    assert [(one.text, one.width, one.is_gap) for one in days(found)] == [
        ("2015-05-17", 1, False),
        ("2 hours without a window", 1, True),
        ("2015-05-17", 1, False),
    ]


def test_a_gap_of_years_is_counted_in_days_and_a_new_day_has_a_heading_of_its_own() -> None:
    year = 366 * 24 * HOUR_MS
    found = columns([T, T + year, T + year + 16 * HOUR_MS])
    assert [one.text for one in days(found)] == [
        "2016-05-18",
        "15 hours without a window",
        "2016-05-17",
        "365 days without a window",
        "2015-05-17",
    ]


def test_an_hour_that_no_calendar_has_is_shown_as_its_number() -> None:
    far = 1 << 61
    (found,) = columns([far])
    assert found.text == f"{far} ms"
    assert columns([]) == []
