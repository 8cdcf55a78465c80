"""The pages of topics and windows, over the audit's own API."""

from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from headrace.audit.model.messages import RangeWindow, Stretch
from tests.support.audit_parts import CRC, T0, Service, W, complete, mirror, producer


def lossy(service: Service) -> None:
    """The mirror lacks the last record of the first window, at offset 4."""
    service.report(producer({T0: 5, T0 + W: 3}))
    held = {T0: RangeWindow(held=(Stretch(0, 4, CRC),)), T0 + W: RangeWindow(held=(Stretch(5, 3, CRC),))}
    service.report(replace(mirror(0, 100, {}), windows=held), offset=1)
    service.read("live", 0, 100, {T0: 5, T0 + W: 3})
    service.hear()
    service.judge.bring_up_to_date()


def test_the_page_of_a_topic_shows_counts_differences_and_the_reason_under_the_verdict(
    service: Service, console: TestClient
) -> None:
    lossy(service)
    page = console.get("/topic?topic=clicks").text
    for words in ("2015-05-17 08:00", "4 (−1)", "INCOMPLETE: 1 missing<small>", "the first tier that differs", ">mirror</th>"):
        assert words in page
    assert "https://" not in page
    assert "//127" not in page


def test_the_page_of_a_window_names_the_records_and_the_command_that_reads_them(service: Service, console: TestClient) -> None:
    lossy(service)
    page = console.get("/window", params={"topic": "clicks", "start": T0}).text
    assert "-t clicks -p 0 -o 4 -c 1 -e" in page
    assert "INCOMPLETE" in page
    fine = console.get("/window", params={"topic": "clicks", "start": T0 + W}).text
    assert "No record of this window is known to be missing" in fine
    for start in ("5", "", "noon", str(10**30)):
        answer = console.get("/window", params={"topic": "clicks", "start": start})
        assert answer.status_code == 400
        assert "This address cannot be answered" in answer.text


def test_home_names_the_loss_first_and_shows_topics_by_hour(service: Service, console: TestClient) -> None:
    lossy(service)
    service.report(producer({T0: 5}, closed=False, topic="views"), offset=2)
    service.judge.bring_up_to_date()
    page = console.get("/").text
    for words in ("2015-05-17</th>", '<td class="v-INCOMPLETE">INCOMPLETE 1', "2 of 2 topics", "1 INCOMPLETE"):
        assert words in page
    problems = page.partition('<ol class="problems">')[2].partition("</ol>")[0]
    assert "clicks: 1 window is INCOMPLETE" in problems
    assert f'href="/window?topic=clicks&amp;start={T0}"' in problems
    assert "Everything is all right" not in page
    assert "views" not in console.get("/?q=lick").text.partition("<table")[2]
    assert "No topic contains" in console.get("/?q=nothing").text


def test_home_says_that_everything_is_all_right_where_it_is(service: Service, console: TestClient) -> None:
    complete(service)
    service.judge.bring_up_to_date()
    page = console.get("/").text
    assert "Everything is all right." in page
    assert "<ol" not in page


def test_an_unknown_window_before_the_hours_that_are_shown_is_in_the_topic_s_row(
    service: Service, console: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: the page showed the latest hours of all topics, and a topic that had none of them looked empty, so well."""
    monkeypatch.setattr("headrace.console.pages.home.HOURS", 1)
    lossy(service)
    service.report(producer({T0 + 100 * W: 1}, topic="views"), offset=2)
    service.judge.bring_up_to_date()
    row = next(line for line in console.get("/").text.splitlines() if "topic=clicks" in line and "<tr>" in line)
    assert "1 INCOMPLETE" in row
    assert 'class="none">·' in row


def test_the_overview_is_paged(service: Service, console: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.console.pages.home.TOPICS", 2)
    for name in "abc":
        service.report(producer({T0: 1}, topic=name))
    service.judge.bring_up_to_date()
    first = console.get("/").text
    assert "after=b" in first
    assert 'topic=c"' not in first
    assert 'topic=c"' in console.get("/?after=b").text


def test_pages_escape_what_topics_and_producers_call_themselves(service: Service, console: TestClient) -> None:
    service.report(replace(producer({T0: 1}, closed=False, topic="<i>t</i>"), instance="<b>me</b>"))
    service.judge.bring_up_to_date()
    for path in ("/", "/topic?topic=%3Ci%3Et%3C/i%3E", "/producers"):
        page = console.get(path).text
        assert "<b>" not in page
        assert "<i>" not in page
        assert "&lt;i&gt;t" in page
    assert "&lt;b&gt;me" in page


def test_pages_hold_before_anything_was_mentioned_and_with_times_that_no_calendar_has(
    service: Service, console: TestClient
) -> None:
    assert "No topic has been mentioned" in console.get("/").text
    assert "No tier has mentioned a window" in console.get("/topic?topic=unheard-of").text
    far = (1 << 62) - (1 << 62) % W
    service.report(producer({far: 1, -W: 2}))
    service.judge.bring_up_to_date()
    assert f"{far} ms" in console.get("/topic?topic=clicks").text
    assert console.get("/").status_code == 200


def test_pages_say_what_the_audit_cannot_reach(service: Service, console: TestClient) -> None:
    service.faults = ["The live log cannot be read now: refused"]  # type: ignore[attr-defined]
    for path in ("/", "/topic?topic=clicks"):
        assert "The live log cannot be read now: refused" in console.get(path).text


def test_late_records_are_explained_where_they_stand(service: Service, console: TestClient) -> None:
    service.report(producer({T0: 5}), mirror(0, 100, {T0: 5}))
    service.read("live", 0, 100, {T0: 5})
    service.hear()
    service.judge.bring_up_to_date()
    service.clock.advance(10**9)
    service.read("live", 100, 200, {T0: 2})
    service.judge.bring_up_to_date()
    (found,) = service.windows("clicks")
    assert found["late"], found
    page = console.get("/topic?topic=clicks").text
    assert f"{found['late']} came after the verdict" in page
    assert "late: records that arrived after" in page


def test_home_lists_so_many_problems_and_counts_the_others(
    service: Service, console: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.console.pages.home.MOST_PROBLEMS", 1)
    service.faults = ["one", "two", "three"]  # type: ignore[attr-defined]
    page = console.get("/").text
    assert page.count("The audit does not see everything") == 1
    assert "and 2 more" in page
