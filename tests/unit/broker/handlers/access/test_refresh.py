"""Rules that cannot be read are read again, so that a withdrawn right does not stay until the next change."""

from collections.abc import Callable, Sequence

from headrace.broker.handlers.access.control import READ_AGAIN_MS, AccessControl
from headrace.broker.handlers.access.trail import Trail
from headrace.broker.metrics import BrokerMetrics
from headrace.broker.rights.rule import Operation, Resource
from tests.unit.broker.hand_worker import HandWorker

from .test_trail import NOW_MS, HandTimer

DENY = ("TOPIC", "LITERAL", "clicks", "User:a", "*", "READ", "DENY")
ALLOW = ("TOPIC", "LITERAL", "clicks", "User:a", "*", "READ", "ALLOW")


class Store:
    def __init__(self) -> None:
        self.rows: Sequence[Sequence[str]] = [ALLOW]
        self.failures = 0

    def read(self) -> Sequence[Sequence[str]]:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("ZooKeeper is away")
        return self.rows

    def change(self, change: Callable[[Sequence[Sequence[str]]], Sequence[Sequence[str]]]) -> Sequence[Sequence[str]]:
        self.rows = change(self.rows)
        return self.rows


def test_a_right_is_withdrawn_though_the_first_readings_of_the_change_failed() -> None:
    store, worker, metrics, timer = Store(), HandWorker(), BrokerMetrics(), HandTimer()
    later = list[tuple[int, Callable[[], None]]]()
    access = AccessControl(
        store,
        worker,
        Trail(timer, lambda: NOW_MS, metrics, lambda events: None),
        metrics,
        lambda after_ms, call: later.append((after_ms, call)),
        api_names={},
        super_users=(),
        allow_if_no_rule=False,
    )
    access.load()

    def may_read() -> bool:
        return access.authorizer.allows("User:a", "10.0.0.1", Operation.READ, Resource.TOPIC, "clicks")

    assert may_read()
    store.rows, store.failures = [ALLOW, DENY], 3
    access.refresh()
    access.refresh()
    while worker.jobs:
        worker.run_one()
    assert may_read()
    while later:
        ((after_ms, call),) = later
        assert after_ms == READ_AGAIN_MS, "one call, however many readings failed"
        later.clear()
        call()
        worker.run_one()
    assert not may_read()
    assert store.failures == 0
