"""Loggers at the end of their process, and what importing the SDK does: nothing."""

import json
import re
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.support.scripted_broker import ScriptedBroker
from tests.unit.sdk.logged import events_of, reports_of
from tests.unit.sdk.scripted_registry import ScriptedRegistry

IMPORT = """
import os, sys, threading
seen = []
import signal, atexit, weakref, logging, random, gc
registered = []
atexit.register = lambda *one, **more: registered.append(("atexit", one[0].__module__))
forks = []
os.register_at_fork = lambda **hooks: forks.extend(f"{hook.__module__}" for hook in hooks.values())
watched = ("socket.", "subprocess.", "os.fork", "signal.")
sys.addaudithook(lambda event, args: seen.append(event) if event.startswith(watched) else None)
handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
import headrace.sdk
import headrace.sdk.testing
assert not [name for name in registered + forks if "headrace" in str(name)], (registered, forks)
assert threading.active_count() == 1, threading.enumerate()
assert not [event for event in seen if event not in ("socket.__new__", "socket.gethostname")], seen
assert "socket.__new__" not in seen, seen
assert handlers == {number: signal.getsignal(number) for number in signal.valid_signals()}
assert not logging.getLogger().handlers
assert not logging.getLogger("headrace").handlers
print("nothing")
"""

LOGGER = """
import json, logging, os, signal, sys, threading, time
from headrace.sdk import EventLogger, event_schema
from headrace.sdk.lifetime import close_on_signals
logging.basicConfig(level="INFO", stream=sys.stderr, format="%(message)s")
logger = EventLogger("clicks", event_schema("Click", [{{"name": "page", "type": "string"}}]), bootstrap={bootstrap!r},
    registry_url={registry!r}, application="script", linger_ms=60_000, exit_timeout_ms={exit_timeout_ms})
for number in range(100):
    logger.log({{"page": f"/{{number}}"}}, event_time_ms=number)
logger.log({{"page": 7}}, event_time_ms=1)
"""

AWAIT_THE_END = "signal.sigtimedwait([], 60)"
"""Until a signal's handler ends the process, at most a minute."""

DAEMON = """
def forever(work):
    threading.Thread(target=lambda: [work() for _ in iter(int, 1)], daemon=True).start()
"""


def run(program: str, *, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=timeout, check=False)


def program(broker: ScriptedBroker, registry: ScriptedRegistry, rest: str, exit_timeout_ms: int = 10_000) -> str:
    return LOGGER.format(bootstrap=broker.address, registry=registry.url, exit_timeout_ms=exit_timeout_ms) + rest


def test_importing_the_sdk_does_nothing() -> None:
    done = run(IMPORT)
    assert done.stdout.strip() == "nothing", done.stderr


@pytest.mark.parametrize(
    ("rest", "code"),
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("raise RuntimeError('the application fails')", 1),
        (DAEMON + "forever(lambda: time.sleep(0.01))", 0),
        (DAEMON + "forever(lambda: (logger.log({'page': '/'}, event_time_ms=1), time.sleep(0.0001)))", 0),
    ],
    ids=["end", "sys.exit", "unhandled", "daemon thread", "daemon thread that logs"],
)
def test_at_its_end_a_process_sends_everything_and_tells_it_in_one_line(
    broker: ScriptedBroker, registry: ScriptedRegistry, rest: str, code: int
) -> None:
    done = run(program(broker, registry, rest))
    assert done.returncode == code, done.stderr
    stored = len(events_of(broker))
    assert stored >= 100
    # Not only where a line begins: a thread that dies of LoggerClosed writes its traceback in pieces at the same time.
    (line,) = re.findall("logger_closed .*", done.stderr)
    assert f"taken={stored} acknowledged={stored} journaled=0 quarantined=1 dropped={{}}" in line
    assert reports_of(broker)[-1].state == "closed"
    assert "Fatal Python error" not in done.stderr


def test_an_end_without_a_cluster_is_bounded_and_names_what_is_lost(registry: ScriptedRegistry) -> None:
    broker = ScriptedBroker({"clicks": 1, "clicks.quarantine": 1})
    reached = program(broker, registry, "print('up', flush=True); sys.stdin.read()", exit_timeout_ms=500)
    child = subprocess.Popen(
        [sys.executable, "-c", reached], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "up\n"
    broker.close()
    _, said = child.communicate("", timeout=60)
    (line,) = [line for line in said.splitlines() if line.startswith("logger_closed")]
    assert "taken=0 acknowledged=0" in line
    told = json.loads(line.partition("dropped=")[2].replace("'", '"'))
    # The broker may have taken the one for the quarantine before it went.
    quarantined = int(line.partition("quarantined=")[2].split()[0])
    assert sum(told.values()) + quarantined == 101, line
    assert "ends unsealed" in line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_on_a_signal_loggers_are_closed_and_then_the_signal_does_what_it_did(
    broker: ScriptedBroker, registry: ScriptedRegistry, number: signal.Signals
) -> None:
    as_in_a_terminal = "signal.signal(signal.SIGINT, signal.default_int_handler)"  # a shell's background jobs ignore SIGINT
    rest = f"{as_in_a_terminal}; close_on_signals(); os.kill(os.getpid(), {int(number)}); {AWAIT_THE_END}"
    done = run(program(broker, registry, rest))
    # SIGTERM's default ends the process by the signal; Python's own handler of SIGINT raises KeyboardInterrupt.
    assert done.returncode == -int(number), done.stderr
    assert len(events_of(broker)) == 100
    assert reports_of(broker)[-1].state == "closed"
    assert ("KeyboardInterrupt" in done.stderr) == (number == signal.SIGINT)


def test_a_pool_that_is_terminated_loses_nothing_that_its_children_took(
    broker: ScriptedBroker, registry: ScriptedRegistry
) -> None:
    """Fault: `Pool.map` under `with Pool()` ends in SIGTERM: 1,800 of 2,100 were lost, and the window was COMPLETE."""
    rest = """
import multiprocessing
def work(number):
    return logger.log({"page": f"/child/{number}"}, event_time_ms=1)
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert all(pool.map(work, range(50)))
"""
    done = run(program(broker, registry, rest))
    assert done.returncode == 0, done.stderr
    assert sum(event["page"].startswith("/child/") for _, event in events_of(broker)) == 50
    assert set({report.instance: report.state for report in reports_of(broker)}.values()) == {"closed"}


@pytest.mark.parametrize(("before", "warnings"), [("pass", 1), ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))", 0)])
def test_the_first_logger_warns_once_where_sigterm_would_end_it_unsealed(
    broker: ScriptedBroker, registry: ScriptedRegistry, before: str, warnings: int
) -> None:
    words = program(broker, registry, "").replace("logger = EventLogger(", f"{before}\nlogger = EventLogger(", 1)
    made = words[words.index("logger = EventLogger(") : words.index("for number in")]
    done = run(words + made.replace("logger =", "second ="))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("sigterm_ends_loggers_unsealed") == warnings


def test_the_applications_own_handler_runs_after_the_close(broker: ScriptedBroker, registry: ScriptedRegistry) -> None:
    rest = """
signal.signal(signal.SIGTERM, lambda number, frame: (print("mine", logger.ledger().acknowledged), os._exit(7)))
close_on_signals([signal.SIGTERM])
os.kill(os.getpid(), signal.SIGTERM)
"""
    done = run(program(broker, registry, rest.replace("), os._exit", ", flush=True), os._exit")))
    assert (done.returncode, done.stdout.strip()) == (7, "mine 100"), done.stderr


def test_a_signal_that_interrupts_the_logger_itself_is_handled_when_the_logger_is_done(
    broker: ScriptedBroker, registry: ScriptedRegistry
) -> None:
    rest = """
close_on_signals([signal.SIGTERM])
with logger._transport._producer.mutex:
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(100):
        pass
"""
    done = run(program(broker, registry, rest + AWAIT_THE_END))
    assert done.returncode == -signal.SIGTERM, done.stderr
    assert len(events_of(broker)) == 100


def test_signal_handlers_and_finalizers_that_log_never_deadlock(broker: ScriptedBroker, registry: ScriptedRegistry) -> None:
    rest = """
class Chatty:
    def __init__(self):
        self.me = self
    def __del__(self):
        taken.append(logger.log({"page": "/del"}, event_time_ms=1))
taken = []
def handle(number, frame):
    taken.append(logger.log({"page": "/signal"}, event_time_ms=1))
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
end = time.monotonic() + 2
while time.monotonic() < end:
    taken.append(logger.log({"page": "/main"}, event_time_ms=1))
    Chatty()
signal.setitimer(signal.ITIMER_REAL, 0)
import gc; gc.collect()
logger.close()
print(json.dumps([sum(taken), logger.ledger().acknowledged]))
"""
    done = run(program(broker, registry, rest), timeout=120)
    assert done.returncode == 0, done.stderr
    logged, acknowledged = json.loads(done.stdout)
    pages: list[Any] = [event["page"] for _, event in events_of(broker)]
    assert acknowledged == len(pages) == logged + 100, done.stderr
    assert {"/del", "/signal", "/main"} <= set(pages)
