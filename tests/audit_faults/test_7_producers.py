"""Producers that restart, fork, die, share a name, or are retired by a person; a replay that is killed."""

import subprocess
import sys
import time
from dataclasses import replace

import pytest

from headrace.runtime.clock import SystemClock
from headrace.runtime.layout import AUDIT_TOPIC
from tests.support.librdkafka import read_all
from tests.support.platform import Platform
from tests.support.processes import eventually

from .applications import Application, killed, program
from .attacks import RUNNING, Attack, Outcome, Stopped, Story, Truth, chosen, complete, play, unknown
from .conftest import CATTLE, RETIRED_AFTER_S
from .topics import WITHIN_S, Topic, W, in_window


@pytest.mark.situation(
    "producers", "a reporter is restarted under its name", shown="nothing: the runs add up", when="at the seals", do="nothing"
)
def test_a_producer_that_restarts_under_its_name_adds_up(platform: Platform) -> None:
    topic = Topic(platform, "restarted", windows=1).make()
    for _ in range(2):
        with topic.logger(instance="www1/shop/7") as logger:
            topic.log_window(logger, topic.windows[0], 5)
        time.sleep(0.002)  # a run is told from the next one by the millisecond in which it began
    window = platform.await_complete(topic.name)[topic.windows[0]]
    assert set(window["tiers"].values()) == {10}


@pytest.mark.situation(
    "producers",
    "two reporters have one name at once",
    shown="not COMPLETE before both have sealed; then they add up",
    when="at the seals",
    do="give each its own name",
)
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


@pytest.mark.situation(
    "producers",
    "a reporter is killed, then an operator retires it",
    shown="UNKNOWN, named; then ACCEPTED, by whom and why, never COMPLETE",
    when="its deadline; at once after `retire-producer`",
    do="`headrace audit retire-producer`",
)
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


@pytest.mark.situation(
    "producers",
    "a process forks with a logger open",
    shown="the child reports as a run of its own from its first event on",
    when="at once",
    do="nothing",
)
def test_a_process_that_forked_with_its_logger_open_adds_up_with_its_child(platform: Platform) -> None:
    topic = Topic(platform, "forked", windows=1).make()
    work = "log(3)\nchild = os.fork()\nlog(5)\nif child: os.waitpid(child, 0)\nsys.exit(0)"
    subprocess.run(program(topic, work), env=platform.environment, check=True, timeout=60)
    window = platform.await_complete(topic.name)[topic.windows[0]]
    assert set(window["tiers"].values()) == {13}
    assert len(topic.live()) == 13, "another client agrees"


def killed_replay(topic: Topic) -> Truth:
    """Issue: a killed replay of one event of another day made every window of the topic UNKNOWN."""
    topic.make()
    work = "log(5)\nlogger.flush()\nlog(1)\nsay()"
    replay = Application(topic, program(topic, work, window=1, between=(topic.windows[1], topic.windows[2])))
    replay.kill()
    topic.log(5)
    return replace(held(topic, replay, stored=10), others="COMPLETE")


def held(topic: Topic, application: Application, *, stored: int = 0) -> Truth:
    """Return what must be said of an application that died over window 1, of which so many records are stored."""
    there = in_window(topic.live(), topic.windows[1])
    assert len(there) == stored, "another client agrees: the rest was lost with its process"
    more = {"tiers": {"live": stored}} if stored else {}
    # Windows ahead were asked for, too, and are held with it.
    told = {topic.windows[0]: complete(5), topic.windows[1]: unknown(application.name, **more)}
    return Truth(topic, told, others=None)


def of_others(topic: Topic) -> Topic:
    """Another application logs to window 0, and closes."""
    topic.make()
    with topic.logger() as other:
        topic.log_window(other, topic.windows[0], 5)
    return topic


def in_memory(topic: Topic) -> Truth:
    return held(of_others(topic), killed(topic, "log(6)\nsay()"))


def late(topic: Topic) -> Truth:
    """Events of a window that is over for longer than the application's lateness: it had sealed it."""
    return held(of_others(topic), killed(topic, "log(6)\nsay()", lateness_ms=60_000))


def forked(topic: Topic) -> Truth:
    """The child is killed at its first event. The parent is killed with it, and holds nothing."""
    work = "child = os.fork()\nif not child:\n    log(6)\n    say()\nos.waitpid(child, 0)"
    return held(of_others(topic), killed(topic, work))


def frozen(topic: Topic) -> Truth:
    """Frozen past the deadline, then killed: four events were sent before, six were in memory."""
    application = Application(of_others(topic), program(topic, "log(4)\nlogger.flush()\nlog(6)\nsay()", window=1))
    application.freeze()
    try:
        Truth(topic, {topic.windows[1]: unknown(application.name)}, others=None).wait("an application that is frozen")
    finally:
        application.kill()
    return held(topic, application, stored=4)


def wrong_clock(topic: Topic) -> Truth:
    """The host's clock goes two days ahead and back. The application takes nine more events of now, and is killed."""
    work = "log(5, clock.now_ms())\nlogger.flush()\nclock.set_ms = 172_800_000\nsay()\nclock.set_ms = 0\n"
    work += "now = clock.now_ms()\nlog(9, now)\nsay(now)"
    application = Application(of_others(topic), program(topic, work, window=1, lateness_ms=60_000))

    def has_reported_ahead() -> bool:
        """Whether the audit topic has a report of its, sent a day ahead or more."""
        ahead_ms = SystemClock().now_ms() + 86_400_000
        reports = read_all(topic.platform.layout.live_bootstrap, AUDIT_TOPIC)
        return any(one.timestamp()[1] > ahead_ms and application.said[0].encode() in one.value() for one in reports)

    eventually(has_reported_ahead, within_ms=60_000, what="a report of an application whose clock is wrong")
    application.continue_()
    application.kill()
    at_ms = int(application.said[1])
    assert len(topic.live()) == 10
    start = at_ms - at_ms % W
    return Truth(topic, {start: unknown(application.name), topic.windows[0]: complete(5)}, others=None)


def pool(topic: Topic) -> Truth:
    """Tasks of a pool log, and the pool ends its processes by SIGTERM: each has closed its logger."""
    topic.make()
    work = "import multiprocessing\ndef task(number):\n    log(10)\n    return 10\n"
    work += "with multiprocessing.get_context('fork').Pool(3) as tasks:\n    count = sum(tasks.map(task, range(30)))\n"
    work += "tasks.join()\nlogger.close()\nprint(count)"
    done = subprocess.run(
        program(topic, work, window=1), env=topic.platform.environment, stdout=subprocess.PIPE, text=True, check=True, timeout=120
    )
    assert int(done.stdout.split()[-1]) == len(topic.live()) == 300
    return Truth(topic, {topic.windows[1]: complete(300)})


def cattle(topic: Topic) -> Truth:
    """A rule retires dead runs of this application: ACCEPTED in the windows that it held, by the rule's words."""
    application = Application(of_others(topic), program(topic, "log(6)\nsay()", window=1, application=CATTLE))
    application.kill()
    told = held(topic, application)
    told.wait("an application that a rule retires, before it does")
    accepted = {topic.windows[0]: complete(5), topic.windows[1]: {"verdict": "ACCEPTED"}}
    return replace(told, windows=accepted, within_s=WITHIN_S + RETIRED_AFTER_S)


ATTACKS: dict[str, Attack] = {
    "killed_replay": killed_replay,
    "in_memory": in_memory,
    "late_events": late,
    "forked_child": forked,
    "frozen": frozen,
    "wrong_clock": wrong_clock,
    "pool": pool,
    "cattle": cattle,
}


@pytest.fixture(scope="module")
def played(platform: Platform, request: pytest.FixtureRequest) -> dict[str, Outcome]:
    return play(platform, chosen(request, ATTACKS))


@pytest.mark.situation(
    "producers",
    "a `multiprocessing` pool logs and ends by SIGTERM",
    shown="nothing: each process closes its logger",
    when="at the seals",
    do="nothing",
    case="pool",
)
@pytest.mark.situation(
    "producers",
    "an application is killed with events in memory",
    shown="UNKNOWN in just these windows",
    when="its deadline",
    do="`retire-producer`, or a rule `[[retire]]`",
    case="in_memory",
)
@pytest.mark.situation("producers", "an application is killed with events in memory", case="late_events")
@pytest.mark.situation("producers", "an application is killed with events in memory", case="forked_child")
@pytest.mark.situation(
    "producers",
    "a host's clock jumps and its application is killed",
    shown="UNKNOWN where it took events",
    when="its deadline",
    do="`retire-producer`",
    case="wrong_clock",
)
@pytest.mark.situation(
    "producers",
    "an application is frozen for hours, continues and is killed",
    shown="UNKNOWN in the windows that it held then",
    when="its deadline",
    do="`retire-producer`",
    case="frozen",
)
@pytest.mark.situation(
    "producers",
    "a replay of another day is killed",
    shown="UNKNOWN in the windows that it held only",
    when="its deadline",
    do="`retire-producer`",
    case="killed_replay",
)
@pytest.mark.situation(
    "producers",
    "an application is killed by `kill -9`, and a rule `[[retire]]` names it",
    shown="UNKNOWN, then ACCEPTED, in the windows that it held",
    when="its deadline; the rule's `after_ms`",
    do="nothing",
    case="cattle",
)
@pytest.mark.parametrize("name", ATTACKS)
def test_windows_that_dead_applications_held_are_unknown_and_the_others_complete(played: dict[str, Outcome], name: str) -> None:
    """Faults: COMPLETE over what an application still had in memory, over late events, over a child killed after `log()`, after a
    freeze, behind a clock that had jumped.
    """
    played[name].await_told()


def killed_in_outage(topic: Topic) -> Story:
    """The audit topic is away when the application dies: nobody knows what it took meanwhile, of any window."""
    application = Application(of_others(topic), program(topic, "log(4)\nlogger.flush()\nsay()", window=1))
    Truth(topic, {topic.windows[1]: {"tiers": {"live": 4}}}, others=None).wait("an application that is heard, before an outage")
    yield Stopped("broker-live")
    application.kill()
    yield RUNNING
    assert len(in_window(topic.live(), topic.windows[1])) == 4
    told = {start: unknown(application.name, tiers={"live": count}) for start, count in zip(topic.windows, (5, 4), strict=False)}
    return Truth(topic, told, others=None)


@pytest.mark.situation("producers", "an application is killed while the audit topic is away")
def test_an_application_killed_while_the_audit_topic_is_away_makes_all_windows_unknown_that_it_had_not_moved_past(
    platform: Platform,
) -> None:
    """The last one: a run of the others that had died before the outage might be taken for one that died in it."""
    name = "killed_in_outage"
    play(platform, {name: killed_in_outage})[name].await_told()
