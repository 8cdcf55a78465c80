"""Beats are taken without decoding and noted together. Nothing else is different: not after a restart either."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.audit.model.codec import encode
from headrace.audit.model.messages import Hold, ProducerReport, ProducerWindow, Retirement
from headrace.audit.model.runs import RunKey
from headrace.audit.service.store.beats import KEEP_MS, MOST_NOTES, NOTE, Beats
from tests.support.audit_parts import START_MS, T0, Service, W

HOLDS = (Hold(T0, T0 + W),)


def beat(sequence: int, instance: str = "logger", **changes: Any) -> ProducerReport:
    words: dict[str, Any] = {
        "instance": instance, "epoch": 5, "sequence": sequence, "at_ms": START_MS + sequence, "state": "open",
        "producer_ids": (7,), "topics": ("clicks",), "moved_past_ms": T0, "holds": HOLDS,
    }  # fmt: skip
    return ProducerReport(**words | changes)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path / "books.sqlite")
    yield made
    made.database.close()


def written(service: Service, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables of the rows that are written from now on."""
    tables: list[str] = []
    put = service.database.put

    def counted(table: str, *rows: tuple[Any, ...]) -> None:
        tables.extend([table] * len(rows))
        put(table, *rows)

    monkeypatch.setattr(service.database, "put", counted)
    return tables


def notes(service: Service) -> int:
    return len(service.database.facts(NOTE))


def standing(service: Service) -> dict[RunKey, object]:
    return {key: (run.next_sequence, run.heard_ms, run.gaps, run.holds, run.seals, run.is_closed, run.retired, run.cut_off_ms)
            for key, run in service.ledger.books.reports.runs.items()}  # fmt: skip


def test_beats_of_however_many_runs_write_no_row_of_a_run_and_one_note(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = []
    for count, names in ((100, "a"), (200, "b")):
        service.report(*(beat(0, f"{names}{number}") for number in range(count)))
        with monkeypatch.context() as patched:
            tables = written(service, patched)
            service.report(*(beat(1, f"{names}{number}") for number in range(count)))
        rows.append(sorted(tables))
        assert all(run.next_sequence == 2 for key, run in service.ledger.books.reports.runs.items() if key.instance[0] == names)
    assert rows[0] == rows[1]
    assert "runs" not in rows[0]


def test_after_a_restart_no_report_is_missing_and_nobody_was_silent(service: Service) -> None:
    service.report(beat(0))
    for sequence in (1, 2, 3):
        service.clock.advance(5_000)
        service.report(beat(sequence))
    heard_ms = service.clock.now_ms()
    before = standing(service)
    service.restart()
    assert standing(service) == before
    service.clock.advance(1_000)
    service.report(beat(4))
    (run,) = service.ledger.books.reports.runs.values()
    assert (run.gaps, run.next_sequence, run.heard_ms) == ([], 5, heard_ms + 1_000)


def test_a_beat_that_is_not_the_next_one_is_decoded_and_leaves_its_gap(service: Service) -> None:
    service.report(beat(0), beat(2))
    (run,) = service.ledger.books.reports.runs.values()
    assert run.gaps == [(1, 2)]


def test_what_changes_in_a_beat_is_taken_in(service: Service) -> None:
    service.report(beat(0), beat(1), beat(2, holds=(Hold(T0 + W, T0 + 2 * W),)), beat(3))
    (run,) = service.ledger.books.reports.runs.values()
    assert (run.holds, run.gaps, run.next_sequence) == (HOLDS, [], 4)
    service.report(beat(4, state="closed"))
    service.report(encode(beat(5)).replace(b'"at_ms":', b'"at_ms":"', 1))
    assert run.is_closed
    assert service.ledger.hearing()["malformed_reports"] == 1


def test_a_retired_run_that_beats_is_not_retired_any_more(service: Service) -> None:
    service.report(beat(0), beat(1), Retirement(instance="logger", epoch=5, at_ms=1, by="an operator", reason="gone"))
    service.report(beat(2))
    (run,) = service.ledger.books.reports.runs.values()
    assert run.retired is None
    service.restart()
    (run,) = service.ledger.books.reports.runs.values()
    assert (run.retired, run.next_sequence) == (None, 3)


def test_notes_are_bounded_and_a_run_that_stopped_is_written_down(service: Service) -> None:
    service.report(beat(0, "stopped"), beat(0))
    service.report(beat(1, "stopped"))
    for sequence in range(1, 2 * MOST_NOTES):
        service.report(beat(sequence))
        assert notes(service) < MOST_NOTES
    before = standing(service)
    service.clock.advance(KEEP_MS + 1)
    service.report(beat(2 * MOST_NOTES))
    assert notes(service) == 1
    before = standing(service)
    service.restart()
    assert standing(service) == before


@pytest.mark.parametrize("seed", range(12))
def test_runs_stand_as_if_each_beat_had_been_decoded(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for is_decoded in (False, True):
        drawn = random.Random(seed)
        service = Service(tmp_path / f"{is_decoded}.sqlite")
        sent = [0, 0, 0]
        with monkeypatch.context() as patched:
            if is_decoded:
                patched.setattr(Beats, "hear", lambda self, value, heard_ms: False)
            for _ in range(60):
                who = drawn.randrange(3)
                change = drawn.choices(
                    [{}, {"holds": (Hold(T0, T0 + 2 * W),)}, {"moved_past_ms": T0 + W}, {"windows": (told(),)}],
                    [10, 1, 1, 1],
                )[0]
                lost = drawn.random() < 0.03
                report = beat(sent[who] + lost, f"logger-{who}", **change)
                sent[who] += 1 + lost
                service.report(report, *([report] if drawn.random() < 0.1 else []))
                service.clock.advance(drawn.choice([100, 5_000, 20_000]))
                if drawn.random() < 0.1:
                    service.restart()
                if drawn.random() < 0.03:
                    service.ledger.topic_was_away(service.clock.now_ms() - 1, service.clock.now_ms())
            service.restart()
            results.append(standing(service))
        service.database.close()
    assert results[0] == results[1]


def told() -> ProducerWindow:
    return ProducerWindow(topic="clicks", window_start_ms=T0, losses={"sampled": 1})
