"""Producers that restart, fork, die, share a name, or are retired by a person; a replay that is killed."""

import os
import signal
import subprocess
import sys
import time

from tests.support.platform import Platform
from tests.support.processes import eventually

from .topics import Topic

PROGRAM = """
import os, sys
from headrace.sdk import ACCESS_LOG_SCHEMA, EventLogger
def log(count):
    for number in range(count):
        event = {{"client_ip": "127.0.0.1", "method": "GET", "path": "/fault/%06d" % number, "status": 200}}
        assert logger.log(event, event_time_ms={at_ms})
logger = EventLogger({topic!r}, ACCESS_LOG_SCHEMA, bootstrap={bootstrap!r}, registry_url={registry!r}, application="faults",
    lateness_ms={lateness_ms!r}, linger_ms=60_000, start_timeout_ms=30_000, only_between_ms={between!r})
{work}
"""


def program(
    topic: Topic, work: str, *, window: int = 0, between: tuple[int, int] | None = None, lateness_ms: int | None = None
) -> list[str]:
    """Return the command of an application that opens a logger and then does `work`; `log(n)` logs n events in the window."""
    layout = topic.platform.layout
    words = PROGRAM.format(
        topic=topic.name,
        bootstrap=layout.live_bootstrap,
        registry=layout.registry_url,
        at_ms=topic.windows[window],
        between=between,
        lateness_ms=lateness_ms,
        work=work,
    )
    return [sys.executable, "-c", words]


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


def test_a_process_that_forked_with_its_logger_open_adds_up_with_its_child(platform: Platform) -> None:
    topic = Topic(platform, "forked", windows=1).make()
    work = "log(3)\nchild = os.fork()\nlog(5)\nif child: os.waitpid(child, 0)\nsys.exit(0)"
    subprocess.run(program(topic, work), env=platform.environment, check=True, timeout=60)
    window = platform.await_complete(topic.name)[topic.windows[0]]
    assert set(window["tiers"].values()) == {13}
    assert len(topic.live()) == 13, "another client agrees"


def test_a_killed_replay_of_one_window_leaves_the_others_alone(platform: Platform) -> None:
    """Issue: a killed replay of one event of another day made every window of the topic UNKNOWN."""
    topic = Topic(platform, "killed_replay").make()
    work = "log(5)\nlogger.flush()\nlog(1)\nprint(logger.instance, flush=True)\nsys.stdin.readline()"
    command = program(topic, work, window=1, between=(topic.windows[1], topic.windows[2]))
    replay = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=platform.environment, text=True)
    assert replay.stdout is not None
    instance = replay.stdout.readline().strip()
    replay.kill()
    replay.wait(30)
    assert instance
    topic.log(5)

    def told() -> bool:
        found = platform.windows(topic.name)
        verdicts = [found[start]["verdict"] for start in topic.windows]
        assert verdicts == ["COMPLETE", "UNKNOWN", "COMPLETE"], found
        return bool(found[topic.windows[1]]["silent"] == [f"producer:{instance}"])

    eventually(told, within_ms=60_000, every_ms=200, what="the replay's own window alone UNKNOWN")


SAY = "print(logger.instance, flush=True)"
HELD = {
    "memory": (f"log(6)\n{SAY}\nsys.stdin.readline()", None),
    "late": (f"log(6)\n{SAY}\nsys.stdin.readline()", 60_000),
    "forked": (
        f"child = os.fork()\nif not child: log(6)\n{SAY} if not child else os.waitpid(child, 0)\nsys.stdin.readline()",
        None,
    ),
}
"""Row of issue 26 → what the application does before it is killed, and its lateness: with one, the window was sealed long ago."""


def test_windows_that_killed_applications_held_are_unknown_though_nobody_mentions_them_and_the_others_complete(
    platform: Platform,
) -> None:
    """Faults: COMPLETE over what an application still had in memory, over late events, over a child killed after `log()`."""
    topics = {}
    for row, (work, lateness_ms) in HELD.items():
        topic = topics[row] = Topic(platform, f"held_{row}", windows=2).make()
        with topic.logger() as other:
            topic.log_window(other, topic.windows[0], 5)
        command = program(topic, work, window=1, lateness_ms=lateness_ms)
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=platform.environment, text=True, start_new_session=True
        )
        assert child.stdout is not None
        assert child.stdout.readline().strip()
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(30)

    def told() -> bool:
        for row, topic in topics.items():
            found = {start: window["verdict"] for start, window in platform.windows(topic.name).items() if start in topic.windows}
            assert found == {topic.windows[0]: "COMPLETE", topic.windows[1]: "UNKNOWN"}, (row, found)
        return True

    eventually(told, within_ms=60_000, every_ms=500, what="exactly the held windows UNKNOWN")
    for topic in topics.values():
        assert len(topic.live()) == 5, "another client agrees: the others were lost with their processes"
