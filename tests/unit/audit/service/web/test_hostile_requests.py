"""The audit under load and under attack: pages ask nothing of the judge, requests end, numbers have a range."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.testclient import TestClient

from headrace.audit.service.request_time import CURRENT, RequestTime, TooLate
from headrace.audit.service.web import in_time
from headrace.audit.service.web.endpoints import application
from headrace.runtime.web_server import WebServer, bound
from tests.support.audit_parts import T0, Service, complete, mirror, producer

TOPICS = 30


@contextmanager
def served(service: Service) -> Iterator[int]:
    listener = bound("127.0.0.1", 0)
    made = application(service.ledger, service.judge, service.clock, service.site())
    server = WebServer(made, listener, name="test", drain_s=1)
    server.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.stop()


def asked(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_what_the_console_asks_and_lists_read_what_is_stored_and_judge_nothing(service: Service) -> None:
    service.report(*(mirror(0, 100, {T0: 5}, topic=f"t{number}") for number in range(TOPICS)))
    with TestClient(application(service.ledger, service.judge, service.clock, service.site())) as client:
        stored = ("/api/completeness?topic=t1&newest=5&stored=1", f"/api/window?topic=t1&start={T0}")
        for path in ("/api/overview", "/api/problems", *stored, "/api/summary", "/metrics"):
            assert client.get(path).status_code in (200, 400)
            assert service.judge.judged_count == 0, path
        assert len(client.get("/api/completeness?topic=t1").json()) == 1, "a gate asks for one topic, and gets what is true now"
        assert service.judge.judged_count == 1


def test_a_list_of_all_topics_judges_for_a_short_time_only(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    service.report(*(mirror(0, 100, {T0: 5}, topic=f"t{number}") for number in range(TOPICS)))
    judge_one = service.judge._judge

    def slow(*asked: Any) -> None:
        service.clock.advance(200)
        judge_one(*asked)

    monkeypatch.setattr(service.judge, "_judge", slow)
    with TestClient(application(service.ledger, service.judge, service.clock, service.site())) as client:
        found = client.get("/api/completeness").json()
    assert 2 <= len(found) <= 3, "of thirty topics those of half a second; the rest is the judge's"


def test_only_the_news_of_topics_that_changed_are_written(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[Any, ...]] = []
    put = service.database.put
    monkeypatch.setattr(
        service.database, "put", lambda table, *rows: (written.extend(rows if table == "to_judge" else ()), put(table, *rows))[1]
    )
    for number in range(TOPICS):
        service.report(mirror(0, 100, {T0: 5}, topic=f"t{number}"), offset=number)
    assert len(service.ledger.topics_with_news()) == TOPICS
    # Each report writes a row or two, however many topics wait for the judge.
    assert TOPICS <= len(written) <= 3 * TOPICS
    service.restart()
    assert len(service.ledger.topics_with_news()) == TOPICS, "what waits is known after a kill"


def test_a_request_that_waits_for_the_books_ends_in_time_and_health_is_answered(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_time, "REQUEST_S", 0.3)
    complete(service)
    with served(service) as port, service.ledger.books.lock:
        answers: list[tuple[int, bytes]] = []
        askers = [threading.Thread(target=lambda: answers.append(asked(port, "/api/overview"))) for _ in range(60)]
        for one in askers:
            one.start()
        begun = time.monotonic()
        assert asked(port, "/healthz")[0] == 200
        assert time.monotonic() - begun < 5
        for one in askers:
            one.join(20)
        assert {status for status, _ in answers} == {503}
        assert len(answers) == 60
    with served(service) as port:
        assert asked(port, "/api/overview")[0] == 200


def test_requests_that_nobody_waits_for_leave_their_threads(service: Service) -> None:
    complete(service)
    with served(service) as port:
        with service.ledger.books.lock:
            gone = [http.client.HTTPConnection("127.0.0.1", port, timeout=20) for _ in range(50)]
            for one in gone:
                one.request("GET", "/api/overview")
            deadline = time.monotonic() + 10
            while service.ledger.books.lock._asking < 10 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert service.ledger.books.lock._asking >= 10
            for one in gone:
                one.close()
            while service.ledger.books.lock._asking and time.monotonic() < deadline:
                time.sleep(0.01)
            assert service.ledger.books.lock._asking == 0
        assert asked(port, "/api/overview")[0] == 200


def test_the_judge_gives_way_to_requests_between_topics(service: Service) -> None:
    """A lock goes to who asks at once, and the judge asks at once: without a pause a request waits for all topics."""
    lock = service.ledger.books.lock
    got_it, entered = threading.Event(), threading.Event()

    def request() -> None:
        CURRENT.set(RequestTime(10))
        entered.set()
        with lock:
            got_it.set()

    asker = threading.Thread(target=request)
    with lock:
        asker.start()
        assert entered.wait(10)
        deadline = time.monotonic() + 10
        while not lock._asking and time.monotonic() < deadline:
            time.sleep(0.001)
    service.ledger.books.give_way()
    assert got_it.wait(5)
    asker.join(5)
    begun = time.monotonic()
    service.ledger.books.give_way()
    assert time.monotonic() - begun < 0.5, "nobody waits: no pause"


def test_a_request_s_time_ends_and_its_client_may_leave() -> None:
    with pytest.raises(TooLate, match="ask again"):
        RequestTime(0).left_s()
    left = RequestTime(10)
    assert 9 < left.left_s() <= 10
    left.abandon()
    with pytest.raises(TooLate, match="went away"):
        left.left_s()


FAR = ("9" * 19, "-" + "9" * 19, str(1 << 63), str((1 << 62) + 1), "9" * 5_000, "1e3", "١", " 1", "0x1", "1.5")


@pytest.mark.parametrize("value", FAR)
def test_a_number_outside_the_range_is_refused_with_the_range(service: Service, value: str) -> None:
    complete(service)
    topic = {"topic": "clicks"}
    with TestClient(application(service.ledger, service.judge, service.clock, service.site())) as client:
        for path, name in (
            ("/api/completeness", "from_ms"),
            ("/api/completeness", "to_ms"),
            ("/api/completeness", "limit"),
            ("/api/completeness", "newest"),
            ("/api/completeness", "after"),
            ("/api/sequences", "from_ms"),
            ("/api/summary", "limit"),
            ("/api/changes", "limit"),
            ("/api/completeness", "before"),
            ("/api/overview", "hours"),
            ("/api/problems", "limit"),
            ("/api/changes", "start"),
            ("/api/window", "start"),
        ):
            answer = client.get(path, params={**topic, name: value})
            assert answer.status_code == 400, (path, name)
            assert str(1 << 31) in answer.text or str((1 << 31) - 1) in answer.text or str(-(1 << 62)) in answer.text, answer.text
            # (`after` names a window, the others a number)


@pytest.mark.parametrize("value", [-(1 << 62), -1, 0, (1 << 62) - 1, 253_402_300_800_000])
def test_the_ends_of_the_range_and_far_dates_are_answered(service: Service, value: int) -> None:
    complete(service)
    with TestClient(application(service.ledger, service.judge, service.clock, service.site())) as client:
        for name in ("from_ms", "to_ms", "after"):
            assert client.get("/api/completeness", params={"topic": "clicks", name: value}).status_code == 200
        assert client.get("/api/completeness", params={"topic": "clicks", "newest": 5, "before": value}).status_code == 200
        assert client.get("/api/changes", params={"topic": "clicks", "start": value}).status_code == 200
        assert client.get("/api/window", params={"topic": "clicks", "start": value}).status_code == 400
        assert client.get("/api/sequences", params={"topic": "clicks", "from_ms": value, "to_ms": value}).status_code == 200


def test_a_topic_s_name_is_quoted_in_commands(service: Service) -> None:
    bad = "a b;touch x"
    service.report(producer({T0: 5}, topic=bad), mirror(0, 100, {T0: 3}, topic=bad))
    service.read("live", 0, 100, {T0: 5}, topic=bad)
    service.hear()
    service.judge.bring_up_to_date(bad)
    (found,) = service.ledger.books.verdict(lambda stored: stored.page(bad, limit=1))
    from headrace.audit.service.web import report

    commands = [
        report.read_command(bad, one, live="live:9092", offline=None)
        for one in report.records(found)
        if one.get("first_offset") is not None
    ]
    assert commands
    assert all("-t 'a b;touch x' -p" in str(one) for one in commands), json.dumps(commands)
