"""What the store forgets: windows that nobody decides, runs by which nothing is judged any more; and what it must not forget."""

from dataclasses import replace
from typing import Any

from headrace.audit.model.messages import ProducerReport, Retirement
from headrace.audit.service.store.window_json import stored
from tests.support.audit_parts import T0, Service, W, mirror, producer

DAY_MS = 86_400_000
RUNS = 30


def run_of(number: int, start: int | None, *, closed: bool = True, instance: str | None = None) -> ProducerReport:
    """A run of a process of its own; in the window at `start` it had the record of this number acknowledged."""
    report = producer({} if start is None else {start: 1}, closed=closed, first=number)
    return replace(report, instance=instance or f"host/app/{number}", epoch=number + 1)


class Days:
    """A service whose runs all close, a window a day; `pass_` lets days go by."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.told = 0
        self.number = 0

    def tell(self, *reports: Any) -> None:
        self.service.report(*reports, offset=self.told)
        self.told += len(reports)

    def complete_window(self, start: int, runs: int = RUNS) -> None:
        first, end = self.number, self.number + runs
        self.tell(*(run_of(number, start) for number in range(first, end)), mirror(first, end, {start: runs}))
        self.service.read("live", first, end, {start: runs})
        self.service.hear()
        assert self.service.verdicts()[start] == "COMPLETE"
        self.number = end

    def pass_(self, days: int) -> None:
        self.service.clock.advance(days * DAY_MS + 1)
        self.service.judge.roll_up()
        self.service.judge.forget()

    def fall_silent(self) -> None:
        """The audit listens for longer than any deadline, and nobody says anything."""
        for _ in range(10):
            self.service.clock.advance(4_000)
            self.service.hear()

    def runs(self) -> set[str]:
        """Return the instances that are known, in memory and in the store alike."""
        stored = {name for (name,) in self.service.database.rows("SELECT instance FROM runs")}
        assert {key.instance for key in self.service.ledger.books.reports.runs} == stored
        return stored


def test_closed_runs_are_forgotten_with_their_windows_and_the_topic_keeps_its_last(service: Service) -> None:
    """Fault: closed runs were never forgotten: a fleet that restarts let memory and store grow for ever."""
    days = Days(service)
    for day in range(4):
        days.complete_window(T0 + day * DAY_MS)
        assert len(days.runs()) == RUNS + (1 if day else 0)
        days.pass_(3)
        assert days.runs() == {f"host/app/{days.number - 1}"}
    service.restart()
    assert days.runs() == {f"host/app/{days.number - 1}"}
    days.complete_window(T0 + 9 * DAY_MS)


def test_a_run_is_kept_while_a_window_has_a_word_of_it(service: Service) -> None:
    days = Days(service)
    days.complete_window(T0, 2)
    service.clock.advance(DAY_MS)
    days.tell(replace(run_of(0, T0), sequence=1, windows=producer({T0: 1}, first=70).windows))  # a late event, and it is lost
    service.read("live", 2, 2, {})
    service.hear()
    assert service.verdicts()[T0] == "INCOMPLETE"
    days.tell(run_of(5, None))
    days.pass_(2)
    assert days.runs() == {"host/app/0", "host/app/1", "host/app/5"}
    days.pass_(1)
    assert days.runs() == {"host/app/5"}  # the topic's last


def test_a_run_whose_unreported_record_stands_on_live_is_kept_as_long_as_the_window(service: Service) -> None:
    """Without its run the record would be nobody's, and the window COMPLETE."""
    days = Days(service)
    days.tell(run_of(5, None), replace(run_of(6, None), producer_ids=(9,)), mirror(5, 6, {T0: 1}))
    service.read("live", 5, 6, {T0: 1})
    service.hear()
    assert service.verdicts()[T0] == "DOUBLED"
    service.clock.advance(2 * DAY_MS)
    days.tell(mirror(5, 6, {}))
    service.hear()
    assert service.verdicts()[T0] == "INCOMPLETE"  # news of it: it is kept three more days
    days.tell(replace(run_of(7, None), producer_ids=(11,)))
    service.read("live", 6, 6, {})
    service.hear()
    days.pass_(2)
    assert days.runs() == {"host/app/5", "host/app/7"}
    assert service.verdicts()[T0] == "INCOMPLETE"
    days.pass_(1)
    assert days.runs() == {"host/app/7"}


def test_a_run_is_kept_by_which_an_earlier_one_of_its_instance_counts_as_ended(service: Service) -> None:
    days = Days(service)
    days.tell(run_of(0, None, closed=False, instance="host/app"), run_of(1, None, instance="host/app"), run_of(2, None))
    days.pass_(100)
    assert {(run["instance"], run["epoch"]) for run in service.ledger.unsealed()} == {("host/app", 1)}
    assert service.database.rows("SELECT instance, epoch FROM runs ORDER BY epoch") == [("host/app", 1), ("host/app", 2)]
    days.tell(Retirement(instance="host/app", epoch=1, at_ms=1, by="anna", reason="killed"))
    days.pass_(89)
    assert service.ledger.unsealed() != []
    days.pass_(1)
    assert service.ledger.unsealed() == []
    assert service.database.rows("SELECT instance, epoch FROM runs") == [("host/app", 2)]


def test_a_run_that_nobody_ended_is_never_forgotten(service: Service) -> None:
    days = Days(service)
    days.tell(run_of(0, None, closed=False), run_of(1, None))
    days.pass_(1_000)
    assert days.runs() == {"host/app/0"}


def test_windows_that_stay_unknown_are_added_to_their_days_with_the_reason(service: Service) -> None:
    """Fault: windows that nobody could decide were kept for ever."""
    days = Days(service)
    days.tell(run_of(0, T0, closed=False), run_of(1, T0 + W), mirror(0, 2, {T0: 1, T0 + W: 1}))
    service.read("live", 0, 2, {T0: 1, T0 + W: 1})
    days.fall_silent()
    assert set(service.verdicts().values()) == {"UNKNOWN"}
    days.pass_(15)
    service.restart()  # the words change with a restart, and with the length of the silence: that is nothing new
    days.fall_silent()
    assert set(service.verdicts().values()) == {"UNKNOWN"}
    days.pass_(14)
    assert len(service.windows()) == 2
    days.fall_silent()
    service.judge.bring_up_to_date("clicks")
    days.pass_(1)
    assert service.ledger.books.verdict(lambda stored: stored.starts("clicks")) == []
    (day,) = service.windows(days=True)
    assert (day["verdict"], day["windows"], day["tiers"]["live"]) == ("UNKNOWN", {"UNKNOWN": 2}, 2)
    assert (day["silent"], list(day["unknown"].values())) == (["producer:host/app/0"], [[T0 % DAY_MS, T0 % DAY_MS + W]])
    assert "producer:host/app/0 has not sealed the window" in day["reason"]
    assert service.ledger.books.verdict(lambda stored: stored.tally("clicks")) == {}
    for table in ("windows", "found", "sent"):
        assert service.database.rows(f"SELECT count(*) FROM {table}") == [(0,)]
    assert service.ledger.books.verdict(lambda stored: stored.undecided_topics()) == []
    service.restart()
    assert service.windows() == []


def test_of_windows_that_nobody_decides_the_oldest_are_added_first_wherever_their_rows_stand(service: Service) -> None:
    """Fault: which of them were taken, and in which order, was the database's choice: PostgreSQL 17 made another than 15."""
    days = Days(service)
    starts = [T0 + number * W for number in range(6)]
    days.tell(run_of(0, starts[0], closed=False), *(run_of(number, start) for number, start in enumerate(starts) if number))
    days.fall_silent()
    written = service.windows()
    for window in reversed(written):  # the oldest stand behind the others
        service.database.delete("verdicts", topic="clicks", window_start_ms=window["window_start_ms"])
        service.database.put("verdicts", stored(window, 1))
    service.clock.advance(31 * DAY_MS)
    assert service.ledger.roll_up_undecided(2) == 2
    assert [window["window_start_ms"] for window in service.windows()] == starts[2:]
    (day,) = service.windows(days=True)
    assert [offset for offsets in day["unknown"].values() for offset in offsets] == [T0 % DAY_MS, T0 % DAY_MS + W]


def test_a_window_that_is_open_as_long_is_unknown_in_its_day(service: Service) -> None:
    days = Days(service)
    days.tell(run_of(0, T0, closed=False))
    service.hear()
    assert service.verdicts() == {T0: "OPEN"}
    days.pass_(30)
    (day,) = service.windows(days=True)
    assert (day["verdict"], day["windows"]) == ("UNKNOWN", {"UNKNOWN": 1})
    assert "has not sealed the window" in day["reason"]
    assert service.ledger.books.verdict(lambda stored: stored.tally("clicks")) == {}


def test_news_of_an_unknown_window_keeps_it(service: Service) -> None:
    days = Days(service)
    days.tell(run_of(0, T0, closed=False))
    service.read("live", 0, 1, {T0: 1})
    days.fall_silent()
    days.pass_(20)
    assert service.verdicts() == {T0: "UNKNOWN"}
    days.tell(replace(run_of(0, T0, closed=False), sequence=1, windows=producer({T0: 2}).windows))
    service.read("live", 1, 2, {T0: 1})
    days.pass_(20)
    assert service.verdicts() == {T0: "UNKNOWN"}
