"""Single tasks that run many at a time: in order, bounded, each with its outcome."""

from collections.abc import Callable, Sequence
from typing import cast

from headrace.broker.errors import Overloaded
from headrace.broker.event_loop import batched_jobs
from headrace.broker.event_loop.batched_jobs import BatchedJobs, Kind
from headrace.broker.event_loop.worker import Worker
from tests.unit.broker.hand_worker import HandWorker


class Noted:
    """Kinds of tasks that record which ran in one job, and the outcomes."""

    def __init__(self) -> None:
        self.jobs: list[tuple[str, list[int]]] = []
        self.told: list[tuple[str, list[int]]] = []
        self.failures: list[tuple[list[int], Exception]] = []

    def kind(self, name: str, then: Callable[[], None] = lambda: None) -> Kind[int, int]:
        def job(items: Sequence[int]) -> int:
            self.jobs.append((name, list(items)))
            if -1 in items:
                raise ConnectionError("away")
            return len(items)

        def done(items: Sequence[int], result: int) -> None:
            assert result == len(items)
            self.told.append((name, list(items)))
            then()

        return Kind(job, done, lambda items, error: self.failures.append((list(items), error)))


def lined_up() -> tuple[BatchedJobs, HandWorker, Noted]:
    worker = HandWorker()
    return BatchedJobs(cast(Worker, worker)), worker, Noted()


def run_all(worker: HandWorker) -> None:
    while worker.jobs:
        assert len(worker.jobs) == 1, "one at a time"
        worker.run_one()


def test_what_comes_while_a_job_is_under_way_is_the_next_job_and_nothing_overtakes() -> None:
    jobs, worker, noted = lined_up()
    make, drop = noted.kind("make"), noted.kind("drop")
    for number in range(4):
        jobs.put(make, number)
    jobs.put(drop, 1)
    jobs.put(make, 1)
    run_all(worker)
    assert noted.jobs == [("make", [0]), ("make", [1, 2, 3]), ("drop", [1]), ("make", [1])]
    assert noted.told == noted.jobs


def test_what_is_asked_for_by_those_who_are_told_is_one_job_too() -> None:
    jobs, worker, noted = lined_up()
    drop = noted.kind("drop")
    make = noted.kind("make", then=lambda: [jobs.put(drop, number) for number in range(3)] and None)
    jobs.put(make, 0)
    run_all(worker)
    assert noted.jobs == [("make", [0]), ("drop", [0, 1, 2])]


def test_a_job_is_bounded_by_what_its_things_cost_and_has_at_least_one() -> None:
    jobs, worker, noted = lined_up()
    make = noted.kind("make")
    half = batched_jobs.MOST_COST // 2
    for number, cost in enumerate([1, 10 * batched_jobs.MOST_COST, half, half, 1]):
        jobs.put(make, number, cost=cost)
    run_all(worker)
    assert noted.jobs == [("make", [0]), ("make", [1]), ("make", [2, 3]), ("make", [4])]


def test_a_failed_job_is_told_to_its_own_and_the_next_goes_on() -> None:
    jobs, worker, noted = lined_up()
    make = noted.kind("make")
    jobs.put(make, -1)
    jobs.put(make, 2)
    run_all(worker)
    assert [(items, str(error)) for items, error in noted.failures] == [([-1], "away")]
    assert noted.told == [("make", [2])]


def test_too_many_are_refused_at_once_but_for_what_nobody_asks_for() -> None:
    jobs, worker, noted = lined_up()
    make, aside = noted.kind("make"), noted.kind("aside")
    for number in range(batched_jobs.MOST_WAITING + 2):
        jobs.put(make, number)
    assert [items for items, error in noted.failures if isinstance(error, Overloaded)] == [[batched_jobs.MOST_WAITING + 1]]
    jobs.put(aside, 7, is_required=True)
    run_all(worker)
    assert noted.told[-1] == ("aside", [7])


def test_where_the_worker_has_no_room_everybody_is_told() -> None:
    jobs, worker, noted = lined_up()
    make = noted.kind("make")
    jobs.put(make, 0)
    jobs.put(make, 1)
    worker.capacity = 0
    worker.run_one()
    jobs.put(make, 2)
    assert [items for items, error in noted.failures if isinstance(error, Overloaded)] == [[1], [2]]
    worker.capacity = 10_000
    jobs.put(make, 3)
    run_all(worker)
    assert noted.told == [("make", [0]), ("make", [3])]
