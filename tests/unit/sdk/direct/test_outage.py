from headrace.sdk.direct.outage import Outages


def test_an_outage_is_told_when_it_begins_and_not_with_each_try() -> None:
    outages = Outages(remind_ms=1_000)
    assert [outages.failed("broker", at) for at in (0, 10, 500, 999)] == [True, False, False, False]


def test_its_end_is_told_once_with_its_length() -> None:
    outages = Outages()
    assert outages.works("broker", 5) is None
    outages.failed("broker", 10)
    outages.failed("broker", 20)
    assert outages.works("broker", 110) == 100
    assert outages.works("broker", 120) is None
    assert outages.failed("broker", 130), "another outage"


def test_a_long_one_is_told_again_once_in_a_while() -> None:
    outages = Outages(remind_ms=1_000)
    assert [outages.failed("broker", at) for at in (0, 1_000, 1_001, 2_500)] == [True, True, False, True]
    assert outages.works("broker", 3_000) == 3_000


def test_two_things_that_are_away_are_two_outages() -> None:
    outages = Outages()
    assert outages.failed("broker", 0)
    assert outages.failed("registry", 1)
    assert outages.works("broker", 2) == 2
    assert outages
    assert outages.works("registry", 3) == 2
    assert not outages
