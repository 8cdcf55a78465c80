"""`python -m tests.integration.cluster.commit_rounds`: loads without Spark, killed at random behind a catalog that loses answers.

A round lets the log grow; a load in a process of its own (forked; log and rows are pretended, commit and store are real) runs
into an object store, with its catalog behind a proxy that drops, delays and repeats, and is killed with -9 at a random time, at a
step of the commit, or at a request to the catalog; sometimes a second one runs beside it. Then loads without trouble make it
whole. An oracle of its own looks for each row. Rounds of the whole, with Spark, are `kill_rounds`.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.spark.load import load_job
from headrace.spark.load.load_job import LoadJob
from headrace.spark.load.settings import LoadSettings
from headrace.spark.load.topic_load import TopicLoad
from headrace.spark.source.log_ends import LogEnds
from headrace.spark.source.task_reports import Total
from tests.support.stored_rows import EVENT, write_rows

from .warehouses import POINTS, Catalogued

TOPIC = "clicks"
TRIES = 8
ROWS_EVERY_MS = 400_000
ROUND_S = 120.0
HARMLESS, FAULT = 0, 1


class Log:
    """A log that is pretended: a row for each offset."""

    def __init__(self) -> None:
        self.end = 0
        load_job.log_ends = lambda *_: LogEnds(start={0: 0}, end={0: self.end})  # type: ignore[assignment]
        LoadJob._write = lambda job, load: self._write(load)  # type: ignore[method-assign]

    @staticmethod
    def _write(load: TopicLoad) -> Any:
        rows = [(0, at, at * ROWS_EVERY_MS) for one in load.ranges for at in range(one.from_offset, one.to_offset)]
        return EVENT, write_rows(load.path / "rows-0", rows), Total(row_count=len(rows))


def loading(where: Catalogued) -> int:
    """Fork a load and return its process."""
    pid = os.fork()
    if pid:
        return pid
    code = FAULT
    try:
        os.dup2(where.said.fileno(), 1)
        os.dup2(where.said.fileno(), 2)
        settings = LoadSettings(
            topic=TOPIC,
            bootstrap="-",
            quarantine_bootstrap="-",
            registry_url="-",
            warehouse=where.world.settings,
            home=where.world.home,
        )
        LoadJob(settings).run()
        code = HARMLESS
    except HeadraceError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 9
    finally:
        os._exit(code)


def play(where: Catalogued, log: Log, seed: int) -> str:
    """Play a round; return what happened in it. Raises AssertionError."""
    chance = random.Random(seed)
    log.end += chance.choice((1, 3, 30))
    is_unruly = chance.random() < 0.8
    where.proxy.chances.trouble(seed, of_all=0.02 if is_unruly else 0, of_commits=0.3 if is_unruly else 0)
    fate = chance.choice(("lives", "at a time", "at a step", "at a request"))
    armed = where.failpoints / chance.choice(POINTS)
    if fate == "at a step":
        armed.touch()
    number, due = chance.randint(1, 120), time.monotonic() + chance.uniform(0, 3)
    running = [loading(where) for _ in range(chance.choice((1, 1, 1, 2)))]
    if fate == "at a request":
        where.proxy.chances.at = lambda seen: os.kill(running[0], signal.SIGKILL) if seen == number and running else None
    until = time.monotonic() + ROUND_S
    while running:
        for pid in list(running):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                running.remove(pid)
                assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) in (HARMLESS, FAULT), where.end_of_log()
        is_due = {"at a time": time.monotonic() > due, "at a step": armed.with_name(f"{armed.name}.reached").exists()}
        if is_due.get(fate) and running:
            os.kill(running[0], signal.SIGKILL)
            fate, _ = f"{fate} ", armed.unlink(missing_ok=True)
        assert time.monotonic() < until, f"a load hangs:\n{where.end_of_log()}"
        time.sleep(0.005)
    where.proxy.chances.calm()
    for left in where.failpoints.glob("*"):
        left.unlink()
    before = len(where.rows(TOPIC, "_offset"))
    tries = load_till_done(where)
    found = Counter(int(str(offset)) for (offset,) in where.rows(TOPIC, "_offset"))
    lost, doubled = set(range(log.end)) - set(found), {one for one, count in found.items() if count > 1}
    assert not lost, f"{len(lost)} lost, as {sorted(lost)[:3]}:\n{where.end_of_log()}"
    assert not doubled, f"{len(doubled)} doubled, as {sorted(doubled)[:3]}:\n{where.end_of_log()}"
    assert len(found) == log.end
    return f"{fate.strip()}: {before} of {log.end} rows before, {tries} loads more"


def load_till_done(where: Catalogued) -> int:
    for number in range(1, TRIES + 1):
        _, status = os.waitpid(loading(where), 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == HARMLESS:
            return number
    raise AssertionError(f"{TRIES} loads without trouble do not end well:\n{where.end_of_log()}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.integration.cluster.commit_rounds", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--catalog", choices=("postgresql", "rest"), default="postgresql")
    words = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left running
    fates: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="headrace-commits-") as name, ExitStack() as stack:
        where, log = Catalogued(Path(name), words.catalog, stack), Log()
        for number in range(words.rounds):
            said = play(where, log, words.seed + number)
            fates[said.partition(":")[0]] += 1
            print(f"round {number + 1}, seed {words.seed + number}: {said}", flush=True)
        log.end += 1
        load_till_done(where)
        left = where.left_over(TOPIC)
        assert not left, f"left over: {sorted(left)[:3]}"
        print(f"{words.rounds} rounds from seed {words.seed}: {dict(fates)}")
        print(f"catalog answers: {dict(where.proxy.chances.done)}; 0 lost, 0 doubled, nothing left over")
    return 0


if __name__ == "__main__":
    sys.exit(main())
