"""A running mirror that is paused, resumed and throttled, by the commands, whole and by topic."""

import json
import subprocess
import sys
import time

from headrace.client import admin
from tests.integration.mirror.pair import Pair
from tests.integration.mirror.test_verify import send
from tests.support.processes import eventually


def mirror(pair: Pair, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace.cli.main", "mirror", *words, "--status-file", str(pair._status)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def held(pair: Pair, topic: str) -> str:
    return next((one["held"] or "" for one in pair.status()["partitions"] if one["topic"] == topic), "")


def notes(pair: Pair, topic: str) -> list[str]:
    return [report.note for report in pair.reports() if report.topic == topic]


def test_a_paused_topic_stands_still_and_says_why_while_another_is_copied(fresh: Pair) -> None:
    fresh.mirror.command += ["--stall-after-ms", "500"]
    for topic in ("clicks", "orders"):
        admin.create_topic(fresh.cluster(fresh.live), topic, 1)
    fresh.start_mirror()
    for topic in ("clicks", "orders"):
        send(fresh, 50, topic=topic)
        fresh.await_level(topic)
    before = fresh.offset(fresh.offline, "clicks", 0)
    done = mirror(fresh, "pause", "--topic", "clicks", "--reason", "disk full")
    assert (done.returncode, "disk full" in done.stdout) == (0, True), done.stderr
    for topic in ("clicks", "orders"):
        send(fresh, 50, topic=topic)
    fresh.await_level("orders")
    eventually(lambda: "disk full" in held(fresh, "clicks"), what="the pause told")
    assert fresh.offset(fresh.offline, "clicks", 0) == before
    eventually(lambda: fresh.status()["destination"]["lag_bytes"] > 0, what="the lag told")
    # Longer than --stall-after-ms: what makes no progress because it is to is not a fault.
    told_ms = fresh.status()["at_ms"]
    eventually(lambda: fresh.status()["at_ms"] > told_ms + 1_500, what="a later status")
    assert fresh.status()["state"] == "ready"
    assert fresh.status()["notice"].startswith("clicks paused since")

    # The audit hears it as what it is.
    eventually(lambda: "disk full" in notes(fresh, "clicks")[-1], what="the pause told to the audit")
    assert set(notes(fresh, "orders")) == {""}

    # The order outlives the process.
    fresh.kill_mirror()
    fresh.start_mirror()
    eventually(lambda: "disk full" in held(fresh, "clicks"), what="still paused")
    assert fresh.offset(fresh.offline, "clicks", 0) == before
    shown = mirror(fresh, "status")
    assert shown.returncode == 0
    assert "clicks is paused since" in shown.stdout
    assert mirror(fresh, "resume", "--topic", "clicks").returncode == 0
    fresh.await_level("clicks")
    fresh.assert_same("clicks")
    assert held(fresh, "clicks") == ""
    eventually(lambda: notes(fresh, "clicks")[-1] == "", what="the pause taken back")


def test_a_paused_mirror_copies_nothing_at_all_until_it_is_resumed(fresh: Pair) -> None:
    admin.create_topic(fresh.cluster(fresh.live), "clicks", 1)
    fresh.start_mirror()
    send(fresh, 20)
    fresh.await_level("clicks")
    assert mirror(fresh, "pause").returncode == 0
    before = fresh.offset(fresh.offline, "clicks", 0)
    send(fresh, 20)
    eventually(lambda: fresh.status()["destination"]["lag_bytes"] > 0, what="the lag told")
    assert fresh.offset(fresh.offline, "clicks", 0) == before
    assert json.loads(mirror(fresh, "status", "--json").stdout)["orders"]["paused"]["*"].startswith("paused since")
    assert mirror(fresh, "resume").returncode == 0
    fresh.await_level("clicks")


def test_a_throttled_mirror_keeps_to_its_bytes_a_second(fresh: Pair) -> None:
    admin.create_topic(fresh.cluster(fresh.live), "clicks", 1)
    fresh.start_mirror()
    send(fresh, 10)
    fresh.await_level("clicks")
    done = mirror(fresh, "throttle", "200k")
    assert (done.returncode, "200,000 bytes/s" in done.stdout) == (0, True), done.stderr
    first, began = fresh.offset(fresh.offline, "clicks", 0), time.monotonic()
    send(fresh, 2_500)
    fresh.await_level("clicks")
    copied, took_s = fresh.offset(fresh.offline, "clicks", 0) - first, time.monotonic() - began
    assert copied > 900_000
    # Never faster than it may, but for a second that was saved up and one fetch (a quarter of a second's bytes).
    assert copied <= 200_000 * (took_s + 1.25)
    assert fresh.status()["state"] == "ready"
    assert mirror(fresh, "throttle", "none").returncode == 0
    assert fresh.status()["orders"]["bytes_per_s"] == {}


def test_wrong_orders_are_refused_in_words_and_damaged_ones_stop_nothing_that_runs(fresh: Pair) -> None:
    admin.create_topic(fresh.cluster(fresh.live), "clicks", 1)
    fresh.start_mirror()
    send(fresh, 10)
    fresh.await_level("clicks")
    eventually(lambda: fresh.status()["partitions"], what="the topic in the status")
    unknown = mirror(fresh, "pause", "--topic", "click")
    assert (unknown.returncode, "'clicks'" in unknown.stderr) == (2, True)
    assert mirror(fresh, "throttle", "5").returncode == 2
    assert mirror(fresh, "throttle", "fast").returncode == 2
    orders = fresh._status.with_suffix(".orders")
    orders.write_text("{")
    eventually(lambda: fresh.status()["orders"]["trouble"], what="the damage told")
    assert fresh.status()["state"] == "stalled"
    send(fresh, 10)
    fresh.await_level("clicks")
    # A mirror that starts cannot know what was paused: it says so and copies nothing.
    fresh.kill_mirror()
    fresh.launch_mirror()
    assert fresh.mirror.wait(30_000) == 1
    assert "delete the file" in fresh.mirror.output()


def test_without_a_mirror_the_order_waits_for_it(fresh: Pair) -> None:
    done = mirror(fresh, "pause")
    assert (done.returncode, "from its next start" in done.stdout) == (0, True)
    assert mirror(fresh, "status").returncode == 1
