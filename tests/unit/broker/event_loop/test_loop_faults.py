"""A call that fails does not stop the loop, and is logged at most once a second."""

import logging

import pytest

from headrace.broker.event_loop.loop import Loop


def test_a_fault_that_comes_a_thousand_times_is_told_once_a_second_with_the_number_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_ms, called = [10_000], [0]
    loop = Loop(monotonic_ms=lambda: now_ms[0])

    def fails() -> None:
        called[0] += 1
        if called[0] == 1_000:
            now_ms[0] += 1_001
        if called[0] == 1_002:
            loop.stop()
        loop.post(fails)
        raise RuntimeError("a fault of ours")

    loop.post(fails)
    with caplog.at_level(logging.ERROR):
        loop.run()
    loop.close()
    faults = [record for record in caplog.records if record.getMessage() == "loop_call_failed"]
    assert len(faults) == 2
    assert faults[1].fields["left_out"] == 999  # type: ignore[attr-defined]
    assert all(record.exc_info for record in faults)
