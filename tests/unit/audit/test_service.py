"""The service's parts without a cluster: settings, file, ledger, judge, page and HTTP."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from headrace.audit.model.books import LogKey, PartitionRead, ReadWindow
from headrace.audit.model.codec import encode
from headrace.audit.model.messages import ProducerReport, ProducerWindow, RangeReport, RangeWindow, Report, Retirement
from headrace.audit.service import settings as settings_file
from headrace.audit.service.database import Database
from headrace.audit.service.errors import SettingsError, StoreError
from headrace.audit.service.judge import Judge
from headrace.audit.service.ledger import Ledger, UnreadableRange
from headrace.audit.service.notes import Notes, VerdictChange
from headrace.audit.service.settings import AuditSettings, TopicTiers
from headrace.audit.service.web import application
from headrace.client.fetched import TopicPartition
from headrace.runtime.clock import ManualClock

W = 600_000
T0 = 1_431_849_600_000  # 2015-05-17 08:00 UTC
START_MS = 1_800_000_000_000
DEPLOYED = Path(__file__).parents[3] / "deploy" / "local" / "audit.toml"
SHORT = AuditSettings(default_topic=TopicTiers(required=("producer", "live", "mirror")))


class Service:
    """The parts behind one file; `restart` is a kill: nothing is closed in order."""

    def __init__(self, path: Path, settings: AuditSettings = SHORT) -> None:
        self.path = path
        self.settings = settings
        self.clock = ManualClock(START_MS)
        self.begin()

    def begin(self) -> None:
        self.database = Database(self.path)
        self.database.open()
        self.ledger = Ledger(self.database, self.settings, self.clock)
        self.ledger.open()
        self.judge = Judge(self.ledger, self.clock)
        self.judge.open()

    def restart(self) -> None:
        self.database.close()
        self.begin()

    def report(self, *reports: Report | bytes, offset: int = 0) -> None:
        messages = [(0, offset + at, one if isinstance(one, bytes) else encode(one)) for at, one in enumerate(reports)]
        self.ledger.take_reports(messages, {0: offset + len(messages)})

    def read(self, tier: str, from_offset: int, to_offset: int, counts: dict[int, int], topic: str = "clicks") -> bool:
        generation, _ = self.ledger.positions(tier)
        windows = {
            start: ReadWindow(first_offset=from_offset, end_offset=to_offset, by_producer={7: count})
            for start, count in counts.items()
        }
        read = PartitionRead(topic=topic, partition=0, from_offset=from_offset, to_offset=to_offset, windows=windows)
        self.clock.advance(1)
        asked_ms = self.clock.now_ms()
        return self.ledger.take_reads(tier, generation, [read], [], {TopicPartition(topic, 0): asked_ms})

    def hear(self) -> None:
        self.clock.advance(1)
        self.ledger.heard_all(self.clock.now_ms())

    def verdicts(self, topic: str = "clicks") -> dict[int, str]:
        return {one.window_start_ms: one.verdict.kind.value for one in self.judge.windows(topic)}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path / "audit" / "books.sqlite")
    yield made
    made.database.close()


def producer(counts: dict[int, int], *, closed: bool = True, sequence: int = 0) -> ProducerReport:
    return ProducerReport(
        instance="host/app/1",
        epoch=1,
        sequence=sequence,
        at_ms=1,
        state="closed" if closed else "open",
        producer_ids=(7,),
        topics=("clicks",),
        windows=tuple(
            ProducerWindow(topic="clicks", window_start_ms=start, counts={0: count}) for start, count in counts.items()
        ),
    )


def mirror(from_offset: int, to_offset: int, counts: dict[int, int], part: int = 0, parts: int = 1) -> RangeReport:
    return RangeReport(
        tier="mirror",
        instance="m",
        at_ms=1,
        topic="clicks",
        partition=0,
        from_offset=from_offset,
        to_offset=to_offset,
        windows={start: RangeWindow(count=count) for start, count in counts.items()},
        part=part,
        parts=parts,
    )


def complete(service: Service) -> None:
    service.report(producer({T0: 5, T0 + W: 3}), mirror(0, 100, {T0: 5, T0 + W: 3}))
    service.read("live", 0, 100, {T0: 5, T0 + W: 3})
    service.hear()


# -- settings ---------------------------------------------------------------------------------------------------------------


def test_the_settings_that_make_up_uses_are_sound_and_say_what_is_expected() -> None:
    settings = settings_file.load(DEPLOYED)
    assert [rule.name for rule in settings.rules("other", set())] == ["producer", "live", "mirror", "offline", "warehouse"]
    rules = {rule.name: rule for rule in settings.rules("access_log", {"consumer:late"})}
    assert rules["consumer:request-rate"].is_required
    assert not rules["consumer:late"].is_required
    assert rules["consumer:late"].before == "live"
    assert (rules["mirror"].deadline_ms, rules["warehouse"].deadline_ms) == (20_000, 120_000)


def test_every_fault_of_the_settings_is_named_at_once() -> None:
    words = {
        "service": {"window_ms": 0, "widow_ms": 5},
        "deadlines_ms": {"default": "soon", "moon": 5},
        "topics": {"a": {"tiers": ["producer", "mirror", "mars"]}, "b": {"tires": []}},
        "extra": {},
    }
    with pytest.raises(SettingsError) as caught:
        settings_file.parse(words, "audit.toml")
    for part in ("[extra]", "window_ms=0", "widow_ms", "default='soon'", "'moon'", "'mars'", "leaves out 'live'", "tires"):
        assert part in str(caught.value)


def test_settings_that_cannot_be_read_are_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no audit settings at"):
        settings_file.load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[topics")
    with pytest.raises(SettingsError, match="TOML"):
        settings_file.load(tmp_path / "bad.toml")


def test_a_group_that_was_taken_down_can_be_left_out() -> None:
    settings = settings_file.parse({"topics": {"default": {"without": ["consumer:old", "warehouse"]}}}, "x")
    assert [rule.name for rule in settings.rules("t", {"consumer:old"})] == ["producer", "live", "mirror", "offline"]


# -- the file ----------------------------------------------------------------------------------------------------------------


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
    monkeypatch.setattr("headrace.audit.service.notes.MOST_NOTES", 3)
    monkeypatch.setattr("headrace.audit.service.notes.MOST_CHANGES", 2)
    key = LogKey("offline", "clicks", 0)
    for at in range(5):
        service.ledger.note(lambda notes, at=at: notes.note_unreadable(key, at, at + 1, "CRC", 1))
        service.ledger.note(lambda notes, at=at: notes.note_malformed(0, at, "odd", 1))
        change = VerdictChange(at, "clicks", T0, None, "OPEN", 0, 0, None, "")
        service.ledger.note(lambda notes, change=change: notes.put_verdicts([change]))
    assert [one["from_offset"] for one in service.ledger.ask(lambda notes: notes.unreadable("clicks"))] == [2, 3, 4]
    assert len(service.ledger.ask(lambda notes: notes.verdict_changes(None, 10))) == 2
    assert service.ledger.ask(Notes.malformed_count) == 5


# -- reports -----------------------------------------------------------------------------------------------------------------


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


# -- verdicts ----------------------------------------------------------------------------------------------------------------


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


# -- HTTP --------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def http(service: Service) -> TestClient:
    service.faults = []  # type: ignore[attr-defined]
    made = application(service.ledger, service.judge, service.clock, not_ready=lambda: None, faults=lambda: service.faults)  # type: ignore[attr-defined]
    return TestClient(made)


def test_completeness_is_one_object_a_window_with_the_names_that_scripts_rely_on(service: Service, http: TestClient) -> None:
    complete(service)
    found = http.get("/api/completeness", params={"topic": "clicks"}).json()
    assert found[0] == {
        "topic": "clicks",
        "window_start_ms": T0,
        "window_end_ms": T0 + W,
        "tiers": {"producer": 5, "live": 5, "mirror": 5},
        "quarantined": 0,
        "verdict": "COMPLETE",
        "missing": 0,
        "extra": 0,
        "first_bad_tier": None,
        "unaudited": 0,
        "redelivered": 0,
        "losses": {},
        "silent": [],
        "retired": [],
        "reason": "every tier accounts for what the one before it holds",
        "differences": [],
    }
    assert http.get("/api/completeness").json() == found
    assert http.get("/api/completeness", params={"topic": "nobody"}).json() == []
    assert len(http.get("/api/completeness", params={"topic": "clicks", "from_ms": T0 + W}).json()) == 1


def test_an_unreported_tier_is_null_in_json(service: Service, http: TestClient) -> None:
    service.report(producer({T0: 5}, closed=False))
    (found,) = http.get("/api/completeness").json()
    assert found["tiers"] == {"producer": 5, "live": None, "mirror": None}


def test_bad_questions_are_answered_with_400_and_the_parameter(service: Service, http: TestClient) -> None:
    complete(service)
    for method, address, named in (
        ("GET", "/api/completeness?from_ms=noon", "from_ms"),
        ("GET", "/api/changes?limit=x", "limit"),
        ("POST", "/api/recount?tier=mirror&topic=clicks", "tier='mirror'"),
        ("POST", "/api/recount?tier=live&topic=none", "topic='none'"),
    ):
        answer = http.request(method, address)
        assert answer.status_code == 400
        assert named in answer.json()["error"]


def test_a_recount_is_accepted_by_post(service: Service, http: TestClient) -> None:
    complete(service)
    assert http.post("/api/recount", params={"tier": "live", "topic": "clicks"}).status_code == 202
    assert service.ledger.positions("live")[1] == {}


def test_probes_and_lists(service: Service, http: TestClient) -> None:
    complete(service)
    assert http.get("/healthz").status_code == http.get("/readyz").status_code == 200
    assert http.get("/api/topics").json() == ["clicks"]
    key = UnreadableRange(topic="clicks", partition=0, from_offset=5, to_offset=9, reason="CRC")
    service.ledger.take_reads("offline", service.ledger.positions("offline")[0], [], [key], {})
    assert http.get("/api/unreadable", params={"topic": "clicks"}).json()[0]["reason"] == "CRC"
    assert http.get("/api/hearing").json()["malformed_reports"] == 0


def test_not_ready_says_why(service: Service) -> None:
    waiting = application(service.ledger, service.judge, service.clock, not_ready=lambda: "the collector", faults=list)
    answer = TestClient(waiting).get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["reason"] == "the collector"


def test_the_page_shows_counts_differences_and_verdicts_in_words(service: Service, http: TestClient) -> None:
    service.report(producer({T0: 5, T0 + W: 3}), mirror(0, 100, {T0: 4, T0 + W: 3}))
    service.read("live", 0, 100, {T0: 5, T0 + W: 3})
    service.hear()
    page = http.get("/").text
    for words in ("2015-05-17 08:00", "4 (−1)", "INCOMPLETE", "COMPLETE", "the first tier that differs", ">mirror</th>"):
        assert words in page
    assert "<script" not in page
    assert "http://" not in page
    assert "https://" not in page


def test_the_page_escapes_what_topics_and_producers_call_themselves(service: Service, http: TestClient) -> None:
    report = ProducerReport(
        instance="<b>me</b>", epoch=1, sequence=0, at_ms=1, state="open", producer_ids=(), topics=("<i>t</i>",),
        windows=(ProducerWindow(topic="<i>t</i>", window_start_ms=T0, counts={0: 1}),),
    )  # fmt: skip
    service.report(report)
    page = http.get("/").text
    assert "<b>" not in page
    assert "<i>" not in page
    assert "&lt;b&gt;me" in page


def test_the_page_holds_before_anything_was_mentioned_and_with_times_that_no_calendar_has(
    service: Service, http: TestClient
) -> None:
    assert "No topic has been mentioned" in http.get("/").text
    far = (1 << 62) - (1 << 62) % W
    service.report(producer({far: 1, -W: 2}))
    page = http.get("/").text
    assert f"{far} ms" in page
    assert "without a time" in page
    assert http.get("/?topic=unheard-of").status_code == 200


def test_the_page_says_what_cannot_be_reached(service: Service, http: TestClient) -> None:
    service.faults = ["The live log cannot be read now: refused"]  # type: ignore[attr-defined]
    assert "The live log cannot be read now: refused" in http.get("/").text
