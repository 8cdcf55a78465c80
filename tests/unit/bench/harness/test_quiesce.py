"""A case begins on a machine at rest, or after a bound; the folder is left as it was."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.harness import quiesce


class Machine:
    """A machine whose processors are busy for some looks, and a clock that continues by each sleep."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, busy_looks: int) -> None:
        self.now_s = 0.0
        self._ticks = self._busy_ticks(busy_looks)
        monkeypatch.setattr(quiesce, "TOUCHED_BYTES", 4 << 20)
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(time, "sleep", self._sleep)
        monkeypatch.setattr(quiesce, "_ticks", lambda: next(self._ticks))

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds

    @staticmethod
    def _busy_ticks(busy_looks: int) -> Iterator[tuple[int, int]]:
        busy = total = 0
        while True:
            yield busy, total
            total += 20
            busy += 11 if total <= 20 * busy_looks else 1


@pytest.mark.parametrize(("busy_looks", "waited_s"), [(0, 0.1), (3, 0.4), (10_000, 5.0)])
def test_it_waits_until_nobody_is_busy_any_more_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy_looks: int, waited_s: float
) -> None:
    machine = Machine(monkeypatch, busy_looks)
    quiesce.quiesce(tmp_path)
    assert machine.now_s == pytest.approx(waited_s, abs=0.15)
    assert list(tmp_path.iterdir()) == []


def test_ticks_of_this_machine_go_on() -> None:
    busy, total = quiesce._ticks()
    assert 0 < busy < total
