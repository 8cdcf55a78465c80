"""Which runs of a topic may keep one of its windows waiting. Pure.

A run that has sealed a window, holds nothing of it and lost no report has nothing to say about it: however many runs there are,
a window of yesterday asks none. Building it costs one look at each run.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from .runs import Run

_NOTHING = -(1 << 63)
MOST_BUCKETS = 64
"""Windows of one hold that are noted one by one; the runs of wider ones (a replay's) are looked at for each window."""


class RunIndex:
    """Of the runs as they are now."""

    def __init__(self, runs: Sequence[Run], ended: Iterable[Run] = ()) -> None:
        """`ended`: runs that have said all; only the time of their last word counts."""
        self._runs = runs
        self._always = [at for at, run in enumerate(runs) if run.gaps]
        unsealed = sorted((_sealed_to(run), at) for at, run in enumerate(runs) if run.closed_ms is None)
        self._sealed_to = [past for past, _ in unsealed]
        self._by_seal = [at for _, at in unsealed]
        self._width = 0
        self._holding: dict[int, list[int]] = {}
        self._wide: list[int] = []
        self.latest_report_ms = max((_latest_report_ms(run) for run in (*runs, *ended)), default=0)
        """No seal, and no retirement, was heard later."""

    def runs_concerning(self, window_start_ms: int, window_end_ms: int) -> list[Run]:
        """Return the runs that may have something to say about the window, in order, and perhaps some that have not."""
        if window_end_ms - window_start_ms != self._width:
            self._note_holds(window_end_ms - window_start_ms)
        found = {*self._always, *self._wide, *self._by_seal[: bisect_left(self._sealed_to, window_end_ms)]}
        found.update(self._holding.get(window_start_ms // self._width, ()))
        return [self._runs[at] for at in sorted(found)]

    def _note_holds(self, width: int) -> None:
        self._width, self._holding, self._wide = width, {}, []
        for at, run in enumerate(self._runs):
            for hold in run.held():
                first, end = hold.from_ms // width, -(-hold.to_ms // width)
                if end - first > MOST_BUCKETS:
                    self._wide.append(at)
                    continue
                for number in range(first, end):
                    self._holding.setdefault(number, []).append(at)


def _sealed_to(run: Run) -> int:
    return run.seals[-1][0] if run.seals else _NOTHING


def _latest_report_ms(run: Run) -> int:
    sealed_ms = run.seals[-1][1] if run.seals else 0
    return max(sealed_ms, run.closed_ms or 0, run.retired.heard_ms if run.retired is not None else 0)
