"""The audit service's HTTP answers and its page."""

from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from headrace.audit.model.messages import RangeWindow, Stretch
from headrace.audit.service.store.log_books import LogRead, UnreadableRange
from headrace.audit.service.web.endpoints import application
from headrace.client.fetch.fetched import TopicPartition
from tests.unit.audit.service_parts import CRC, T0, Service, W, complete, mirror, producer, read_of


@pytest.fixture
def http(service: Service) -> TestClient:
    service.faults = []  # type: ignore[attr-defined]
    made = application(service.ledger, service.judge, service.clock, service.site(faults=lambda: service.faults))  # type: ignore[attr-defined]
    asked = TestClient(made)
    # The judge's thread makes its rounds; no page asks for one.
    asked.event_hooks = {"request": [lambda _: service.judge.bring_up_to_date()]}
    return asked


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
        "doubled": 0,
        "altered": 0,
        "accounted": {},
        "first_bad_tier": None,
        "unaudited": 0,
        "unread_reports": 0,
        "compared_identities": 5,
        "compared_tiers": 3,
        "redelivered": 0,
        "erased": 0,
        "late": 0,
        "losses": {},
        "silent": [],
        "retired": [],
        "reason": "every tier accounts for what the one before it holds",
        "differences": [],
        "sinks": {},
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
    assert service.ledger.logs.positions("live")[1] == {TopicPartition("clicks", 0): 0}


def test_probes_and_lists(service: Service, http: TestClient) -> None:
    complete(service)
    assert http.get("/healthz").status_code == http.get("/readyz").status_code == 200
    assert http.get("/api/topics").json() == ["clicks"]
    gone = UnreadableRange(topic="clicks", partition=0, from_offset=5, to_offset=9, reason="CRC")
    read = LogRead(found=read_of("offline", 0, 100, {T0: 5}), unreadable=(gone,))
    service.ledger.logs.take_reads("offline", service.ledger.logs.positions("offline")[0], [read], {})
    assert http.get("/api/unreadable", params={"topic": "clicks"}).json()[0]["reason"] == "CRC"
    assert http.get("/api/hearing").json()["malformed_reports"] == 0


def test_not_ready_says_why(service: Service) -> None:
    waiting = application(service.ledger, service.judge, service.clock, service.site(lambda: ["the collector"]))
    answer = TestClient(waiting).get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["reasons"] == ["the collector"]


def lossy(service: Service) -> None:
    """The mirror lacks the last record of the first window, at offset 4."""
    service.report(producer({T0: 5, T0 + W: 3}))
    held = {T0: RangeWindow(held=(Stretch(0, 4, CRC),)), T0 + W: RangeWindow(held=(Stretch(5, 3, CRC),))}
    service.report(replace(mirror(0, 100, {}), windows=held), offset=1)
    service.read("live", 0, 100, {T0: 5, T0 + W: 3})
    service.hear()


def test_the_page_of_a_topic_shows_counts_differences_and_verdicts_in_words(service: Service, http: TestClient) -> None:
    lossy(service)
    page = http.get("/?topic=clicks").text
    for words in ("2015-05-17 08:00", "4 (−1)", "INCOMPLETE", "COMPLETE", "the first tier that differs", ">mirror</th>"):
        assert words in page
    assert "http://" not in page
    assert "https://" not in page
    assert " src=" not in page


def test_the_page_of_a_window_names_the_records_and_the_command_that_reads_them(service: Service, http: TestClient) -> None:
    lossy(service)
    page = http.get("/window", params={"topic": "clicks", "start": T0}).text
    assert "kcat -C -b live:9092 -t clicks -p 0 -o 4 -c 1 -e" in page
    assert "INCOMPLETE" in page
    fine = http.get("/window", params={"topic": "clicks", "start": T0 + W}).text
    assert "No record of this window is known to be missing" in fine
    assert http.get("/window", params={"topic": "clicks", "start": 5}).status_code == 400


def test_the_overview_shows_topics_by_hour_with_their_worst_verdict(service: Service, http: TestClient) -> None:
    lossy(service)
    service.report(producer({T0: 5}, closed=False, topic="views"), offset=2)
    service.judge.bring_up_to_date()
    page = http.get("/").text
    for words in ("05-17 08h", 'class="hour v-INCOMPLETE">INCOMPLETE 1<', 'href="/?topic=views"', "2 of 2 topics"):
        assert words in page
    assert 'With open questions: <a href="/?topic=clicks">' in page
    assert "views" not in http.get("/?q=lick").text
    assert "No topic contains" in http.get("/?q=nothing").text


def test_the_overview_is_paged(service: Service, http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.audit.service.web.endpoints.PAGE_TOPICS", 2)
    for name in "abc":
        service.report(producer({T0: 1}, topic=name))
    service.judge.bring_up_to_date()
    first = http.get("/").text
    assert "after=b" in first
    assert 'topic=c"' not in first.split("<table>")[1]
    assert 'topic=c"' in http.get("/?after=b").text


def test_pages_are_for_light_and_dark_for_phones_and_for_the_keyboard(service: Service, http: TestClient) -> None:
    lossy(service)
    for address in ("/", "/?topic=clicks", f"/window?topic=clicks&start={T0}"):
        page = http.get(address).text
        for words in ("prefers-color-scheme: dark", "max-width: 40rem", 'name="viewport"', 'class="skip"', ":focus-visible"):
            assert words in page


def test_the_page_escapes_what_topics_and_producers_call_themselves(service: Service, http: TestClient) -> None:
    report = replace(producer({T0: 1}, closed=False, topic="<i>t</i>"), instance="<b>me</b>")
    service.report(report)
    service.judge.bring_up_to_date()
    for page in (http.get("/").text, http.get("/", params={"topic": "<i>t</i>"}).text):
        assert "<b>" not in page
        assert "<i>" not in page
        assert "&lt;i&gt;t" in page
    assert "&lt;b&gt;me" in page


def test_the_page_holds_before_anything_was_mentioned_and_with_times_that_no_calendar_has(
    service: Service, http: TestClient
) -> None:
    assert "No topic has been mentioned" in http.get("/").text
    far = (1 << 62) - (1 << 62) % W
    service.report(producer({far: 1, -W: 2}))
    page = http.get("/?topic=clicks").text
    assert f"{far} ms" in page
    assert "without a time" in page
    assert http.get("/?topic=unheard-of").status_code == 200


def test_the_page_says_what_cannot_be_reached(service: Service, http: TestClient) -> None:
    service.faults = ["The live log cannot be read now: refused"]  # type: ignore[attr-defined]
    assert "The live log cannot be read now: refused" in http.get("/").text


def test_windows_come_page_by_page_and_only_when_they_changed(service: Service, http: TestClient) -> None:
    """Fault: 50 topics x 100 windows took the API 4 to 7 s and 2 MB, without paging."""
    service.report(producer({T0 + n * W: 1 for n in range(5)}), producer({T0: 1}, topic="views"))
    service.judge.bring_up_to_date()
    first = http.get("/api/completeness", params={"limit": 4}).json()
    after = f"{first[-1]['topic']}/{first[-1]['window_start_ms']}"
    rest = http.get("/api/completeness", params={"limit": 4, "after": after}).json()
    assert [(one["topic"], one["window_start_ms"]) for one in first + rest] == [
        *(("clicks", T0 + n * W) for n in range(5)),
        ("views", T0),
    ]
    answer = http.get("/api/completeness", params={"topic": "clicks"})
    again = http.get("/api/completeness", params={"topic": "clicks"}, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert http.get("/api/completeness?after=x").status_code == 400
    assert http.get("/api/summary").json()["views"]["windows"] == {"OPEN": 1}


def test_metrics_tell_windows_by_verdict_and_what_is_wrong_with_their_records(service: Service, http: TestClient) -> None:
    lossy(service)
    service.judge.bring_up_to_date()
    lines = http.get("/metrics").text.splitlines()
    assert 'headrace_audit_windows{topic="clicks",verdict="INCOMPLETE"} 1' in lines
    assert 'headrace_audit_windows{topic="clicks",verdict="COMPLETE"} 1' in lines
    assert 'headrace_audit_missing_records{topic="clicks"} 1' in lines
    assert "headrace_audit_ready 1" in lines


def test_metrics_of_many_topics_are_bounded(service: Service, http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.audit.service.web.metrics.MOST_TOPICS", 2)
    for name in "abcd":
        service.report(producer({T0: 1}, topic=name))
    service.judge.bring_up_to_date()
    windows = [line for line in http.get("/metrics").text.splitlines() if line.startswith("headrace_audit_windows{")]
    assert len(windows) == 3
    assert 'headrace_audit_windows{topic="",verdict="OPEN"} 2' in windows
