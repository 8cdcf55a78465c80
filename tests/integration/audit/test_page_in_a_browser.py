"""The audit's pages in a real browser: with the keyboard alone, and on a phone, with the longest names and the widest tables."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.audit.model.tiers import MIRROR
from headrace.audit.publisher import range_reports
from headrace.audit.publisher.sending import send_and_flush
from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.log_offsets import LATEST, log_offsets
from headrace.client.producer.producer import Producer
from headrace.runtime.clock import SystemClock
from tests.support.audit_service import AuditService
from tests.support.broker import BrokerProcess
from tests.support.chromium import Chromium
from tests.support.foreign_page import SIMPLE_REQUESTS, attack, foreign_page
from tests.support.processes import eventually

from .producers import AuditedApplication, W

pytestmark = pytest.mark.needs("chromium")

LONG = "orders-" + "x" * 200
INSTANCE = "a-host-with-a-long-name.of-a-department.example.org/an-application-with-a-long-name/4711"
GROUPS = [f"consumer:a-service-with-a-long-name-{number}" for number in range(4)]
SETTINGS = f"""
[service]
discover_ms = 200
judge_every_ms = 200
[deadlines_ms]
default = 600000
[topics.default]
tiers = {["producer", "live"]}
[topics."{LONG}"]
tiers = {["producer", "live", "mirror", *GROUPS]}
""".replace("'", '"')
PAGES = {"topics": "/", "topic": f"/?topic={LONG}", "window": f"/window?topic={LONG}&start=0"}


@pytest.fixture
def service(live: BrokerProcess, audit: Callable[..., AuditService]) -> AuditService:
    """Three topics; of the one with the long name the mirror lost all records, and its producer has not said all."""
    found = audit(live.address, settings=SETTINGS)
    for topic in ("clicks", "views"):
        application = AuditedApplication(live.address, topic, f"host/{topic}/1")
        application.log(range(0, 6_000_000, 600_000))
        application.seal()
        application.close()
    cluster = Cluster(live.address)
    create_topic(cluster, LONG, 1)
    application = AuditedApplication(live.address, LONG, INSTANCE)
    application.log([5, 6, 7])
    application.seal()
    running = AuditedApplication(live.address, LONG, INSTANCE + "2")
    running.reporter.beat(moved_past_ms=W)
    end = log_offsets(cluster, {(name := TopicPartition(LONG, 0)): LATEST})[name]
    sender = Producer(cluster)
    for tier in (MIRROR, *GROUPS):
        told = range_reports(
            tier=tier, instance=INSTANCE, at_ms=1, topic=LONG, partition=0, from_offset=0, to_offset=end, windows={}
        )
        send_and_flush(sender, SystemClock(), told, 20_000)
    sender.close(0)
    cluster.close()
    eventually(lambda: found.windows(LONG).get(0, {}).get("verdict") == "INCOMPLETE", what="what the mirror lost told")
    eventually(lambda: len(found.windows("views")) == 10, what="every window known")
    application.close()
    running.close()
    return found


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chromium]:
    with Chromium(tmp_path / "profile", tmp_path / "chromium.log") as found:
        yield found
        assert found.errors == []


def focused(browser: Chromium) -> str:
    """Return the text of what has the focus, or its label."""
    found: str = browser.run(
        "(one => one.ariaLabel || one.name || one.textContent.trim().slice(0, 40) || one.tagName)(document.activeElement)"
    )
    return found


def test_every_page_fits_a_phone_and_only_tables_scroll_in_boxes_of_their_own(service: AuditService, browser: Chromium) -> None:
    browser.screen(360, 640, phone=True)
    for name, path in PAGES.items():
        browser.open(service.url + path)
        assert browser.run("document.documentElement.clientWidth") == 360, name
        wide = browser.run(
            """[...document.querySelectorAll("body *")].filter(one => !one.closest(".scroll") && !one.matches(".skip")
               && one.getBoundingClientRect().right > 360.5).map(one => one.outerHTML.slice(0, 90))"""
        )
        assert wide == [], name
        assert browser.run("document.documentElement.scrollWidth") <= 360, name
        assert browser.run("[...document.querySelectorAll('table')].every(one => one.closest('.scroll'))"), name
    browser.open(service.url + PAGES["topic"])
    box = "document.querySelector('.scroll')"
    assert browser.run(f"{box}.scrollWidth > {box}.clientWidth"), "the widest table is wider than a phone"
    name = "document.querySelector('tbody th')"
    assert browser.run(f"getComputedStyle({name}).position") == "sticky"
    browser.open(service.url + "/")
    widest = "Math.max(...[...document.querySelectorAll('tbody th')].map(one => one.getBoundingClientRect().width))"
    assert browser.run(widest) <= 180, "the row's name leaves half of the screen to the table"


def test_tab_reaches_everything_in_the_order_of_the_page_and_the_focus_is_seen(service: AuditService, browser: Chromium) -> None:
    browser.screen(1200, 800)
    browser.open(service.url + "/")
    order = []
    for _ in range(9):
        browser.press("Tab")
        order.append(focused(browser))
        assert browser.run("getComputedStyle(document.activeElement).outlineStyle") != "none", order[-1]
    head = ["Skip to the table", "Headrace audit", "q", "Show"]
    assert order == [*head, LONG[:40], "Topics by hour", "clicks", LONG[:40], "views"], "the topic with questions comes first"
    browser.press("Tab", shift=True)
    assert focused(browser) == LONG[:40]


def test_the_first_key_press_skips_to_the_table(service: AuditService, browser: Chromium) -> None:
    browser.open(service.url + "/?topic=clicks")
    browser.press("Tab")
    assert browser.run("document.activeElement.getBoundingClientRect().left >= 0"), "seen once it has the focus"
    browser.press("Enter", "Tab")
    assert focused(browser) == "Windows by tier"


def test_keys_lead_from_topic_to_window_and_arrows_scroll_a_wide_table(service: AuditService, browser: Chromium) -> None:
    browser.screen(800, 600)
    browser.open(service.url + "/")
    browser.press("j", "j")
    assert focused(browser) == LONG[:40]
    browser.press("j", "j", "k")
    assert focused(browser) == LONG[:40]
    browser.press("Enter")
    browser.await_true("location.search.startsWith('?topic=orders-') && document.readyState === 'complete'")
    browser.run("document.querySelector('.scroll').focus()")
    browser.press("ArrowRight", "ArrowRight")
    browser.await_true("document.querySelector('.scroll').scrollLeft > 0")
    browser.press("j", "Enter")
    browser.await_true("location.pathname === '/window' && document.readyState === 'complete'")
    assert browser.run("document.querySelector('h2').textContent") == "Which records"


def test_slash_searches_enter_shows_and_escape_leaves_the_box(service: AuditService, browser: Chromium) -> None:
    browser.open(service.url + "/")
    browser.press("/")
    assert focused(browser) == "q"
    browser.press("j", "k", "Escape")
    assert browser.run("document.querySelector('input').value") == "", "what was typed is gone"
    assert focused(browser) == "q"
    browser.press("Escape")
    assert browser.run("document.activeElement === document.body")
    browser.press("/", *"iew", "Enter")
    browser.await_true("location.search === '?q=iew' && document.readyState === 'complete'")
    assert browser.run("[...document.querySelectorAll('tbody th')].map(one => one.textContent)") == ["views"]


def test_a_page_that_refreshes_keeps_the_focus_and_how_far_a_table_is_scrolled(service: AuditService, browser: Chromium) -> None:
    browser.screen(360, 640, phone=True)
    browser.open(service.url + PAGES["topic"])
    browser.run("document.querySelector('.scroll').focus(); document.querySelector('.scroll').scrollLeft = 120")
    browser.run("window.before = document.querySelector('main'); refresh()")
    assert browser.run("document.querySelector('main') !== window.before"), "it is another main by now"
    assert focused(browser) == "Windows by tier"
    assert browser.run("document.querySelector('.scroll').scrollLeft") == 120
    browser.press("j")
    assert focused(browser).startswith("1970-01-01 00:00")
    browser.run("refresh()")
    assert focused(browser).startswith("1970-01-01 00:00")


def test_a_page_of_another_origin_starts_no_recount_and_frames_no_page(service: AuditService, browser: Chromium) -> None:
    url = service.url
    with foreign_page() as foreign:
        browser.open(f"http://localhost:{foreign}/")
        sent = browser.run(attack(f"{url}/api/recount?tier=live&topic=clicks", "x"))
        assert sent == len(SIMPLE_REQUESTS)
        assert '"recount"' not in service.process.output()
        frame = "const frame = document.createElement('iframe'); frame.onload = () => done(frame.contentDocument === null);"
        frame += f" frame.src = '{url}/'; document.body.append(frame);"
        assert browser.run(f"new Promise((done) => {{ {frame} }})")
        assert any("frame-ancestors" in one or "X-Frame-Options" in one for one in browser.errors), browser.errors
        browser.errors.clear()
    service.post("/api/recount", tier="live", topic="clicks")
    assert '"recount"' in service.process.output(), "a client of ours may, and the log says so"
