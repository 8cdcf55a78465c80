"""The console over HTTP: what is away, what is refused, what a browser is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from headrace.console.rendering import STATIC
from headrace.console.web import MOST_BODY_BYTES, READ_ONLY
from headrace.runtime.serving.guard import Guarded
from headrace.runtime.serving.request_rules import POLICY, AllowedHosts

from .conftest import client, layout_of

PAGES = ("/", "/topics", "/groups", "/schemas", "/mirror", "/warehouse", "/producers", "/processes")


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[TestClient]:
    """A console of a platform of which nothing runs."""
    yield from client(layout_of(tmp_path))


@pytest.fixture
def served_to_others(tmp_path: Path) -> Iterator[TestClient]:
    yield from client(layout_of(tmp_path), is_read_only=True)


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("/", "headrace start audit"),
        ("/topic?topic=t", "headrace start audit"),
        ("/window?topic=t&amp;start=0&start=0", "headrace start audit"),
        ("/topics", "headrace start broker"),
        ("/settings?topic=t", "headrace start broker"),
        ("/messages?topic=t", "headrace start broker"),
        ("/groups", "headrace start broker"),
        ("/group?group=g", "headrace start broker"),
        ("/schemas", "headrace start registry"),
        ("/schema?subject=t-value", "headrace start registry"),
        ("/mirror", "headrace start mirror"),
        ("/producers", "headrace start agent"),
        ("/processes", "headrace up"),
    ],
)
def test_a_page_whose_service_is_down_says_so_and_how_to_start_it(alone: TestClient, path: str, remedy: str) -> None:
    answer = alone.get(path)
    assert answer.status_code in (200, 503)
    assert remedy in answer.text
    assert "Traceback" not in answer.text
    assert "Internal Server Error" not in answer.text


def test_pages_have_a_strict_policy_and_no_script_or_style_of_their_own(alone: TestClient) -> None:
    for path in (*PAGES, "/nowhere", "/window?topic=t&start=x"):
        answer = alone.get(path)
        assert answer.headers[POLICY].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in answer.headers[POLICY]
        assert "<style" not in answer.text
        assert "<script>" not in answer.text
        assert " style=" not in answer.text
        for word in ('name="viewport"', 'class="skip"', '<html lang="en">'):
            assert word in answer.text


def test_the_two_files_are_for_light_and_dark_for_phones_and_for_the_keyboard(alone: TestClient) -> None:
    assert {alone.get(f"/{name}").headers["content-type"] for name in STATIC} == set(STATIC.values())
    for words in ("prefers-color-scheme: dark", "max-width: 40rem", ":focus-visible"):
        assert words in alone.get("/console.css").text


def test_an_order_is_refused_on_another_address_than_the_loopback(served_to_others: TestClient) -> None:
    answer = served_to_others.post("/api/group/move", json={"group": "g", "offsets": [["t", 0, 0]]})
    assert (answer.status_code, answer.json()["error"]) == (403, READ_ONLY)


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{}", "text/plain", 415),
        (b"{", "application/json", 400),
        (b"{}", "application/json", 400),
        (b'{"group": "g", "offsets": [["t", 0, -1]]}', "application/json", 400),
        (b'{"group": "g", "offsets": [["t", true, 1]]}', "application/json", 400),
        (b"[" * (MOST_BODY_BYTES + 1), "application/json", 413),
        (b'{"group": "g", "offsets": [["t", 0, 1]]}', "application/json", 503),
    ],
)
def test_an_order_is_checked_before_a_cluster_is_asked(alone: TestClient, body: bytes, kind: str, status: int) -> None:
    answer = alone.post("/api/group/move", content=body, headers={"Content-Type": kind})
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]


def test_an_order_comes_only_by_post_and_never_from_a_page_of_another_origin(alone: TestClient) -> None:
    assert alone.get("/api/group/move").status_code == 405
    guarded = TestClient(Guarded(alone.app, allowed=AllowedHosts()), base_url="http://localhost")
    order = {"group": "g", "offsets": [["t", 0, 1]]}
    assert guarded.post("/api/group/move", json=order, headers={"Origin": "http://evil.example"}).status_code == 403
    assert guarded.post("/api/group/move", json=order, headers={"Origin": "http://localhost"}).status_code == 503
    assert guarded.get("/processes", headers={"Host": "evil.example"}).status_code == 421


@pytest.mark.parametrize(
    "path",
    ["/group", "/topic", "/messages?topic=t&where=((", "/topics?cluster=x", "/proof?topic=t&hour=x", f"/topics?q={'x' * 3_000}"],
)
def test_a_wrong_address_is_answered_with_what_is_wrong(alone: TestClient, path: str) -> None:
    answer = alone.get(path)
    assert answer.status_code == 400
    assert "This address cannot be answered" in answer.text


def test_metrics_count_pages_by_time_answers_by_status_and_pages_that_failed(
    alone: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert alone.get("/processes").status_code == 200
    assert alone.get("/topics").status_code == 503
    assert alone.get("/nowhere").status_code == 404
    monkeypatch.setattr("headrace.console.pages.processes.render", lambda *_, **__: 1 / 0)
    assert alone.get("/processes").status_code == 500
    answer = alone.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    for line in (
        "headrace_console_ready 1",
        'headrace_console_responses_total{code="2xx"} 1',
        'headrace_console_responses_total{code="4xx"} 1',
        'headrace_console_responses_total{code="5xx"} 2',
        "headrace_console_failed_pages_total 1",
        'headrace_console_page_seconds_count{page="/processes"} 2',
        'headrace_console_page_seconds_bucket{page="/topics",le="+Inf"} 1',
        'headrace_console_page_seconds_count{page="/groups"} 0',
        "headrace_console_live_streams 0",
    ):
        assert line in lines, line
