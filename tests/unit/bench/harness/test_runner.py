"""Interleaving, medians, and what becomes of a case that fails."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.harness import runner
from bench.harness.measure import Case, Figures
from bench.harness.servers import Servers
from bench.harness.unavailable import Unavailable


@pytest.fixture(autouse=True)
def at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "quiesce", lambda folder: None)


@pytest.fixture
def servers() -> Iterator[Servers]:
    made = Servers({}, rounds=3, quick=False)
    yield made
    made.close()


class _Measure:
    name = "small"
    title = "A small measure"
    needs: frozenset[str] = frozenset()
    warm_ups = 1
    at_most = 99

    def __init__(self, *cases: Case) -> None:
        self._cases = list(cases)

    @contextmanager
    def cases(self, servers: Servers) -> Iterator[list[Case]]:
        yield self._cases


def _case(subject: str, seen: list[str], values: list[float]) -> Case:
    def run(turn: int) -> Figures:
        seen.append(f"{subject}{turn}")
        return {"messages_per_s": values[turn], "server_cpu_s_per_million": 1.0}

    return Case(subject=subject, shape="only", run=run)


def test_medians_are_of_each_figure_over_the_runs_that_have_it() -> None:
    assert runner.medians([{"a": 3.0, "b": 1.0}, {"a": 1.0}, {"a": 2.0}]) == {"a": 2.0, "b": 1.0}
    assert runner.medians([]) == {}


def test_figures_are_kept_as_they_were_measured(servers: Servers) -> None:
    """Rounded to five digits, 1.199996 times as fast counted as 1.2 times."""
    found = runner.run(_Measure(_case("A", [], [1.0, 1_199_996.0, 1_199_996.0, 1_199_996.0])), servers)
    assert found["rows"][0]["median"]["messages_per_s"] == 1_199_996.0
    assert [sample["messages_per_s"] for sample in found["rows"][0]["samples"]] == [1_199_996.0] * 3


def test_the_warm_up_is_thrown_away(servers: Servers) -> None:
    seen: list[str] = []
    found = runner.run(_Measure(_case("A", seen, [99, 1, 2, 9]), _case("B", seen, [99, 5, 6, 7])), servers)
    assert sorted(seen) == ["A0", "A1", "A2", "A3", "B0", "B1", "B2", "B3"]
    assert [name[1] for name in seen] == list("00112233"), "a round ends before the next begins"
    assert [row["median"]["messages_per_s"] for row in found["rows"]] == [2, 6]
    assert [len(row["samples"]) for row in found["rows"]] == [3, 3]


def test_no_case_always_follows_the_same_one_and_every_run_has_the_same_order() -> None:
    """Cases that only took turns did: ours was always measured behind one peer, which still wrote and collected then."""
    cases = [_case(name, [], []) for name in "ABCDEF"]
    orders = ["".join(case.subject for case in runner.shuffled(cases, turn)) for turn in range(-1, 5)]
    assert orders == ["".join(case.subject for case in runner.shuffled(cases, turn)) for turn in range(-1, 5)]
    assert {"".join(sorted(order)) for order in orders} == {"ABCDEF"}
    for name in "ABCDEF":
        before = {order[order.index(name) - 1] if order[0] != name else "" for order in orders}
        assert len(before) > 2, (name, orders)


def test_a_case_that_fails_is_named_with_its_reason_and_the_others_go_on(servers: Servers) -> None:
    def broken(_: int) -> Figures:
        raise RuntimeError("the port was open already")

    seen: list[str] = []
    found = runner.run(_Measure(Case(subject="X", shape="only", run=broken), _case("A", seen, [1, 1, 1, 1])), servers)
    assert found["rows"][0]["failed"] == "the port was open already"
    assert found["rows"][0]["median"] == {}
    assert found["rows"][1]["median"]["messages_per_s"] == 1
    assert len(seen) == 4


def test_a_measure_that_cannot_be_prepared_fails_alone(servers: Servers) -> None:
    class Unprepared(_Measure):
        @contextmanager
        def cases(self, servers: Servers) -> Iterator[list[Case]]:
            raise RuntimeError("no disk")
            yield []

    found = runner.run(Unprepared(), servers)
    assert (found["failed"], found["rows"]) == ("no disk", [])


def test_a_case_whose_part_is_missing_is_skipped_by_name_and_no_failure(servers: Servers) -> None:
    def absent(_: int) -> Figures:
        raise Unavailable("C compiler: install gcc")

    found = runner.run(_Measure(Case(subject="X", shape="only", run=absent)), servers)
    assert (found["rows"], servers.skipped) == ([], {"small: X, only": "C compiler: install gcc"})


def test_slow_measures_run_no_more_rounds_than_they_say(servers: Servers) -> None:
    seen: list[str] = []
    measure = _Measure(_case("A", seen, [1, 1]))
    measure.at_most = 1
    assert runner.run(measure, servers)["rounds"] == 1
    assert seen == ["A0", "A1"]


def test_the_lock_is_held_over_cases_and_given_up_in_time_and_at_the_end(servers: Servers, tmp_path: Path) -> None:
    lock = runner.Lock(tmp_path / "lock")
    seen: list[bool] = []

    def run(_: int) -> Figures:
        seen.append(lock.is_held)
        return {"seconds": 1.0}

    runner.run(_Measure(Case(subject="A", shape="only", run=run)), servers, lock)
    assert seen == [True] * 4
    assert not lock.is_held
    lock.HOLD_S = 0.0
    with lock.held():
        assert lock.is_held
    assert not lock.is_held
