"""The audit service's HTTP answers."""

from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from headrace.audit.model.messages import RangeWindow, Stretch
from headrace.audit.service.store.log_books import LogRead, UnreadableRange
from headrace.audit.service.web.endpoints import application
from headrace.audit.service.web.page_facts import MOST_NAMED, brief
from headrace.client.fetch.fetched import TopicPartition
from tests.support.audit_parts import CRC, T0, Service, W, complete, mirror, producer, read_of


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


def test_one_window_is_asked_for_by_its_start(service: Service, http: TestClient) -> None:
    lossy(service)
    found = http.get("/api/window", params={"topic": "clicks", "start": T0}).json()
    assert found == http.get("/api/completeness", params={"topic": "clicks"}).json()[0]
    assert http.get("/api/window", params={"topic": "clicks", "start": 5}).status_code == 400
    assert http.get("/api/window", params={"topic": "clicks"}).status_code == 400


def test_the_overview_has_topics_by_hour_with_their_worst_verdict_and_all_windows_by_verdict(
    service: Service, http: TestClient
) -> None:
    lossy(service)
    service.report(producer({T0: 5}, closed=False, topic="views"), offset=2)
    service.judge.bring_up_to_date()
    found = http.get("/api/overview").json()
    assert found["topics"]["clicks"] == {
        "hours": [[T0 - T0 % 3_600_000, ["INCOMPLETE", 1]]],
        "windows": {"COMPLETE": 1, "INCOMPLETE": 1},
    }
    assert (found["total"], found["after"], list(found["topics"])) == (2, None, ["clicks", "views"])
    first = http.get("/api/overview", params={"limit": 1}).json()
    assert (list(first["topics"]), first["after"]) == (["clicks"], "clicks")
    rest = http.get("/api/overview", params={"limit": 1, "after": "clicks"}).json()
    assert (list(rest["topics"]), rest["after"]) == (["views"], None)
    assert list(http.get("/api/overview", params={"q": "lick"}).json()["topics"]) == ["clicks"]


def test_problems_are_topics_with_the_latest_window_of_each_verdict_faults_and_quiet_producers(
    service: Service, http: TestClient
) -> None:
    lossy(service)
    service.report(replace(producer({T0: 5}, closed=False, topic="views"), instance="host/quiet"), offset=2)
    service.judge.bring_up_to_date()
    service.faults = ["The live log cannot be read"]  # type: ignore[attr-defined]
    found = http.get("/api/problems", params={"quiet_ms": 1_000}).json()
    assert found["windows"] == [
        {
            "topic": "clicks",
            "verdict": "INCOMPLETE",
            "windows": 1,
            "missing": 1,
            "doubled": 0,
            "altered": 0,
            "window_start_ms": T0,
        }
    ]
    assert found["faults"] == ["The live log cannot be read"]
    assert found["quiet"] == {"count": 0, "instances": []}
    service.clock.advance(1_001)
    assert http.get("/api/problems", params={"quiet_ms": 1_000}).json()["quiet"] == {"count": 1, "instances": ["host/quiet"]}


def test_the_page_of_a_topic_is_one_answer_as_brief_as_its_rows(service: Service, http: TestClient) -> None:
    """Fault: the page of a topic with 50 readers asked for six answers of two megabytes, of which it showed one line a window."""
    lossy(service)
    service.judge.bring_up_to_date()
    found = http.get("/api/topic", params={"topic": "clicks"}).json()
    newest, oldest = found["windows"]
    assert (newest["window_start_ms"], oldest["window_start_ms"]) == (T0 + W, T0)
    assert oldest["differences"] == [{"tier": "mirror", "missing": 1, "doubled": 0, "altered": 0}]
    assert oldest["readers"] == {"count": 0, "wrong": 0, "named": []}
    assert "sinks" not in oldest
    assert found["is_known"]
    assert found["before"] is None
    assert {one["window_start_ms"] for one in found["changes"]} == {T0, T0 + W}
    earlier = http.get("/api/topic", params={"topic": "clicks", "before": T0 + W}).json()
    assert [one["window_start_ms"] for one in earlier["windows"]] == [T0]
    assert not http.get("/api/topic", params={"topic": "nobody"}).json()["is_known"]
    assert http.get("/api/topic").status_code == 400


def test_a_row_names_so_many_readers_that_are_not_complete_and_counts_the_others() -> None:
    sinks = {f"sink:{number:02}": {"verdict": "COMPLETE" if number < 40 else "UNKNOWN"} for number in range(50)}
    readers = brief({"sinks": sinks, "differences": []})["readers"]
    assert (readers["count"], readers["wrong"], len(readers["named"])) == (50, 10, MOST_NAMED)
    assert readers["named"][0] == ["sink:40", "UNKNOWN"]


def test_producers_without_a_final_report_are_found_by_their_name_and_their_topics(service: Service, http: TestClient) -> None:
    for number in range(3):
        service.report(replace(producer({T0: 1}, closed=False, topic=f"t{number}"), instance=f"host/{number}"), offset=number)
    found = http.get("/api/producers", params={"limit": 2}).json()
    assert (len(found["producers"]), found["total"]) == (2, 3)
    for q in ("host/1", "t1"):
        (one,) = http.get("/api/producers", params={"q": q}).json()["producers"]
        assert one["instance"] == "host/1"


def test_one_tier_of_many_topics_is_one_question(service: Service, http: TestClient) -> None:
    lossy(service)
    found = http.get("/api/tiers", params={"topic": ["clicks", "nobody"], "tier": "mirror"}).json()
    assert {(one["topic"], one["tier"]) for one in found} <= {("clicks", "mirror"), ("nobody", "mirror")}
    assert ("clicks", "mirror") in {(one["topic"], one["tier"]) for one in found}


def test_the_newest_windows_before_one_and_its_own_changes_are_answered(service: Service, http: TestClient) -> None:
    lossy(service)
    service.judge.bring_up_to_date()
    (older,) = http.get("/api/completeness", params={"topic": "clicks", "newest": 5, "before": T0 + W}).json()
    assert older["window_start_ms"] == T0
    changes = http.get("/api/changes", params={"topic": "clicks", "start": T0}).json()
    assert {one["window_start_ms"] for one in changes} == {T0}


def test_addresses_of_pages_lead_to_the_console_where_it_is_known(service: Service) -> None:
    site = service.site(console="http://127.0.0.1:8088")
    http = TestClient(application(service.ledger, service.judge, service.clock, site), follow_redirects=False)
    for asked, there in (
        ("/", "/"),
        ("/?topic=a%26b", "/topic?topic=a%26b"),
        ("/window?topic=t&start=5", "/window?topic=t&start=5"),
    ):
        answer = http.get(asked)
        assert (answer.status_code, answer.headers["location"]) == (307, f"http://127.0.0.1:8088{there}")
    alone = TestClient(application(service.ledger, service.judge, service.clock, service.site()))
    assert alone.get("/").status_code == 404
    assert "headrace console run" in alone.get("/").text


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
