"""The audit service's file, ledger and judge, without a cluster."""

import pytest
from starlette.testclient import TestClient

from headrace.audit.model.messages import ProducerReport, ProducerWindow, Retirement
from headrace.audit.model.tier_reports import LogKey
from headrace.audit.service.errors import StoreError
from headrace.audit.service.settings import AuditSettings
from headrace.audit.service.store.audit_log import AuditLog, VerdictChange
from headrace.audit.service.store.log_books import LogRead
from headrace.audit.service.web import report
from headrace.audit.service.web.endpoints import application
from headrace.client.fetch.fetched import TopicPartition
from tests.support.audit_parts import T0, Service, W, complete, mirror, producer, read_of


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
    with TestClient(application(service.ledger, service.judge, service.clock, service.site())) as http:
        (window,) = http.get("/api/completeness").json()
        assert (window["verdict"], window["retired"]) == ("ACCEPTED", [words])
        (run,) = http.get("/api/unsealed").json()
        assert (run["instance"], run["retired"]) == ("host/app/1", {"by": "anna", "reason": "its host burned"})
        assert run["silent_ms"] >= 60_000
    assert words in report.why_words(window)


def test_a_retirement_of_a_stranger_is_counted_as_malformed(service: Service) -> None:
    service.report(Retirement(instance="nobody", epoch=1, at_ms=1, by="anna", reason="why not"))
    assert service.ledger.hearing()["malformed_reports"] == 1


def test_books_kept_with_other_windows_are_refused(service: Service) -> None:
    service.database.close()
    with pytest.raises(StoreError, match="600000 ms"):
        Service(service.store, AuditSettings(window_ms=60_000))


def test_books_positions_and_verdicts_survive_a_kill(service: Service) -> None:
    complete(service)
    before = service.windows()
    assert service.verdicts() == {T0: "COMPLETE", T0 + W: "COMPLETE"}
    changes = len(service.ledger.books.ask(lambda notes: notes.verdict_changes("clicks", 100)))
    service.restart()
    assert service.windows() == before
    assert service.ledger.logs.positions("live")[1] == {TopicPartition("clicks", 0): 100}
    assert service.ledger.collector_positions() == {0: 2}
    assert len(service.ledger.books.ask(lambda notes: notes.verdict_changes("clicks", 100))) == changes
    service.report(mirror(100, 300, {T0: 1, T0 + W: 1}), offset=2)
    assert {one["window_start_ms"]: one["tiers"]["mirror"] for one in service.windows()} == {T0: 6, T0 + W: 4}


def test_news_that_were_not_judged_before_a_kill_are_judged_after_it(service: Service) -> None:
    complete(service)
    service.restart()
    assert service.ledger.topics_with_news() == ["clicks"]
    service.read("live", 100, 100, {})
    service.hear()
    assert service.verdicts() == {T0: "COMPLETE", T0 + W: "COMPLETE"}
    service.restart()
    assert service.ledger.topics_with_news() == []


def test_what_fails_midway_is_neither_in_the_file_nor_in_memory(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    complete(service)

    def full(*arguments: object) -> None:
        raise StoreError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(service.ledger.books.journal, "put_log", full)
        with pytest.raises(StoreError):
            service.read("live", 100, 200, {T0: 9})
    assert service.ledger.logs.positions("live")[1] == {TopicPartition("clicks", 0): 100}
    service.read("live", 100, 200, {T0: 2})
    assert service.windows()[0]["tiers"]["live"] == 7


def test_what_is_read_twice_counts_once(service: Service) -> None:
    service.read("live", 0, 100, {T0: 5})
    service.read("live", 0, 100, {T0: 5})
    assert service.windows()[0]["tiers"]["live"] == 5


def test_a_read_that_began_before_a_recount_is_not_taken(service: Service) -> None:
    complete(service)
    generation, _ = service.ledger.logs.positions("live")
    service.ledger.logs.recount("live", "clicks", {0: 0})
    read = LogRead(found=read_of("live", 100, 200, {}))
    assert not service.ledger.logs.take_reads("live", generation, [read], {})
    assert service.ledger.logs.positions("live")[1] == {TopicPartition("clicks", 0): 0}


def test_notes_of_what_could_not_be_read_are_bounded(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.audit.service.store.audit_log.MOST_NOTES", 3)
    monkeypatch.setattr("headrace.audit.service.store.audit_log.MOST_CHANGES", 2)
    key = LogKey("offline", "clicks", 0)
    for at in range(5):
        service.ledger.books.note(lambda notes, at=at: notes.note_unreadable(key, at, at + 1, "CRC", 1))
        service.ledger.books.note(lambda notes, at=at: notes.note_malformed(0, at, "odd", 1))
        change = VerdictChange(at, "clicks", T0, None, "OPEN", 0, 0, 0, None, "")
        service.ledger.books.note(lambda notes, change=change: notes.note_changes([change]))
    assert [one["from_offset"] for one in service.ledger.books.ask(lambda notes: notes.unreadable("clicks"))] == [2, 3, 4]
    assert len(service.ledger.books.ask(lambda notes: notes.verdict_changes(None, 10))) == 2
    assert service.ledger.books.ask(AuditLog.malformed_count) == 5


def test_a_message_that_is_no_report_is_counted_and_skipped(service: Service) -> None:
    odd = ProducerReport(
        instance="odd", epoch=1, sequence=0, at_ms=1, state="open", producer_ids=(), topics=("clicks",),
        windows=(ProducerWindow(topic="clicks", window_start_ms=T0 + 1, losses={"sampled": 1}),),
    )  # fmt: skip
    service.report(b"not JSON", b"{}", odd, producer({T0: 5}))
    assert service.ledger.hearing()["malformed_reports"] == 3
    assert service.windows()[0]["tiers"]["producer"] == 5


def test_the_platform_s_own_topics_are_not_audited(service: Service) -> None:
    report = ProducerReport(
        instance="x", epoch=1, sequence=0, at_ms=1, state="open", producer_ids=(), topics=("_headrace.audit",),
        windows=(ProducerWindow(topic="clicks.quarantine", window_start_ms=T0, losses={"sampled": 1}),),
    )  # fmt: skip
    service.report(report)
    assert service.ledger.books.topics() == []


def test_each_change_of_a_verdict_is_stored_with_its_time(service: Service) -> None:
    service.report(producer({T0: 5}, closed=False))
    assert service.verdicts() == {T0: "OPEN"}
    service.report(producer({}, sequence=1), mirror(0, 100, {T0: 4}), offset=1)
    service.read("live", 0, 100, {T0: 5})
    service.hear()
    at_ms = service.clock.now_ms()
    assert service.verdicts() == {T0: "INCOMPLETE"}
    assert service.verdicts() == {T0: "INCOMPLETE"}
    newest, oldest = service.ledger.books.ask(lambda notes: notes.verdict_changes("clicks", 10))
    assert (oldest["from_verdict"], oldest["to_verdict"]) == (None, "OPEN")
    assert (newest["from_verdict"], newest["to_verdict"], newest["missing"], newest["at_ms"]) == ("OPEN", "INCOMPLETE", 1, at_ms)


def test_a_late_event_re_opens_a_window_and_the_change_is_stored(service: Service) -> None:
    complete(service)
    assert service.verdicts()[T0] == "COMPLETE"
    service.read("live", 100, 150, {T0: 1})
    assert service.verdicts()[T0] == "OPEN"
    changes = service.ledger.books.ask(lambda notes: notes.verdict_changes("clicks", 1))
    assert (changes[0]["from_verdict"], changes[0]["to_verdict"]) == ("COMPLETE", "OPEN")


def test_time_alone_turns_open_into_unknown(service: Service) -> None:
    service.report(producer({T0: 5}, closed=False))
    assert service.verdicts() == {T0: "OPEN"}
    service.hear()
    for _ in range(30):
        service.clock.advance(1_000)
        service.ledger.heard_all(service.clock.now_ms(), {})
    assert service.verdicts() == {T0: "UNKNOWN"}


def test_a_recount_forgets_the_tier_and_counts_it_again(service: Service) -> None:
    complete(service)
    assert service.verdicts()[T0] == "COMPLETE"
    service.ledger.logs.recount("live", "clicks", {0: 0})
    assert service.verdicts()[T0] == "OPEN"
    service.read("live", 0, 100, {T0: 5, T0 + W: 2})
    service.hear()
    (first, second) = service.windows()
    assert first["verdict"] == "COMPLETE"
    assert (second["missing"], second["first_bad_tier"]) == (1, "live")


def test_windows_can_be_asked_for_by_time(service: Service) -> None:
    complete(service)

    def asked(**bounds: int) -> list[int]:
        return [one["window_start_ms"] for one in service.windows(**bounds)]

    assert asked() == [T0, T0 + W]
    assert asked(from_ms=T0 + W) == [T0 + W]
    assert asked(to_ms=T0 + W) == [T0]
    assert asked(from_ms=T0 + 1, to_ms=T0 + W + 1) == [T0, T0 + W]
