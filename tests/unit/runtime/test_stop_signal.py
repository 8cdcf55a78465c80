"""A stop may be asked for at any moment, also in the middle of the wait for it."""

import subprocess
import sys
import threading

from headrace.runtime.lifecycle import StopSignal

SIGNALS_AT_ANY_MOMENT = """
import random, signal
from headrace.runtime.lifecycle import StopSignal

draw = random.Random(1)
for _ in range(20_000):
    stop = StopSignal()
    signal.signal(signal.SIGALRM, stop._on_signal)
    signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-6, 4e-4))
    while not stop.wait(0.01):
        pass
print("stopped 20000 times")
"""


def test_a_signal_at_any_moment_of_the_wait_ends_it() -> None:
    """Fault: a supervisor that was asked to stop while it took the lock of its own wait never stopped."""
    done = subprocess.run([sys.executable, "-c", SIGNALS_AT_ANY_MOMENT], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "stopped 20000 times\n"), done.stderr


def test_every_thread_that_waits_is_woken() -> None:
    stop = StopSignal()
    woken: list[bool] = []
    threads = [threading.Thread(target=lambda: woken.append(stop.wait(60_000))) for _ in range(8)]
    for thread in threads:
        thread.start()
    stop.set()
    stop.set()
    for thread in threads:
        thread.join(timeout=30)
    assert woken == [True] * 8
    assert stop.is_set()
    assert stop.wait(60_000)


def test_a_wait_without_a_stop_ends_in_time() -> None:
    stop = StopSignal()
    assert not stop.wait(1)
    assert not stop.wait(0)
    assert not stop.is_set()
