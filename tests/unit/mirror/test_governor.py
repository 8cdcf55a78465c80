"""Pauses and bounds: what may be fetched, against a clock that the test moves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.fetch.fetched import TopicPartition
from headrace.mirror.control.governor import Governor
from headrace.mirror.control.orders import ALL, NotOrders, Orders, Pause

CLICKS, ORDERS = TopicPartition("clicks", 0), TopicPartition("orders", 0)
WANTED = {CLICKS: 0, ORDERS: 0}
PAUSE = Pause(since_ms=1_431_857_103_000, by="anna", reason="disk full")


def governor(orders: Orders) -> Governor:
    found = Governor()
    found.orders = orders
    return found


def test_a_pause_of_a_topic_holds_for_it_alone_and_that_of_the_mirror_for_all() -> None:
    one = governor(Orders().pausing(["clicks"], PAUSE))
    assert one.admitted(WANTED, 0) == {ORDERS: 0}
    assert one.held(WANTED) == {CLICKS: "paused since 2015-05-17T10:05:03Z by anna: disk full"}
    assert governor(Orders().pausing([], PAUSE)).admitted(WANTED, 0) == {}


def test_a_notice_says_in_one_line_what_is_held_back() -> None:
    paused = "paused since 2015-05-17T10:05:03Z by anna: disk full"
    assert Orders().notice() is None
    assert Orders().pausing([], PAUSE).throttling([], 5_000).notice() == paused
    assert Orders().pausing(["clicks"], PAUSE).throttling(["orders"], 5_000).notice() == (
        f"clicks {paused}; orders throttled to 5000 bytes/s"
    )
    assert Orders().throttling([], 5_000).notice() == "throttled to 5000 bytes/s"
    many = Orders().pausing([f"topic{number}" for number in range(9)], PAUSE).notice()
    assert str(many).endswith(f"topic2 {paused}; and 6 more")


@given(
    st.integers(1_024, 1_000_000),
    st.lists(st.tuples(st.integers(0, 500), st.integers(1, 200_000)), min_size=1, max_size=200),
)
def test_no_more_is_admitted_in_any_time_than_the_bound_a_second_saved_and_one_fetch(
    rate: int, fetches: list[tuple[int, int]]
) -> None:
    one = governor(Orders().throttling([], rate))
    now_ms = total = largest = 0
    for wait_ms, size_bytes in fetches:
        now_ms += wait_ms
        if one.admitted({CLICKS: 0}, now_ms):
            one.fetched({CLICKS: size_bytes})
            total, largest = total + size_bytes, max(largest, size_bytes)
        assert total <= rate * (now_ms / 1000 + 1) + largest


@given(st.integers(1_024, 1_000_000), st.integers(1, 200_000))
def test_what_is_owed_is_waited_for_and_then_it_goes_on(rate: int, size_bytes: int) -> None:
    one = governor(Orders().throttling(["clicks"], rate))
    assert one.admitted(WANTED, 0) == WANTED
    one.fetched({CLICKS: size_bytes, ORDERS: 10**9})
    later_ms = 1 + size_bytes * 1000 // rate
    assert one.admitted(WANTED, later_ms) == WANTED


def test_one_fetch_brings_no_more_than_a_part_of_a_second() -> None:
    one = governor(Orders().throttling(["clicks"], 400_000))
    one.admitted(WANTED, 0)
    assert one.fetch_bytes([CLICKS, ORDERS], 8 << 20) == 100_000
    assert one.fetch_bytes([ORDERS], 8 << 20) == 8 << 20
    slow = governor(Orders().throttling([], 1_024))
    slow.admitted(WANTED, 0)
    assert slow.fetch_bytes(WANTED, 8 << 20) == 16 * 1024


def test_orders_come_back_from_their_bytes_and_each_change_has_a_number() -> None:
    orders = Orders().pausing(["clicks"], PAUSE).throttling([], 5_000).throttling(["clicks"], 2_000)
    assert orders.number == 3
    assert Orders.from_json(orders.to_json(), "here") == orders
    again = orders.pausing(["clicks"], Pause(since_ms=9))
    assert again.paused["clicks"] == PAUSE, "a pause that holds keeps its beginning"
    assert orders.resuming([]).paused == {}
    assert orders.throttling(["clicks"], None).bytes_per_s == {ALL: 5_000}
    assert orders.throttling([], None).bytes_per_s == {}


@given(st.one_of(st.binary(max_size=40), st.sampled_from([b"[]", b'{"v":2}', b'{"v":1}', b'{"v":1,"number":1,"paused":3}'])))
def test_bytes_that_are_no_orders_are_refused_with_the_file_s_name(data: bytes) -> None:
    with pytest.raises(NotOrders, match=r"/run/mirror\.orders"):
        Orders.from_json(data, "/run/mirror.orders")
