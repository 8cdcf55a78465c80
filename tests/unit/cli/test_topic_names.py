import pytest

from headrace.cli.errors import UsageError
from headrace.cli.topic_names import check_known, check_usable, did_you_mean

KNOWN = ["access_log", "clicks", "Orders", "clicks.quarantine", "_headrace.audit"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("acces_log", ["access_log"]),
        ("clikcs", ["clicks"]),
        ("CLICKS", ["clicks"]),
        ("orders", ["Orders"]),
        ("payments", []),
        ("_headrace.audt", ["_headrace.audit"]),
    ],
)
def test_the_name_that_was_meant_is_found(typed: str, meant: list[str]) -> None:
    assert did_you_mean(typed, KNOWN) == meant


def test_an_unknown_topic_is_refused_with_the_likely_one_and_a_way_to_see_all() -> None:
    check_known("clicks", KNOWN, "on h:1")
    with pytest.raises(UsageError, match=r"there is no topic 'clics' on h:1\. Did you mean 'clicks'\? `headrace topic list`"):
        check_known("clics", KNOWN, "on h:1")
    with pytest.raises(UsageError, match=r"there is no topic 'x' on h:1\. `headrace topic list`"):
        check_known("x", KNOWN, "on h:1")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("bad topic!", "may only have letters"),
        ("", "may not be empty"),
        ("..", "may not be '..'"),
        ("a" * 250, "at most 249 characters"),
        ("a" * 239, "may have 238"),
        ("_mine", "the platform's own"),
        ("clicks.quarantine", "the platform's own"),
    ],
)
def test_a_name_that_events_cannot_be_logged_to_is_refused(name: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check_usable(name)


def test_other_names_are_usable() -> None:
    for name in ("clicks", "web.clicks-1", "A_b", "a" * 238):
        check_usable(name)
