"""The audit host's clock goes two hours ahead and back, while the service runs and while it does not."""

from pathlib import Path

import pytest

from headrace.audit.service.hearing.steady_clock import SteadyClock
from headrace.runtime.clock import ManualClock
from tests.support.audit_parts import T0, Service, W, mirror, producer

JUMP_MS = 2 * 3_600_000


class HostClock(ManualClock):
    """A wall clock that may be set; the monotonic one continues."""

    set_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.set_ms


def test_time_goes_on_whatever_the_wall_clock_does() -> None:
    host = HostClock(1_000)
    clock = SteadyClock(host)
    host.set_ms = JUMP_MS
    host.advance(5)
    assert clock.now_ms() == 1_005
    host.set_ms = -JUMP_MS
    host.advance(5)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1_010, 1_010)
    clock.not_before(5_000)
    host.advance(5)
    assert clock.now_ms() == 5_005
    clock.not_before(4_000)
    assert clock.now_ms() == 5_005


@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "over restarts"])
def test_windows_are_decided_though_the_clock_was_two_hours_ahead_and_went_back(tmp_path: Path, *, is_restarted: bool) -> None:
    """Fault: everything was OPEN for as long as the jump, for reports had come 'later' than live was read."""
    service = Service(tmp_path / "books.sqlite")
    host = HostClock(service.clock.now_ms())
    service.clock = host
    service.restart()
    host.set_ms = JUMP_MS
    if is_restarted:
        service.restart()
    service.report(producer({T0: 5, T0 + W: 3}), mirror(0, 100, {T0: 5, T0 + W: 3}))
    service.hear()
    host.set_ms = 0
    if is_restarted:
        service.restart()
    now = service.ledger.books.clock
    # As the readers and the collector ask: by the clock of the books.
    service.clock = now  # type: ignore[assignment]
    now.advance = host.advance  # type: ignore[attr-defined]
    service.read("live", 0, 100, {T0: 5, T0 + W: 3})
    service.hear()
    assert service.verdicts() == {T0: "COMPLETE", T0 + W: "COMPLETE"}
    service.database.close()
