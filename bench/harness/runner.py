"""Runs measures: the cases of a measure interleaved within each round, medians at the end.

Each case begins on a machine at rest. The order within a round is drawn by lot: in a fixed order a case would always follow the
same neighbour and pay for what that leaves behind. A case that fails is reported by name with its reason; the others continue.
"""

import fcntl
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from .measure import Case, Figures, Measure
from .quiesce import quiesce
from .servers import Servers
from .unavailable import Unavailable


def medians(samples: Sequence[Figures]) -> dict[str, float]:
    """Return the median of each figure over the runs that have it."""
    names = sorted({name for sample in samples for name in sample})
    return {name: statistics.median([sample[name] for sample in samples if name in sample]) for name in names}


def shuffled(cases: Sequence[Case], turn: int) -> list[Case]:
    """Return the cases of one round in that round's order, which is the same in every run."""
    return random.Random(turn + 1).sample(cases, len(cases))


class Lock:
    """A lock file that is held during measurements, where other programs measure on the same machine too.

    It is held over several cases, because each wait may be long, and released between two cases after `HOLD_S`. No path: no lock.
    """

    HOLD_S = 100.0

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: IO[str] | None = None
        self._since = 0.0

    @property
    def is_held(self) -> bool:
        return self._file is not None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock during the block; wait for it first where it is not held."""
        if self._path is not None and self._file is None:
            self._file = self._path.open("a")
            fcntl.flock(self._file, fcntl.LOCK_EX)
            self._since = time.monotonic()
        try:
            yield
        finally:
            if time.monotonic() - self._since > self.HOLD_S:
                self.release()

    def release(self) -> None:
        """Let others have the lock."""
        if self._file is not None:
            self._file.close()
            self._file = None


def run(measure: Measure, servers: Servers, lock: Lock | None = None) -> dict[str, Any]:
    """Return `{"title", "rounds", "took_s", "rows": [{"subject", "shape", "how", "median", "samples", "failed"?}], "failed"?}`.

    Where the measure itself cannot be prepared, `failed` says why and there are no rows.
    """
    began = time.monotonic()
    rounds = min(servers.rounds, measure.at_most)
    found: dict[str, Any] = {"title": measure.title, "rounds": rounds, "took_s": 0.0, "rows": []}
    try:
        servers.keep_only(set(measure.needs))
        found["rows"] = _rows(measure, servers, rounds, lock or Lock(None))
    except Unavailable as reason:
        servers.skip(measure.name, str(reason))
    except Exception as fault:  # the other measures continue after any fault
        found["failed"] = str(fault)[:1500]
        _say(f"{measure.name} failed: {str(fault)[-1500:]}")
    finally:
        if lock is not None:
            lock.release()
    found["took_s"] = round(time.monotonic() - began, 1)
    return found


def _rows(measure: Measure, servers: Servers, rounds: int, lock: Lock) -> list[dict[str, Any]]:
    with measure.cases(servers) as cases:
        samples: dict[tuple[str, str], list[Figures]] = {(case.subject, case.shape): [] for case in cases}
        failed: dict[tuple[str, str], str] = {}
        absent: set[tuple[str, str]] = set()
        warm_ups = 0 if servers.quick else measure.warm_ups
        for turn in range(-warm_ups, rounds):
            for case in shuffled(cases, turn):
                key = (case.subject, case.shape)
                if key in failed or key in absent:
                    continue
                try:
                    with lock.held():
                        quiesce(servers.folder)
                        figures = case.run(turn + warm_ups)
                except Unavailable as reason:
                    absent.add(key)
                    servers.skip(f"{measure.name}: {case.subject}, {case.shape}", str(reason))
                    continue
                except Exception as fault:  # the other cases continue after any fault
                    failed[key] = str(fault)[:600]
                    _say(f"{measure.name}: {case.subject}, {case.shape} failed: {str(fault)[:600]}")
                    continue
                if turn >= 0:
                    samples[key].append(figures)
                _say(f"{measure.name} {turn + 1}/{rounds}: {case.subject}, {case.shape}: {_brief(figures)}")
        rows = []
        for case in cases:
            key = (case.subject, case.shape)
            if key in absent:
                continue
            row: dict[str, Any] = {
                "subject": case.subject,
                "shape": case.shape,
                "how": case.how,
                "median": medians(samples[key]),
                "samples": [dict(sample) for sample in samples[key]],
            }
            if key in failed:
                row["failed"] = failed[key]
            rows.append(row)
    return rows


def _brief(figures: Figures) -> str:
    if {"messages_per_s", "server_cpu_s_per_million"} <= figures.keys():
        return f"{figures['messages_per_s']:,.0f}/s, server {figures['server_cpu_s_per_million']:.2f} CPU s/M"
    return ", ".join(f"{name} {value:.4g}" for name, value in figures.items())


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
