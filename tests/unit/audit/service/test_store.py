"""The store: topic by topic in memory, settled windows, days, topics created again, rebuilt after a loss."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audit.model.runs import RunKey
from headrace.audit.service.store.log_books import LogRead
from headrace.client.fetch.fetched import TopicPartition
from tests.support.audit_parts import SHORT, START_MS, T0, Service, W, complete, mirror, producer, read_of

DAY_MS = 86_400_000


def test_a_rebuilt_store_dates_the_last_word_of_a_dead_run_by_the_audit_topic(service: Service) -> None:
    """Fault: after a rebuild of the store a dead run's `heard_ms` was the time of the rebuild."""
    long_ago = START_MS - 5 * DAY_MS
    service.report(producer({T0: 5}, closed=False), came_ms=long_ago)
    (run,) = service.ledger.unsealed()
    assert run["silent_ms"] == 5 * DAY_MS
    service.report(producer({T0: 5}, closed=False, sequence=1), offset=1, came_ms=service.clock.now_ms() + 99_000)
    (run,) = service.ledger.unsealed()
    assert run["silent_ms"] == 0


def test_a_live_topic_made_anew_under_its_name_begins_anew_at_every_tier(service: Service) -> None:
    """Fault: live 90, really 60: two logs were mixed when a topic was created again with a longer log."""
    service.ledger.logs.see_topic_ids("live", {"clicks": "a"}, service.clock.now_ms())
    service.clock.advance(10)
    complete(service)  # said and read since the topic was last seen to be the old one
    service.clock.advance(10)
    service.report(producer({T0: 9}, sequence=1, first=100), offset=2)
    service.ledger.logs.see_topic_ids("live", {"clicks": "b"}, service.clock.now_ms())
    assert service.ledger.logs.positions("live")[1] == {}
    service.read("live", 0, 200, {T0: 9}, first_sequence=100)
    service.report(mirror(0, 200, {T0: 9}), offset=3)
    service.hear()
    (window,) = service.windows()
    assert (window["tiers"], window["verdict"]) == ({"producer": 9, "live": 9, "mirror": 9}, "COMPLETE")
    service.restart()
    assert service.windows() == [window]


def test_a_topic_made_anew_whose_copy_is_the_old_one_says_what_to_do(service: Service) -> None:
    """Fault: it stayed UNKNOWN, `silent: mirror`, and nothing told why."""
    service.ledger.logs.see_topic_ids("live", {"clicks": "a"}, service.clock.now_ms())
    complete(service)
    service.clock.advance(10)
    service.ledger.logs.see_topic_ids("live", {"clicks": "b"}, service.clock.now_ms())
    service.report(producer({T0: 9}, sequence=1, first=100), offset=2)
    service.read("live", 0, 200, {T0: 9}, first_sequence=100)
    service.restart()
    for _ in range(10):
        service.clock.advance(4_000)
        service.read("live", 200, 200, {})
        service.hear()
    (window,) = service.windows()
    assert (window["verdict"], window["silent"]) == ("UNKNOWN", ["mirror"])
    assert "since it was created again under its name" in window["reason"]
    assert "`headrace topic delete clicks --cluster offline`" in window["reason"]
    service.report(mirror(0, 200, {T0: 9}), offset=3)
    assert service.verdicts() == {T0: "COMPLETE"}


def test_reads_of_an_earlier_topic_are_not_taken(service: Service) -> None:
    service.ledger.logs.see_topic_ids("live", {"clicks": "a"}, 1)
    complete(service)
    generation, _ = service.ledger.logs.positions("live")
    service.ledger.logs.see_topic_ids("live", {"clicks": "b"}, 2)
    assert not service.ledger.logs.take_reads("live", generation, [LogRead(found=read_of("live", 100, 200, {T0: 1}))], {})


def test_a_settled_window_is_one_piece_an_entry_and_reads_back_the_same(service: Service) -> None:
    for n in range(10):
        service.report(producer({T0: 1}, closed=n == 9, sequence=n, first=n), mirror(n, n + 1, {T0: 1}), offset=2 * n)
        service.read("live", n, n + 1, {T0: 1})
    service.hear()
    assert service.verdicts() == {T0: "COMPLETE"}
    for table in ("found", "sent"):
        rows = service.database.rows(f"SELECT count(*) FROM {table}")
        assert rows == [(2 if table == "found" else 1,)]
    service.restart()
    service.report(mirror(10, 11, {T0: 1}), offset=20)
    service.read("live", 10, 11, {T0: 1})
    (window,) = service.windows()
    assert window["tiers"] == {"producer": 10, "live": 11, "mirror": 11}


def rolled(service: Service) -> None:
    complete(service)
    assert service.verdicts() == {T0: "COMPLETE", T0 + W: "COMPLETE"}
    service.clock.advance(3 * DAY_MS + 1)
    service.judge.roll_up()


def test_windows_decided_days_ago_are_added_up_by_day_and_their_records_forgotten(service: Service) -> None:
    """Fault: the store grew for ever."""
    rolled(service)
    assert service.windows() == []
    (day,) = service.windows(days=True)
    assert (day["window_start_ms"], day["window_end_ms"]) == (T0 // DAY_MS * DAY_MS, T0 // DAY_MS * DAY_MS + DAY_MS)
    assert (day["verdict"], day["windows"], day["tiers"]["live"]) == ("COMPLETE", {"COMPLETE": 2}, 8)
    for table in ("windows", "found", "sent"):
        assert service.database.rows(f"SELECT count(*) FROM {table}") == [(0,)]
    service.clock.advance(90 * DAY_MS)
    service.judge.roll_up()
    assert service.windows(days=True) == []


def test_what_is_said_again_of_a_window_in_a_day_changes_nothing_and_late_records_are_noted(service: Service) -> None:
    rolled(service)
    generation, _ = service.ledger.logs.positions("live")
    service.ledger.logs.take_scan("live", generation, [LogRead(found=read_of("live", 0, 100, {T0: 5, T0 + W: 3}))])
    service.report(mirror(0, 100, {T0: 5, T0 + W: 3}), producer({T0: 5}, sequence=1), offset=2)
    assert service.windows() == []
    service.read("live", 100, 200, {T0: 2})
    assert service.windows() == []
    (day,) = service.windows(days=True)
    assert (day["late"], day["verdict"]) == (2, "COMPLETE")


def test_a_day_keeps_differences_and_the_worst_verdict(service: Service) -> None:
    service.report(producer({T0: 5, T0 + W: 3}), mirror(0, 100, {T0: 4}))
    service.read("live", 0, 100, {T0: 5, T0 + W: 3})
    service.hear()
    service.judge.bring_up_to_date()
    service.clock.advance(3 * DAY_MS + 1)
    service.judge.roll_up()
    (day,) = service.windows(days=True)
    assert (day["verdict"], day["missing"], day["first_bad_tier"]) == ("INCOMPLETE", 4, "mirror")
    (difference,) = day["differences"]
    assert [(one["kind"], one["first_offset"], one["count"]) for one in difference["records"]] == [
        ("missing", 4, 1),
        ("missing", 5, 3),
    ]


def test_late_records_are_counted_with_their_window(service: Service) -> None:
    service.report(producer({T0: 5}, closed=False), mirror(0, 5, {T0: 5}))
    service.report(replace(producer({}, closed=False, sequence=1), moved_past_ms=T0 + W), offset=2)
    service.read("live", 0, 5, {T0: 5})
    service.hear()
    assert service.verdicts() == {T0: "COMPLETE"}
    service.report(producer({T0: 2}, sequence=2, first=5), mirror(5, 7, {T0: 2}), offset=3)
    service.read("live", 5, 7, {T0: 2})
    service.hear()
    (window,) = service.windows()
    assert (window["verdict"], window["late"]) == ("COMPLETE", 2)


def test_a_judge_with_nothing_new_judges_nothing(service: Service) -> None:
    """Fault: an idle judge took 5 % of a core."""
    complete(service)
    service.judge.bring_up_to_date()
    judged = service.judge.judged_count
    for _ in range(1_000):
        service.clock.advance(1_000)
        service.judge.bring_up_to_date()
    assert service.judge.judged_count == judged


def test_an_undecided_window_without_news_is_looked_at_while_a_deadline_may_pass_and_seldom_afterwards(service: Service) -> None:
    service.report(producer({T0: 5}, closed=False))
    service.judge.bring_up_to_date()
    unknown_after = None
    for second in range(600):
        service.clock.advance(1_000)
        service.ledger.heard_all(service.clock.now_ms(), {})
        service.judge.bring_up_to_date()
        verdict = service.ledger.books.verdict(lambda stored: stored.window("clicks", T0))
        assert verdict is not None
        if unknown_after is None and verdict["verdict"] == "UNKNOWN":
            unknown_after = second
    assert unknown_after is not None
    assert 20 <= unknown_after <= 30
    assert service.judge.judged_count < 60


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(min_value=0, max_value=1 << 32))
def test_with_one_topic_in_memory_and_after_kills_the_verdicts_are_the_same(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder: Path = tmp_path_factory.mktemp("stores")
    narrow = Service(folder / "narrow.sqlite", replace(SHORT, topics_in_memory=1))
    wide = Service(folder / "wide.sqlite", SHORT)
    draw = random.Random(seed)
    topics = ["a", "b", "c"]
    sequences = dict.fromkeys(topics, 0)
    ends = {(tier, topic): 0 for topic in topics for tier in ("producer", "live", "mirror")}
    for offset in range(draw.randrange(5, 40)):
        topic, kind = draw.choice(topics), draw.choice(["producer", "live", "mirror", "hear", "restart"])
        counts = {T0 + W * window: draw.randrange(1, 4) for window in sorted(draw.sample(range(3), draw.randrange(1, 3)))}
        first = ends.get((kind, topic), 0)
        told = producer(counts, closed=draw.random() < 0.3, sequence=sequences[topic], first=first, topic=topic)
        for service in (narrow, wide):
            if kind == "producer":
                service.report(replace(told, instance=f"host/{topic}/1"), offset=offset)
            elif kind == "live":
                service.read("live", first, first + sum(counts.values()), counts, topic)
            elif kind == "mirror":
                service.report(mirror(first, first + sum(counts.values()), counts, topic=topic), offset=offset)
            elif kind == "hear":
                service.hear()
            elif service is narrow:
                service.restart()
            service.judge.bring_up_to_date()
        if (kind, topic) in ends:
            ends[kind, topic] += sum(counts.values())
        sequences[topic] += kind == "producer"
    for service in (narrow, wide):
        for topic in topics:
            service.read("live", ends["live", topic], ends["live", topic], {}, topic)
        service.hear()
        service.judge.bring_up_to_date()
    assert len(narrow.ledger.books.reports.topics) <= 1
    for topic in topics:
        assert [_plain(one) for one in narrow.windows(topic)] == [_plain(one) for one in wide.windows(topic)]
    for service in (narrow, wide):
        service.database.close()


def _plain(window: dict[str, Any]) -> dict[str, Any]:
    """Return the window without what depends on when it was looked at, and without the names of the producers, which all have one
    producer id here.
    """
    differences = [
        {**one, "records": [{**each, "instance": None} for each in one["records"]]} for one in window.get("differences", ())
    ]
    plain = {name: value for name, value in window.items() if name not in ("reason", "silent", "late")}
    return {**plain, "differences": differences}


def test_positions_of_logs_are_known_without_their_books(tmp_path: Path) -> None:
    service = Service(tmp_path / "books.sqlite", replace(SHORT, topics_in_memory=1))
    for topic in "abc":
        service.read("live", 0, 10, {T0: 1}, topic)
    assert len(service.ledger.books.reports.topics) == 1
    service.restart()
    assert service.ledger.logs.positions("live")[1] == {TopicPartition(topic, 0): 10 for topic in "abc"}
    assert service.ledger.books.reports.topics == {}
    service.database.close()


def test_runs_come_back_whole(service: Service) -> None:
    report = replace(producer({T0: 5}, closed=False, sequence=3), only_between_ms=(T0, T0 + W), moved_past_ms=T0)
    service.report(report)
    run = service.ledger.books.reports.runs[RunKey("host/app/1", 1)]
    service.restart()
    assert service.ledger.books.reports.runs == {run.key: run}
