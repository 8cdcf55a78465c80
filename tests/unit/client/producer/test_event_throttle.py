from headrace.client.producer.event_throttle import MOST_KINDS, EventThrottle


def test_the_first_of_a_kind_is_told_then_one_in_a_while_with_the_number_left_out() -> None:
    throttle = EventThrottle(every_ms=100)
    assert [throttle.is_due("a", at) for at in (0, 1, 99, 100)] == [True, False, False, True]
    assert throttle.left_out("a") == {"left_out": 2}
    assert throttle.left_out("a") == {}


def test_kinds_do_not_hide_each_other() -> None:
    throttle = EventThrottle()
    assert throttle.is_due("a", 0)
    assert throttle.is_due("b", 0)
    assert not throttle.is_due("a", 1)


def test_what_is_remembered_is_bounded() -> None:
    throttle = EventThrottle(every_ms=1_000_000)
    for kind in range(MOST_KINDS + 1):
        assert throttle.is_due(kind, 0)
    assert len(throttle._next_ms) == 1
