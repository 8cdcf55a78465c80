"""A logger in the children of a fork: it continues as a run of its own, and what the parent holds stays the parent's."""

import multiprocessing
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from headrace.client.connection.cluster import Cluster
from headrace.sdk import EventLogger
from headrace.sdk.journal import START, open_journals
from tests.support.processes import eventually, free_port
from tests.support.scripted_broker import ScriptedBroker
from tests.unit.sdk.logged import SCHEMA, Make, direct, events_of, reports_of
from tests.unit.sdk.scripted_registry import ScriptedRegistry


def in_child(work: Callable[[], None]) -> None:
    """Return once a forked child has done the work; it must not fail."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def pages(broker: ScriptedBroker) -> Counter[str]:
    return Counter(event["page"] for _, event in events_of(broker))


def log_and_close(logger: EventLogger, page: str) -> None:
    assert logger.log({"page": page}, event_time_ms=1)
    logger.close()


def test_parent_and_child_send_what_each_has_logged_and_nothing_twice(broker: ScriptedBroker, make: Make) -> None:
    logger = make(linger_ms=60_000, instance="web-1/shop/parent")
    assert logger.log({"page": "parent, before"}, event_time_ms=1)
    in_child(lambda: log_and_close(logger, "child"))
    assert pages(broker) == {"child": 1}
    assert logger.log({"page": "parent, after"}, event_time_ms=1)
    logger.close()
    assert pages(broker) == {"parent, before": 1, "child": 1, "parent, after": 1}
    by_instance = {report.instance: report for report in reports_of(broker)}
    assert len(by_instance) == 2
    assert "web-1/shop/parent" in by_instance
    assert {report.state for report in by_instance.values()} == {"closed"}
    ids = [set(report.producer_ids) for report in by_instance.values()]
    assert not ids[0] & ids[1], "the child has producer ids of its own"
    assert logger.ledger().acknowledged == 2


def test_a_child_that_logs_nothing_opens_nothing_and_leaves_the_parents_connections_alone(
    broker: ScriptedBroker, make: Make
) -> None:
    logger = make()
    logger.log({"page": "/"}, event_time_ms=1)
    logger.flush()
    held = [one for one in direct(logger)._cluster._connections.values() if one.fileno() >= 0]
    assert held

    def look() -> None:
        assert threading.active_count() == 1
        logger.close()
        assert threading.active_count() == 1
        assert all(one.fileno() < 0 for one in held), "inherited descriptors are closed in the child"

    requests = len(reports_of(broker))
    in_child(look)
    eventually(lambda: len(reports_of(broker)) > requests, what="the parent reports on")
    logger.log({"page": "/"}, event_time_ms=1)
    logger.close()
    assert len({report.instance for report in reports_of(broker)}) == 1
    assert pages(broker) == {"/": 2}


def test_a_closed_logger_stays_closed_in_a_child(make: Make) -> None:
    logger = make()
    logger.close()
    try:
        in_child(lambda: log_and_close(logger, "/"))
    except AssertionError:
        return
    raise AssertionError("the child logged with a logger that was closed")


def test_forks_while_other_threads_log_lose_and_double_nothing(broker: ScriptedBroker, make: Make) -> None:
    logger = make(batch_bytes=2_000)
    stop = threading.Event()
    logged = [0, 0]

    def log_on(thread: int) -> None:
        while not stop.is_set():
            assert logger.log({"page": f"parent {thread} {logged[thread]}"}, event_time_ms=1)
            logged[thread] += 1
            if logged[thread] % 50 == 0:
                time.sleep(0.001)

    def log_in_child(child: int) -> None:
        for number in range(20):
            assert logger.log({"page": f"child {child} {number}"}, event_time_ms=1)
        logger.close()

    threads = [threading.Thread(target=log_on, args=(thread,)) for thread in range(2)]
    for thread in threads:
        thread.start()
    try:
        for child in range(5):
            goal = sum(logged) + 100
            eventually(lambda goal=goal: sum(logged) > goal)  # type: ignore[misc]
            in_child(lambda child=child: log_in_child(child))  # type: ignore[misc]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    logger.close()
    wanted = {f"parent {thread} {number}" for thread in range(2) for number in range(logged[thread])}
    wanted |= {f"child {child} {number}" for child in range(5) for number in range(20)}
    assert pages(broker) == Counter(wanted)
    assert Counter(report.state for report in reports_of(broker))["closed"] == 6


def test_a_child_of_multiprocessing_is_flushed_and_sealed_at_its_end_though_atexit_does_not_run(
    broker: ScriptedBroker, make: Make
) -> None:
    logger = make()
    logger.log({"page": "parent"}, event_time_ms=1)

    def work() -> None:
        assert logger.log({"page": "child"}, event_time_ms=1)

    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert pages(broker)["child"] == 1
    logger.close()
    assert pages(broker) == {"parent": 1, "child": 1}
    assert Counter(report.state for report in reports_of(broker))["closed"] == 2


def test_a_fork_before_the_logger_is_up(broker: ScriptedBroker, make: Make) -> None:
    port = free_port()
    logger = make(registry_url=f"http://127.0.0.1:{port}", start_timeout_ms=10)
    assert logger.log({"page": "parent"}, event_time_ms=1)
    registry: list[ScriptedRegistry] = []
    coming = threading.Timer(0.3, lambda: registry.append(ScriptedRegistry(port)))
    coming.start()
    in_child(lambda: log_and_close(logger, "child"))
    coming.join()
    logger.close()
    registry[0].close()
    assert pages(broker) == {"parent": 1, "child": 1}


def test_a_child_of_a_child_goes_on_too(broker: ScriptedBroker, make: Make) -> None:
    logger = make()

    def fork_again() -> None:
        assert logger.log({"page": "child"}, event_time_ms=1)
        in_child(lambda: log_and_close(logger, "grandchild"))
        logger.close()

    in_child(fork_again)
    logger.close()
    assert pages(broker) == {"child": 1, "grandchild": 1}
    assert len({report.instance for report in reports_of(broker)}) == 3


def test_a_child_takes_no_lock_that_a_thread_of_the_parent_held(broker: ScriptedBroker, make: Make) -> None:
    logger = make()
    transport = direct(logger)
    is_held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with transport._producer.mutex, transport._side.mutex, transport._cluster._lock, transport._counting:
            is_held.set()
            let_go.wait(60)

    holding = threading.Thread(target=hold)
    holding.start()
    is_held.wait()
    try:
        in_child(lambda: log_and_close(logger, "child"))
    finally:
        let_go.set()
        holding.join()
    assert pages(broker) == {"child": 1}


def test_letting_go_of_a_connection_does_not_end_it_for_the_parent(broker: ScriptedBroker) -> None:
    cluster = Cluster(broker.address)
    cluster.topics()
    in_child(cluster.let_go)
    accepted = len(broker.connections)
    assert cluster.topics()
    assert len(broker.connections) == accepted, "the same connection"
    cluster.close()


def test_a_child_of_a_process_with_a_journal_makes_a_journal_of_its_own(tmp_path: Path) -> None:
    logger = EventLogger("clicks", SCHEMA, application="shop", journal=tmp_path)
    assert logger.log({"page": "parent"}, event_time_ms=1)
    in_child(lambda: log_and_close(logger, "child"))
    assert logger.log({"page": "parent"}, event_time_ms=1)
    logger.close()
    journals, _ = open_journals(tmp_path)
    counts = {journal.head.instance: len(journal.read(START, 1 << 20).records) for journal in journals}
    assert sorted(counts.values()) == [1, 2]
    assert counts[logger.instance] == 2
