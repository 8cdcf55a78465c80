"""Undecided windows are judged again when something passes that they wait for; the verdicts are those of judging each second."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.audit.model.runs import RunKey
from headrace.audit.model.waits import HEARD, End, Silence, Waits, Word
from headrace.audit.service.looks import Looks
from headrace.client.fetch.fetched import TopicPartition
from tests.support.audit_parts import T0, Service, W, mirror, producer
from tests.support.counted_steps import steps

SINK = "sink:rates"
DEADLINES = 3
"""Of an application, of a sink and of the row that the audit has of it: 20, 20 and 180 s."""


@contextmanager
def service() -> Iterator[Service]:
    with tempfile.TemporaryDirectory() as folder:
        made = Service(Path(folder) / "books.sqlite")
        try:
            yield made
        finally:
            made.database.close()


def fill(made: Service, topics: int, windows: int) -> None:
    """Give each topic windows whose producer has sealed nothing, and a sink that is silent."""
    counts = {T0 + number * W: 1 for number in range(windows)}
    for number in range(topics):
        topic = f"t{number}"
        made.report(producer(counts, closed=False, topic=topic), offset=made.ledger.collector_positions().get(0, 0))
        made.report(mirror(0, 1, {T0: 1}, tier=SINK, topic=topic), offset=made.ledger.collector_positions()[0])
        made.read("live", 0, windows, counts, topic)


def listen(made: Service, seconds: int) -> None:
    for _ in range(seconds):
        made.clock.advance(999)
        made.hear()
        made.judge.bring_up_to_date()


def judged(topics: int, windows: int, seconds: int) -> int:
    with service() as made:
        fill(made, topics, windows)
        listen(made, 5)  # what was told is judged
        before = made.judge.judged_count
        listen(made, seconds)
        return made.judge.judged_count - before


def test_judgements_are_bounded_by_deadlines_and_not_by_time() -> None:
    """Fault: each topic with an undecided window was judged every four seconds, 5,000 of them with a quarter of a core."""
    assert 0 < judged(3, 4, 400) <= DEADLINES * 3 * 4
    assert judged(3, 4, 400) == judged(3, 4, 800)
    assert judged(6, 4, 400) == 2 * judged(3, 4, 400)
    assert judged(3, 8, 400) == 2 * judged(3, 4, 400)


def test_the_verdicts_are_those_of_judging_every_second() -> None:
    def pages(*, always: bool) -> Iterator[Any]:
        with service() as made:
            fill(made, 2, 3)
            for second in range(260):
                listen(made, 1)
                for topic in ("t0", "t1"):
                    if always:
                        made.judge.bring_up_to_date(topic)
                    yield made.ledger.books.verdict(lambda stored, topic=topic: stored.page(topic, limit=100))
                if second == 60:  # one application lets go, by nothing but a later seal
                    made.report(producer({}, sequence=1, topic="t0"), offset=100)
                    made.read("live", 3, 3, {}, "t0")
                if second == 70:
                    made.report(mirror(0, 3, {T0: 1, T0 + W: 1, T0 + 2 * W: 1}, topic="t0"), offset=101)

    for lazy, eager in zip(pages(always=False), pages(always=True), strict=True):
        assert lazy == eager
    assert {one["verdict"] for one in lazy} == {"UNKNOWN"}


def test_a_log_that_was_read_to_its_end_and_brought_nothing_decides_a_window() -> None:
    with service() as made:
        made.report(producer({T0: 5}), mirror(0, 5, {T0: 5}))
        made.read("live", 0, 5, {T0: 5})
        made.report(producer({}, sequence=1), offset=2)  # a later word: live must be read to its end once more
        listen(made, 2)
        assert made.ledger.books.verdict(lambda stored: stored.undecided("clicks")) == [T0]
        made.clock.advance(1)
        name = TopicPartition("clicks", 0)
        made.ledger.logs.take_reads("live", made.ledger.logs.positions("live")[0], [], {name: made.clock.now_ms()})
        listen(made, 1)
        assert made.ledger.books.verdict(lambda stored: stored.undecided("clicks")) == []


def test_an_audit_that_hears_nothing_says_so_and_takes_it_back() -> None:
    with service() as made:
        fill(made, 1, 1)
        listen(made, 3)

        def stored() -> list[str]:
            return [one["verdict"] for one in made.ledger.books.verdict(lambda stored: stored.page("t0", limit=9))]

        assert stored() == ["OPEN"]
        made.clock.advance(21_000)
        made.judge.bring_up_to_date()
        assert stored() == ["UNKNOWN"]
        listen(made, 1)
        assert stored() == ["OPEN"], "it has listened for a second only: nobody is silent yet"


def test_a_change_that_the_store_refused_is_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stirs undecided windows alone is in memory: it must not be lost with the transaction."""
    with service() as made:
        fill(made, 1, 1)
        listen(made, 3)
        made.ledger.books.reports.stir("t0")
        monkeypatch.setattr(made.ledger.books.notes, "note_changes", refuse)
        with pytest.raises(OSError, match="no room"):
            made.judge.bring_up_to_date()
        monkeypatch.undo()
        before = made.judge.judged_count
        made.judge.bring_up_to_date()
        assert made.judge.judged_count == before + 1


def refuse(changes: Any) -> None:
    raise OSError("no room")


class Values:
    """Pure moments: what each subject's value is."""

    def __init__(self, heard_ms: int, **values: int) -> None:
        self.now, self.values = heard_ms, values

    def standing(self) -> object:
        return None

    def heard_ms(self) -> int:
        return self.now

    def value(self, topic: str, subject: Any) -> int:
        return self.now if subject == HEARD else self.values[type(subject).__name__]


RUN = RunKey("app", 1)


@pytest.mark.parametrize(
    ("waits", "values"),
    [
        ({HEARD: 99}, Values(100)),
        ({Silence(RUN): 20, HEARD: 500}, Values(100, Silence=21)),
        ({End("live", 0): 7}, Values(0, End=8)),
        ({Word(RUN): 7}, Values(0, Word=8)),
    ],
)
def test_a_window_is_due_once_one_of_its_waits_has_passed(waits: Waits, values: Values) -> None:
    looks = Looks()
    looks.note("t", [], {1: waits, 2: {HEARD: 1_000}}, is_all=True)
    assert looks.due(Values(0, Silence=0, End=0, Word=0)) == {}
    assert looks.due(values) == {"t": [1]}
    looks.note("t", [1], {}, is_all=False)
    assert looks.due(values) == {}
    assert "t" in looks
    looks.note("t", [2], {}, is_all=False)
    assert "t" not in looks


def test_a_run_that_beats_puts_its_deadline_off() -> None:
    looks = Looks()
    looks.note("t", [], {1: {Silence(RUN): 20}}, is_all=True)
    for now in range(0, 200, 5):
        assert looks.due(Values(now, Silence=5)) == {}
    assert looks.due(Values(216, Silence=21)) == {"t": [1]}


def test_a_turn_costs_the_same_for_each_topic_whatever_the_number_of_its_windows() -> None:
    def turn(topics: int, windows: int) -> int:
        looks = Looks()
        for number in range(topics):
            looks.note(f"t{number}", [], {at: {HEARD: 1_000 + at} for at in range(windows)}, is_all=True)
        looks.due(Values(1))
        return steps(lambda: looks.due(Values(2)))

    assert turn(100, 2) == turn(100, 200)
    assert turn(200, 2) <= 2 * turn(100, 2)
