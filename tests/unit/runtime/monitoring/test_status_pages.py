"""The pages of a process that says how it is in a status file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.runtime.http_access import Unprotected
from headrace.runtime.monitoring.status_pages import DEAD_MS, LATE_MS, PagesAddress, StatusPages
from headrace.runtime.monitoring.text_format import Metric, one
from headrace.runtime.status import StatusFile
from tests.support.scraping import get


class HandClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def status(clock: HandClock) -> StatusFile:
    return StatusFile(None, clock)


@pytest.fixture
def port(status: StatusFile, clock: HandClock) -> Iterator[int]:
    pages = StatusPages(
        "test",
        PagesAddress(port=0),
        status,
        clock,
        lambda facts: [Metric("headrace_test_things", "gauge", "Things.", one(facts.get("things", 0)))],
    )
    pages.start()
    assert pages.port is not None
    yield pages.port
    pages.stop()


def test_ready_is_who_said_so_and_says_so_again(port: int, status: StatusFile, clock: HandClock) -> None:
    assert get(port, "/readyz")[:2] == (503, "it has not begun\n")
    status.write("ready", beat_every_ms=1_000, things=12_345_678)
    assert get(port, "/readyz")[:2] == (200, "ready\n")
    assert "headrace_test_things 12345678\n" in get(port, "/metrics")[1]
    assert "headrace_test_ready 1\n" in get(port, "/metrics")[1]
    clock.now += LATE_MS + 1
    assert get(port, "/readyz")[0] == 503
    assert "headrace_test_ready 0\n" in get(port, "/metrics")[1]
    assert get(port, "/healthz")[0] == 200
    clock.now += DEAD_MS
    assert get(port, "/healthz")[0] == 503


def test_a_stalled_process_says_why_and_is_not_restarted_for_it(port: int, status: StatusFile) -> None:
    status.write("stalled", reason="the source is away", beat_every_ms=1_000)
    assert get(port, "/readyz")[:2] == (503, "stalled: the source is away\n")
    assert get(port, "/healthz")[0] == 200


def test_a_process_that_promised_no_beat_is_never_late(port: int, status: StatusFile, clock: HandClock) -> None:
    status.write("ready")
    clock.now += 10 * DEAD_MS
    assert (get(port, "/readyz")[0], get(port, "/healthz")[0]) == (200, 200)


def test_other_machines_are_served_with_a_token_only(status: StatusFile, clock: HandClock, tmp_path: Path) -> None:
    with pytest.raises(Unprotected, match="--metrics-token-file"):
        StatusPages("test", PagesAddress(port=0, host="0.0.0.0"), status, clock, lambda facts: [])
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    pages = StatusPages("test", PagesAddress(port=0, host="0.0.0.0", token_file=token), status, clock, lambda facts: [])
    pages.start()
    try:
        assert pages.port is not None
        assert (get(pages.port, "/metrics")[0], get(pages.port, "/healthz")[0]) == (401, 200)
    finally:
        pages.stop()
