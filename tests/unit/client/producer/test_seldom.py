from headrace.client.producer.seldom import MOST_KINDS, Seldom


def test_the_first_of_a_kind_is_told_then_one_in_a_while_with_the_number_left_out() -> None:
    seldom = Seldom(every_ms=100)
    assert [seldom.is_told("a", at) for at in (0, 1, 99, 100)] == [True, False, False, True]
    assert seldom.left_out("a") == {"left_out": 2}
    assert seldom.left_out("a") == {}


def test_kinds_do_not_hide_each_other() -> None:
    seldom = Seldom()
    assert seldom.is_told("a", 0)
    assert seldom.is_told("b", 0)
    assert not seldom.is_told("a", 1)


def test_what_is_remembered_is_bounded() -> None:
    seldom = Seldom(every_ms=1_000_000)
    for kind in range(MOST_KINDS + 1):
        assert seldom.is_told(kind, 0)
    assert len(seldom._next_ms) == 1
