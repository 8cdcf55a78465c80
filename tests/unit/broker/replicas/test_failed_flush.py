"""That a flush has failed is noted in the folder, and tried again until it is."""

from collections.abc import Callable
from types import SimpleNamespace

from headrace.broker.replicas import replicas
from headrace.broker.replicas.replicas import Replicas
from headrace.runtime.logs import get_logger
from headrace.runtime.rate_limited_log import RateLimitedLog


def test_a_failed_flush_is_noted_again_until_that_succeeds_or_the_broker_stops() -> None:
    fates, due, noted = ["full", "fails", "lands", "full"], list[tuple[int, Callable[[], None]]](), list[str]()

    def submit(job: Callable[[], None], done: Callable[[None], None], failed: Callable[[Exception], None]) -> bool:
        fate = fates.pop(0)
        if fate == "lands":
            job()
            done(None)
        elif fate == "fails":
            failed(OSError("the disk is broken"))
        return fate != "full"

    here = object.__new__(Replicas)
    here._loop = SimpleNamespace(now_ms=10, call_at=lambda at_ms, call: due.append((at_ms, call)))
    here._threads = SimpleNamespace(notes=SimpleNamespace(submit=submit))
    here._lives = SimpleNamespace(flush_failed=lambda: noted.append("noted"))
    here._faults, here._is_running = RateLimitedLog(get_logger(__name__), lambda: 10), True
    here.flush_has_failed()
    while due:
        at_ms, call = due.pop()
        assert at_ms == 10 + replicas.NOTE_AGAIN_MS
        call()
    assert (noted, fates) == (["noted"], ["full"])
    here._is_running = False
    here.flush_has_failed()
    assert due == []
