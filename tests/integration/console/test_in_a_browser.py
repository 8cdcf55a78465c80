"""The pages in a real browser: by keyboard, on a phone with the longest names and the widest tables, and with axe-core."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from headrace.audit.model.tiers import MIRROR
from headrace.audit.publisher import range_reports
from headrace.audit.publisher.sending import send_and_flush
from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.log_offsets import LATEST, log_offsets
from headrace.client.groups.group_admin import list_groups
from headrace.client.producer.producer import Producer
from headrace.runtime.clock import SystemClock
from tests.support.audit_service import AuditService
from tests.support.audited_application import AuditedApplication, W
from tests.support.broker import BrokerProcess
from tests.support.chromium import Chromium
from tests.support.console import OneConsole
from tests.support.foreign_page import SIMPLE_REQUESTS, attack, foreign_page
from tests.support.processes import eventually

pytestmark = pytest.mark.needs("chromium")

AXE = "axe-core@4.14.1"
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
PAGES = {
    "home": "/",
    "topic": f"/topic?topic={LONG}",
    "window": f"/window?topic={LONG}&start=0",
    "topics": "/topics",
    "settings": f"/settings?topic={LONG}",
    "messages": f"/messages?topic={LONG}",
    "groups": "/groups",
    "mirror": "/mirror",
    "warehouse": "/warehouse",
    "producers": "/producers",
    "processes": "/processes",
    "away": "/schemas",
    "wrong": "/topic",
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, broker: BrokerProcess) -> Iterator[OneConsole]:
    """Three topics; of the one with the long name the mirror lost all records, and its producer has not said all."""
    live = broker
    found = AuditService(tmp_path_factory.mktemp("audit"), live.address, settings=SETTINGS).start()
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
    console = OneConsole(tmp_path_factory.mktemp("home"), live.address, found.url).start()
    yield console
    console.process.kill()
    found.process.kill()


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core, from npm's registry as this machine names it."""
    if shutil.which("npm") is None:
        pytest.skip("wants npm (Debian: npm), for axe-core")
    folder = tmp_path_factory.mktemp("axe")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", AXE]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert not done.returncode, done.stderr
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chromium]:
    with Chromium(tmp_path / "profile", tmp_path / "chromium.log") as found:
        yield found
        # A page that says what is down comes with 503 or 400, which the browser notes.
        assert [one for one in found.errors if "status of 503" not in one and "status of 400" not in one] == []


def focused(browser: Chromium) -> str:
    """Return the text of what has the focus, or its label."""
    found: str = browser.run(
        "(one => one.ariaLabel || one.name || one.textContent.trim().slice(0, 40) || one.tagName)(document.activeElement)"
    )
    return found


def test_every_page_fits_a_phone_and_only_tables_scroll_in_boxes_of_their_own(service: OneConsole, browser: Chromium) -> None:
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


def test_tab_reaches_everything_in_the_order_of_the_page_and_the_focus_is_seen(service: OneConsole, browser: Chromium) -> None:
    browser.screen(1200, 800)
    browser.open(service.url + "/")
    order: list[str] = []
    while not order or order[-1] != "views":
        assert len(order) < 40, order
        browser.press("Tab")
        order.append(focused(browser))
        assert browser.run("getComputedStyle(document.activeElement).outlineStyle") != "none", order[-1]
    nav = ["Home", "Topics", "Consumers", "Schemas", "Mirror", "Warehouse", "Producers", "Processes"]
    assert order[:9] == ["Skip to the content", *nav]
    assert order[9].startswith(f"{LONG[:20]}"), "what is wrong comes before everything else"
    assert order[-6:] == ["q", "Show", "Topics by hour", "clicks", LONG[:40], "views"]
    browser.press("Tab", shift=True)
    assert focused(browser) == LONG[:40]


def test_the_first_key_press_skips_to_the_content(service: OneConsole, browser: Chromium) -> None:
    browser.open(service.url + "/topic?topic=clicks")
    browser.press("Tab")
    assert browser.run("document.activeElement.getBoundingClientRect().left >= 0"), "seen once it has the focus"
    browser.press("Enter", "Tab")
    assert focused(browser) == "Messages", "the first link of the content"


def test_keys_lead_from_topic_to_window_and_arrows_scroll_a_wide_table(service: OneConsole, browser: Chromium) -> None:
    browser.screen(800, 600)
    browser.open(service.url + "/")
    browser.press("j")
    assert focused(browser).startswith(LONG[:20]), "the worst problem"
    for _ in range(10):
        if focused(browser) == "clicks":
            break
        browser.press("j")
    browser.press("j", "j", "k")
    assert focused(browser) == LONG[:40]
    browser.press("Enter")
    browser.await_true("location.pathname === '/topic' && document.readyState === 'complete'")
    browser.run("document.querySelector('.scroll').focus()")
    browser.press("ArrowRight", "ArrowRight")
    browser.await_true("document.querySelector('.scroll').scrollLeft > 0")
    browser.press("j", "Enter")
    browser.await_true("location.pathname === '/window' && document.readyState === 'complete'")
    assert browser.run("document.querySelector('h2').textContent") == "Which records"


def test_slash_searches_enter_shows_and_escape_leaves_the_box(service: OneConsole, browser: Chromium) -> None:
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


def test_a_page_that_refreshes_keeps_the_focus_and_how_far_a_table_is_scrolled(service: OneConsole, browser: Chromium) -> None:
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


def test_a_page_of_another_origin_moves_no_group_and_frames_no_page(service: OneConsole, browser: Chromium) -> None:
    url = service.url
    order = '{"group": "g", "offsets": [["clicks", 0, 0]]}'
    with foreign_page() as foreign:
        browser.open(f"http://localhost:{foreign}/")
        sent = browser.run(attack(f"{url}/api/group/move", order))
        assert sent == len(SIMPLE_REQUESTS)
        frame = "const frame = document.createElement('iframe'); frame.onload = () => done(frame.contentDocument === null);"
        frame += f" frame.src = '{url}/'; document.body.append(frame);"
        assert browser.run(f"new Promise((done) => {{ {frame} }})")
        assert any("frame-ancestors" in one or "X-Frame-Options" in one for one in browser.errors), browser.errors
        browser.errors.clear()
    cluster = Cluster(service.live)
    assert "g" not in list_groups(cluster)
    browser.open(f"{url}/processes")
    answer = browser.run(
        "fetch('/api/group/move', {method: 'POST', headers: {'Content-Type': 'application/json'}, "
        f"body: {order!r}}}).then((answer) => answer.status)"
    )
    assert answer == 200, "a page of ours may"
    assert "g" in list_groups(cluster)
    cluster.close()


def test_local_times_stand_beside_utc_where_the_two_differ(service: OneConsole, browser: Chromium) -> None:
    browser.zone("Asia/Kolkata")
    browser.open(service.url + "/topic?topic=clicks")
    shown = browser.run("document.querySelector('tbody th').textContent")
    assert shown == "1970-01-01 01:30 – 01:40 (07:00 here)"
    browser.zone("UTC")
    browser.open(service.url + "/topic?topic=clicks")
    assert browser.run("document.querySelectorAll('.local').length") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault_of_wcag_aa_on_any_page(
    service: OneConsole, browser: Chromium, axe: str, scheme: Literal["light", "dark"]
) -> None:
    browser.ignore_policies()
    browser.scheme(scheme)
    browser.screen(1_200, 900)
    for name, path in PAGES.items():
        browser.open(service.url + path)
        browser.run(axe + "; 0")
        tags = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}"
        found = browser.run(
            f"axe.run(document, {tags}).then((found) => found.violations.map((one) => "
            "[one.id, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 120) + ' ' + node.failureSummary)]))"
        )
        assert found == [], name
