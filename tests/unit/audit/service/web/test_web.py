"""The audit service's HTTP answers and its page."""

import pytest
from starlette.testclient import TestClient

from headrace.audit.model.messages import ProducerReport, ProducerWindow
from headrace.audit.service.store.ledger import UnreadableRange
from headrace.audit.service.web.endpoints import application
from tests.unit.audit.service_parts import T0, Service, W, complete, mirror, producer


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
