"""`python -m bench.console`: how long the console's pages take in a real browser, and how large they are.

A broker with 1,000 topics and 50 groups, an audit store of 1,000 topics with 100 windows each. Two of the topics have 50 groups
beside the verdict of each window. Prints one JSON object. Needs Chromium, and about five minutes.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from headrace.client.connection.cluster import Cluster
from headrace.client.connection.control_plane import ask_create_topics
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.log_offsets import EARLIEST, log_offsets
from headrace.client.groups import group_admin
from headrace.client.producer.producer import Producer
from tests.support.chromium import Chromium
from tests.support.console import OneConsole
from tests.support.machine import lacking_chromium

from ..audit_scale import service, store
from ..peers.headrace import Headrace

CREATED_AT_ONCE = 250
TOPICS_OF_A_GROUP = 20
RECORDS = 20
PAYLOAD = b"event %d of a topic, which is made of a hundred bytes or so"
HOURS = 17
"""Of six windows each: 100 windows."""
SIZES = "performance.getEntriesByType('resource').reduce((sum, one) => sum + one.encodedBodySize, 0)"
NAVIGATION = "performance.getEntriesByType('navigation')[0]"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.console", description=__doc__, epilog="example: python -m bench.console"
    )
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--groups", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=40, help="times each page is opened (default %(default)s)")
    arguments = parser.parse_args()
    if (why := lacking_chromium()) is not None:
        print(f"nothing measured: {why}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="headrace-bench-console-") as name:
        folder = Path(name)
        live = Headrace(folder / "live")
        live.start()
        try:
            _say("topics and groups on the broker")
            fill(live.bootstrap, arguments.topics, arguments.groups)
            _say("windows in the audit's store")
            books = str(folder / "books.sqlite")
            store.make_hours(books, arguments.topics, hours=HOURS, groups=arguments.groups, losing_every=100, progress=_say)
            audit = service.Service(folder, books)
            home = folder / "home"
            home.mkdir()
            console = OneConsole(home, live.bootstrap, audit.url).start()
            try:
                _say("measuring")
                found = measure(folder, console.url, arguments.rounds)
            finally:
                console.process.stop()
                audit.close()
        finally:
            live.stop()
        print(json.dumps({"topics": arguments.topics, "groups": arguments.groups, "pages": found}, indent=2))
    return 0


def fill(bootstrap: str, topics: int, groups: int) -> None:
    """Create the topics with a few records each, and groups that have read the first records of some of them."""
    cluster = Cluster(bootstrap, client_id="bench-console")
    names = [store.topic_name(number) for number in range(topics)]
    for begin in range(0, topics, CREATED_AT_ONCE):
        some: list[tuple[str, int, int, dict[str, str]]] = [(name, 1, 1, {}) for name in names[begin : begin + CREATED_AT_ONCE]]
        ask_create_topics(cluster.controller(), some, timeout_ms=60_000)
    producer = Producer(cluster)
    for name in names:
        for number in range(RECORDS):
            producer.send(name, PAYLOAD % number, timestamp_ms=time.time_ns() // 1_000_000)
    producer.flush(120_000)
    producer.close(10_000)
    for number in range(groups):
        mine = [TopicPartition(names[(number * TOPICS_OF_A_GROUP + at) % topics], 0) for at in range(TOPICS_OF_A_GROUP)]
        group_admin.move_offsets(cluster, f"group-{number:02}", log_offsets(cluster, dict.fromkeys(mine, EARLIEST)))
    cluster.close()


def measure(folder: Path, url: str, rounds: int) -> dict[str, dict[str, int]]:
    """Return page → milliseconds until it is loaded (median, p95, most) and bytes, in a real browser."""
    wide = store.wide_topic_name(0)
    found = {}
    pages = {
        "home": "/",
        "topic": f"/topic?topic={store.topic_name(5)}",
        "topic, 50 groups": f"/topic?topic={wide}",
        "window, 50 groups": f"/window?topic={wide}&start={store.newest_window()}",
        "topics": "/topics",
        "settings": f"/settings?topic={store.topic_name(5)}",
        "messages": f"/messages?topic={store.topic_name(5)}",
        "groups": "/groups",
        "group": "/group?group=group-00",
        "producers": "/producers",
        "processes": "/processes",
    }
    with Chromium(folder / "profile", folder / "chromium.log") as browser:
        browser.screen(1_400, 900)
        browser.open(f"{url}/processes")
        for name, path in pages.items():
            took, size, beside = [], 0, 0
            for _ in range(rounds):
                browser.open(f"{url}/processes")
                browser.open(f"{url}{path}")
                browser.await_true(f"{NAVIGATION}.loadEventEnd > 0")
                took.append(float(browser.run(f"{NAVIGATION}.loadEventEnd")))
                size, beside = int(browser.run(f"{NAVIGATION}.encodedBodySize")), int(browser.run(SIZES))
            assert browser.run("document.querySelector('h1') !== null"), path
            found[name] = {
                "median_ms": round(statistics.median(took)),
                "p95_ms": round(statistics.quantiles(took, n=20)[-1]),
                "most_ms": round(max(took)),
                "bytes": size,
                "bytes_of_its_files": beside,
            }
    return found


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
