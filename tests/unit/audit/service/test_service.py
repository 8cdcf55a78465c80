"""The audit service's file, ledger and judge, without a cluster."""

import sqlite3
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from headrace.audit.model.messages import ProducerReport, ProducerWindow, Retirement
from headrace.audit.model.tier_reports import LogKey, PartitionRead
from headrace.audit.service.errors import StoreError
from headrace.audit.service.settings import AuditSettings
from headrace.audit.service.store.audit_log import AuditLog, VerdictChange
from headrace.audit.service.store.database import Database
from headrace.audit.service.web.endpoints import application
from headrace.client.fetch.fetched import TopicPartition
from tests.unit.audit.service_parts import T0, Service, W, complete, mirror, producer


def test_a_second_service_on_the_same_file_is_refused(service: Service) -> None:
    with pytest.raises(StoreError, match="another audit service"):
        Database(service.path).open()


def test_a_file_that_is_not_ours_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    path.write_bytes(b"not a database at all, but somebody's" * 100)
    with pytest.raises(StoreError, match="not a store of the audit"):
        Database(path).open()
    assert path.read_bytes().startswith(b"not a database")


def test_a_retirement_outlives_a_kill_and_shows_everywhere(service: Service) -> None:
    service.report(producer({T0: 5}, closed=False), mirror(0, 100, {T0: 5}))
    word = Retirement(instance="host/app/1", epoch=1, at_ms=1, by="anna", reason="its host burned")
    service.clock.advance(60_000)
    service.report(word, offset=2)
    service.read("live", 0, 100, {T0: 5})
    service.hear()
    assert service.verdicts() == {T0: "ACCEPTED"}
    service.restart()
    assert service.verdicts() == {T0: "ACCEPTED"}
    words = "producer:host/app/1, retired by anna: its host burned"
    with TestClient(application(service.ledger, service.judge, service.clock, not_ready=lambda: None, faults=list)) as http:
        (window,) = http.get("/api/completeness").json()
        assert (window["verdict"], window["retired"]) == ("ACCEPTED", [words])
        (run,) = http.get("/api/unsealed").json()
        assert (run["instance"], run["retired"]) == ("host/app/1", {"by": "anna", "reason": "its host burned"})
        assert run["silent_ms"] >= 60_000
        page = http.get("/?topic=clicks").text
    assert "ACCEPTED" in page
    assert words in page


def test_a_retirement_of_a_stranger_is_counted_as_malformed(service: Service) -> None:
    service.report(Retirement(instance="nobody", epoch=1, at_ms=1, by="anna", reason="why not"))
    assert service.ledger.hearing()["malformed_reports"] == 1


def test_a_file_of_the_first_layout_is_brought_up_and_keeps_its_books(tmp_path: Path) -> None:
    service = Service(tmp_path / "books.sqlite")
    complete(service)
    service.database.close()
    with sqlite3.connect(service.path) as db:
        db.execute("ALTER TABLE runs DROP COLUMN retired")
        db.execute("UPDATE facts SET value = 1 WHERE name = 'layout'")
    db.close()
    service.begin()
    assert service.verdicts() == {T0: "COMPLETE", T0 + W: "COMPLETE"}
    service.database.close()


def test_a_file_of_another_layout_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "books.sqlite"
    first = Database(path)
    first.open()
    first.close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE facts SET value = 99 WHERE name = 'layout'")
    with pytest.raises(StoreError, match="layout 99"):
        Database(path).open()


def test_books_kept_with_other_windows_are_refused(service: Service) -> None:
    service.database.close()
    with pytest.raises(StoreError, match="600000 ms"):
        Service(service.path, AuditSettings(window_ms=60_000))


def test_books_positions_and_verdicts_survive_a_kill(service: Service) -> None:
    complete(service)
    service.report(mirror(100, 300, {T0: 1}, part=0, parts=2), offset=2)
    service.hear()
    before = [(one.window_start_ms, one.verdict) for one in service.judge.windows("clicks")]
    assert service.verdicts() == {T0: "COMPLETE", T0 + W: "COMPLETE"}
    changes = len(service.ledger.ask(lambda notes: notes.verdict_changes("clicks", 100)))
    service.restart()
    assert [(one.window_start_ms, one.verdict) for one in service.judge.windows("clicks")] == before
    assert service.ledger.positions("live")[1] == {TopicPartition("clicks", 0): 100}
    assert service.ledger.collector_positions() == {0: 3}
    assert len(service.ledger.ask(lambda notes: notes.verdict_changes("clicks", 100))) == changes
    service.report(mirror(100, 300, {T0 + W: 1}, part=1, parts=2), offset=3)
    assert {one.window_start_ms: one.verdict.tiers["mirror"] for one in service.judge.windows("clicks")} == {T0: 6, T0 + W: 4}


def test_what_fails_midway_is_neither_in_the_file_nor_in_memory(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    complete(service)

    def full(*arguments: object) -> None:
        raise StoreError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(service.ledger._journal, "put_log", full)
        with pytest.raises(StoreError):
            service.read("live", 100, 200, {T0: 9})
    assert service.ledger.positions("live")[1] == {TopicPartition("clicks", 0): 100}
    service.read("live", 100, 200, {T0: 2})
    assert service.judge.windows("clicks")[0].verdict.tiers["live"] == 7


def test_what_is_read_twice_counts_once(service: Service) -> None:
    service.read("live", 0, 100, {T0: 5})
    service.read("live", 0, 100, {T0: 5})
    assert service.judge.windows("clicks")[0].verdict.tiers["live"] == 5


def test_a_read_that_began_before_a_recount_is_not_taken(service: Service) -> None:
    complete(service)
    generation, _ = service.ledger.positions("live")
    service.ledger.forget("live", "clicks")
    read = PartitionRead(topic="clicks", partition=0, from_offset=100, to_offset=200, windows={})
    assert not service.ledger.take_reads("live", generation, [read], [], {})
    assert service.ledger.positions("live")[1] == {}


def test_notes_of_what_could_not_be_read_are_bounded(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.audit.service.store.audit_log.MOST_NOTES", 3)
    monkeypatch.setattr("headrace.audit.service.store.audit_log.MOST_CHANGES", 2)
    key = LogKey("offline", "clicks", 0)
    for at in range(5):
        service.ledger.note(lambda notes, at=at: notes.note_unreadable(key, at, at + 1, "CRC", 1))
        service.ledger.note(lambda notes, at=at: notes.note_malformed(0, at, "odd", 1))
        change = VerdictChange(at, "clicks", T0, None, "OPEN", 0, 0, None, "")
        service.ledger.note(lambda notes, change=change: notes.put_verdicts([change]))
    assert [one["from_offset"] for one in service.ledger.ask(lambda notes: notes.unreadable("clicks"))] == [2, 3, 4]
    assert len(service.ledger.ask(lambda notes: notes.verdict_changes(None, 10))) == 2
    assert service.ledger.ask(AuditLog.malformed_count) == 5


def test_a_message_that_is_no_report_is_counted_and_skipped(service: Service) -> None:
    odd = ProducerReport(
        instance="odd", epoch=1, sequence=0, at_ms=1, state="open", producer_ids=(), topics=("clicks",),
        windows=(ProducerWindow(topic="clicks", window_start_ms=T0 + 1, counts={0: 1}),),
    )  # fmt: skip
    service.report(b"not JSON", b"{}", odd, producer({T0: 5}))
    assert service.ledger.hearing()["malformed_reports"] == 3
    assert service.judge.windows("clicks")[0].verdict.tiers["producer"] == 5


def test_the_platform_s_own_topics_are_not_audited(service: Service) -> None:
    report = ProducerReport(
        instance="x", epoch=1, sequence=0, at_ms=1, state="open", producer_ids=(), topics=("_headrace.audit",),
        windows=(ProducerWindow(topic="clicks.quarantine", window_start_ms=T0, counts={0: 1}),),
    )  # fmt: skip
    service.report(report)
    assert service.ledger.topics() == []


def test_each_change_of_a_verdict_is_stored_with_its_time(service: Service) -> None:
    service.report(producer({T0: 5}, closed=False))
    assert service.verdicts() == {T0: "OPEN"}
    service.report(producer({}, sequence=1), mirror(0, 100, {T0: 4}), offset=1)
    service.read("live", 0, 100, {T0: 5})
    service.hear()
    at_ms = service.clock.now_ms()
    assert service.verdicts() == {T0: "INCOMPLETE"}
    assert service.verdicts() == {T0: "INCOMPLETE"}
    newest, oldest = service.ledger.ask(lambda notes: notes.verdict_changes("clicks", 10))
    assert (oldest["from_verdict"], oldest["to_verdict"]) == (None, "OPEN")
    assert (newest["from_verdict"], newest["to_verdict"], newest["missing"], newest["at_ms"]) == ("OPEN", "INCOMPLETE", 1, at_ms)


def test_a_late_event_re_opens_a_window_and_the_change_is_stored(service: Service) -> None:
    complete(service)
    assert service.verdicts()[T0] == "COMPLETE"
    service.read("live", 100, 150, {T0: 1})
    assert service.verdicts()[T0] == "OPEN"
    changes = service.ledger.ask(lambda notes: notes.verdict_changes("clicks", 1))
    assert (changes[0]["from_verdict"], changes[0]["to_verdict"]) == ("COMPLETE", "OPEN")


def test_time_alone_turns_open_into_unknown(service: Service) -> None:
    service.report(producer({T0: 5}, closed=False))
    assert service.verdicts() == {T0: "OPEN"}
    service.hear()
    for _ in range(30):
        service.clock.advance(1_000)
        service.ledger.heard_all(service.clock.now_ms())
    assert service.verdicts() == {T0: "UNKNOWN"}


def test_a_recount_forgets_the_tier_and_counts_it_again(service: Service) -> None:
    complete(service)
    assert service.verdicts()[T0] == "COMPLETE"
    service.ledger.forget("live", "clicks")
    assert service.verdicts()[T0] == "OPEN"
    service.read("live", 0, 100, {T0: 4, T0 + W: 3})
    service.hear()
    (first, second) = service.judge.windows("clicks")
    assert (first.verdict.missing, first.verdict.first_bad_tier) == (1, "live")
    assert second.verdict.kind.value == "COMPLETE"


def test_windows_can_be_asked_for_by_time(service: Service) -> None:
    complete(service)

    def asked(**bounds: int) -> list[int]:
        return [one.window_start_ms for one in service.judge.windows("clicks", **bounds)]

    assert asked() == [T0, T0 + W]
    assert asked(from_ms=T0 + W) == [T0 + W]
    assert asked(to_ms=T0 + W) == [T0]
    assert asked(from_ms=T0 + 1, to_ms=T0 + W + 1) == [T0, T0 + W]
