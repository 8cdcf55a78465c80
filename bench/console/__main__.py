"""`python -m bench.console`: how long the console's pages take in a real browser, and how large they are.

A broker with 1,000 topics and 50 groups, an audit store of 1,000 topics with 100 windows each. Two of the topics have 50 groups
beside the verdict of each window. Each round opens another topic, window or group, as a person does; the first round finds the
console just started. Prints one JSON object: the clock, and the processor time that console, audit and broker took for a page,
which says more on a busy machine. Needs Chromium, and about three minutes.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
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

from ..audit_scale import one_topic, service, store
from ..harness.proc_meters import cpu_s
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
                memory_at_rest = rss_and_pss(console.process.pid)
                pids = [console.process.pid, audit.pid, live.pids()[0]]
                found = measure(folder, console.url, arguments.topics, arguments.groups, arguments.rounds, pids)
                memory = {"at_rest": memory_at_rest, "after_the_pages": rss_and_pss(console.process.pid)}
            finally:
                console.process.stop()
                audit.close()
        finally:
            live.stop()
        print(json.dumps({"topics": arguments.topics, "groups": arguments.groups, "memory": memory, "pages": found}, indent=2))
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


def paths(round_number: int, topics: int, groups: int) -> dict[str, str]:
    """Return page → address, another topic and group each round."""
    topic = store.topic_name((5 + 7 * round_number) % topics)
    wide = store.wide_topic_name(round_number % 2)
    return {
        "home": "/",
        "topic": f"/topic?topic={topic}",
        "topic, 50 groups": f"/topic?topic={wide}",
        "window, 50 groups": f"/window?topic={wide}&start={store.newest_window() - (round_number % 90) * one_topic.W}",
        "topics": "/topics",
        "settings": f"/settings?topic={topic}",
        "messages": f"/messages?topic={topic}",
        "groups": "/groups",
        "group": f"/group?group=group-{round_number % groups:02}",
        "producers": "/producers",
        "processes": "/processes",
    }


def measure(folder: Path, url: str, topics: int, groups: int, rounds: int, pids: Sequence[int]) -> dict[str, dict[str, float]]:
    """Return page → milliseconds until it is loaded in a real browser (the first, median, p95, most), bytes, and the processor
    time that the processes took for it (median).
    """
    took: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}
    sizes: dict[str, tuple[int, int]] = {}
    with Chromium(folder / "profile", folder / "chromium.log") as browser:
        browser.screen(1_400, 900)
        for number in range(rounds):
            for name, path in paths(number, topics, groups).items():
                browser.open(f"{url}/healthz")
                before = cpu_s(pids)
                browser.open(f"{url}{path}")
                browser.await_true(f"{NAVIGATION}.loadEventEnd > 0")
                cpu.setdefault(name, []).append((cpu_s(pids) - before) * 1_000)
                took.setdefault(name, []).append(float(browser.run(f"{NAVIGATION}.loadEventEnd")))
                size, beside = int(browser.run(f"{NAVIGATION}.encodedBodySize")), int(browser.run(SIZES))
                sizes[name] = max(sizes.get(name, (0, 0)), (size, beside))
                assert browser.run("document.querySelector('h1') !== null"), path
    return {
        name: {
            "first_ms": round(mine[0]),
            "median_ms": round(statistics.median(mine)),
            "p95_ms": round(statistics.quantiles(mine, n=20)[-1]),
            "most_ms": round(max(mine)),
            "processor_ms": round(statistics.median(cpu[name]), 1),
            "bytes": sizes[name][0],
            "bytes_of_its_files": sizes[name][1],
        }
        for name, mine in took.items()
    }


def rss_and_pss(pid: int) -> dict[str, int]:
    """Return what of the process is resident, and its share of it where others share pages, in bytes."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return {name: int(lines[name].split()[0]) * 1024 for name in ("Rss", "Pss")}


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
