"""Producers that restart, die, share a name, or are retired by a person."""

import subprocess
import sys
import time

from tests.support.platform import Platform
from tests.support.processes import eventually

from .topics import Topic


def test_a_producer_that_restarts_under_its_name_adds_up(platform: Platform) -> None:
    topic = Topic(platform, "restarted", windows=1).make()
    for _ in range(2):
        with topic.logger(instance="www1/shop/7") as logger:
            topic.log_window(logger, topic.windows[0], 5)
        time.sleep(0.002)  # a run is told from the next one by the millisecond in which it began
    window = platform.await_complete(topic.name)[topic.windows[0]]
    assert set(window["tiers"].values()) == {10}


def test_two_of_one_name_at_once_are_never_complete_by_accident(platform: Platform) -> None:
    """The later run is taken for the restart of the earlier one; both seal, and their records add up."""
    topic = Topic(platform, "namesakes", windows=1).make()
    first = topic.logger(instance="www1/shop/8")
    time.sleep(0.002)
    second = topic.logger(instance="www1/shop/8")
    topic.log_window(first, topic.windows[0], 5)
    topic.log_window(second, topic.windows[0], 7)
    second.close()
    open_window = platform.windows(topic.name).get(topic.windows[0])
    assert open_window is None or open_window["verdict"] != "COMPLETE", "the first has not sealed"
    first.close()
    window = platform.await_complete(topic.name)[topic.windows[0]]
    assert set(window["tiers"].values()) == {12}


def test_a_killed_producer_is_named_and_what_a_person_says_of_it_is_accepted_and_never_complete(platform: Platform) -> None:
    topic = Topic(platform, "killed", windows=1).make()
    command = [sys.executable, "-m", "headrace.local.drills.silent_producer", topic.name, "5", str(topic.windows[0])]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=platform.environment, text=True)
    assert child.stdout is not None
    said = child.stdout.readline().split()  # it waits for a word of ours before it seals
    child.kill()
    child.wait(30)
    assert said[0] == "logged"
    instance = said[1]
    name = f"producer:{instance}"

    def silent() -> bool:
        window = platform.windows(topic.name).get(topic.windows[0], {})
        assert window.get("verdict") == "UNKNOWN", window
        return name in window["silent"]

    eventually(silent, within_ms=60_000, every_ms=200, what="UNKNOWN, and named")
    platform.headrace("audit", "retire-producer", instance, "--reason", "its host burned", "--by", "anna", "--silent-for", "1")

    def accepted() -> bool:
        window = platform.windows(topic.name)[topic.windows[0]]
        assert window["verdict"] == "ACCEPTED", window
        return any("anna" in words and name in words for words in window["retired"])

    eventually(accepted, within_ms=60_000, every_ms=200, what="ACCEPTED, by anna")
