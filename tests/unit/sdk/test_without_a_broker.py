"""A logger whose cluster is not there, silent, or goes: it starts and ends in its time, raises nothing, and its counts add up."""

import errno
import logging
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.schema_registry.client import IncompatibleSchema
from headrace.sdk import LOG_RECORD_SCHEMA, LOG_RECORD_TOPIC, EventHandler, EventLogger, NotSealed, lifetime
from headrace.sdk.journal import JournalSettings
from headrace.sdk.journal.errors import JournalNotDurable
from headrace.sdk.journal.group_sync import GroupSync
from tests.support.processes import eventually, free_port
from tests.support.scripted_broker import SERVED, Fault, ScriptedBroker
from tests.unit.sdk.logged import SCHEMA, Make, books_of, reports_of
from tests.unit.sdk.scripted_registry import ScriptedRegistry

SLACK_S = 3.0
"""What a busy machine may add to a bound. The shortest time-out that must not be waited for is longer."""
END_MS = 800


class NeverAnswers:
    """A port that takes every call and says nothing."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.close()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds + SLACK_S


@pytest.fixture
def mute() -> Iterator[NeverAnswers]:
    made = NeverAnswers()
    yield made
    made.close()


@pytest.fixture(params=["unreachable", "mute"])
def nowhere(request: pytest.FixtureRequest, mute: NeverAnswers) -> str:
    """The address of no broker: one where nobody listens, and one that never answers."""
    return mute.address if request.param == "mute" else f"127.0.0.1:{free_port()}"


def closed_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for record in caplog.records if (text := record.getMessage()).startswith("logger_closed")]


def log_and_leave(logger: EventLogger) -> None:
    with logger:
        for at in range(7):
            assert logger.log({"page": "/"}, event_time_ms=at)
        assert not logger.log({"page": 1}, event_time_ms=7)


def test_an_application_without_a_cluster_begins_and_ends_in_time_with_one_line_and_no_error(
    nowhere: str, registry: ScriptedRegistry, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """Fault: leaving took 61 s and raised NotSealed; with a broker that accepts and never answers, as long as its requests."""
    with within(0.3):
        logger = make(bootstrap=nowhere, start_timeout_ms=300, exit_timeout_ms=END_MS)
    with within(END_MS / 1000):
        log_and_leave(logger)
    ledger = logger.ledger()
    assert (ledger.taken, ledger.acknowledged, ledger.quarantined) == (0, 0, 0)
    assert dict(ledger.dropped) == {"send_failed": 7, "refused_by_schema": 1}
    assert isinstance(logger.close_error, NotSealed)
    assert [text for text in map(logging.LogRecord.getMessage, caplog.records) if text.startswith("batch_given_up")] == []
    (line,) = closed_lines(caplog)
    assert "ends unsealed" in line
    assert "'send_failed': 7" in line


def test_neither_cluster_nor_registry_is_waited_for_once_it_is_known_to_be_away(make: Make) -> None:
    """Fault: the constructor took its whole time though the address had refused the first call."""
    with within(0):
        logger = make(
            bootstrap=f"127.0.0.1:{free_port()}", registry_url=f"http://127.0.0.1:{free_port()}", start_timeout_ms=60_000
        )
    with within(0):
        make(registry_url=f"http://127.0.0.1:{free_port()}", start_timeout_ms=60_000)
    with within(0):  # nothing is to be sent and no caller waits for the end, so it waits for neither
        logger.close(60_000)
    assert logger.close_error is None


def test_a_schema_that_the_registry_refuses_is_told_by_the_constructor_though_the_cluster_is_away(make: Make) -> None:
    registry = ScriptedRegistry(refusal=(409, {"error_code": 409, "message": "not compatible"}))
    with pytest.raises(IncompatibleSchema, match="not compatible"), within(0):
        make(bootstrap=f"127.0.0.1:{free_port()}", registry_url=registry.url, start_timeout_ms=60_000)
    registry.close()


def test_a_silent_registry_holds_up_neither_end_nor_seal(broker: ScriptedBroker, make: Make, mute: NeverAnswers) -> None:
    with within(0.3):
        logger = make(registry_url=f"http://{mute.address}", start_timeout_ms=300, exit_timeout_ms=2_000)
    eventually(lambda: logger.is_announced, what="the announcement")
    with within(2):
        log_and_leave(logger)
    assert books_of(broker) == {0: (0, {"send_failed": 7, "quarantined": 1})}
    assert reports_of(broker)[-1].state == "closed"


@pytest.mark.parametrize("end", ["closes", "falls silent"])
def test_a_broker_that_goes_while_events_are_under_way_holds_up_no_end(
    end: str, broker: ScriptedBroker, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    logger = make(exit_timeout_ms=END_MS)
    logger.log({"page": "/"}, event_time_ms=1)
    logger.flush()
    if end == "closes":
        broker.close()
    else:
        for api_key in SERVED:
            broker.fail(api_key, *[Fault(delay_ms=60_000)] * 50)
    with within(END_MS / 1000):
        log_and_leave(logger)
    ledger = logger.ledger()
    assert ledger.acknowledged + ledger.quarantined + sum(ledger.dropped.values()) == 9
    assert ledger.under_way == 0
    assert isinstance(logger.close_error, NotSealed)
    assert len(closed_lines(caplog)) == 1


def test_many_loggers_end_within_the_time_of_one(nowhere: str, registry: ScriptedRegistry, make: Make) -> None:
    loggers = [make(bootstrap=nowhere, start_timeout_ms=10, exit_timeout_ms=END_MS) for _ in range(4)]
    for logger in loggers:
        logger.log({"page": "/"}, event_time_ms=1)
    with within(END_MS / 1000):
        lifetime.close_all()
    assert [dict(logger.ledger().dropped) for logger in loggers] == [{"send_failed": 1}] * 4


def test_a_handler_of_pythons_logging_ends_with_its_logger_in_time(registry: ScriptedRegistry, nowhere: str) -> None:
    records = EventLogger(
        LOG_RECORD_TOPIC,
        LOG_RECORD_SCHEMA,
        bootstrap=nowhere,
        registry_url=registry.url,
        application="shop",
        start_timeout_ms=10,
        exit_timeout_ms=END_MS,
    )
    handler = EventHandler(records)
    chatty = logging.Logger("chatty")
    chatty.addHandler(handler)
    chatty.warning("late")
    with within(END_MS / 1000):
        handler.close()
        records.close()
    assert dict(records.ledger().dropped) == {"send_failed": 1}


def test_a_journal_whose_disk_fails_at_the_end_raises_nothing_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logger = EventLogger("clicks", SCHEMA, application="shop", journal=JournalSettings(root=tmp_path, segment_bytes=4096))
    assert logger.log({"page": "/"})

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "the disk fails")

    monkeypatch.setattr(GroupSync, "flush", fail)
    with caplog.at_level(logging.INFO):
        logger.close()
    assert isinstance(logger.close_error, JournalNotDurable)
    (line,) = closed_lines(caplog)
    assert "the disk fails" in line
    assert logger.ledger().journaled == 1


def test_sigterm_ends_a_process_without_a_cluster_in_time(nowhere: str) -> None:
    program = (
        "import sys, time\n"
        "from headrace.sdk import EventLogger, close_on_signals, event_schema\n"
        "logger = EventLogger('clicks', event_schema('Click', []), application='shop', bootstrap=sys.argv[1],\n"
        f"    registry_url='http://' + sys.argv[1], start_timeout_ms=10, exit_timeout_ms={END_MS})\n"
        "logger.log({})\n"
        "close_on_signals()\n"
        "print('ready', flush=True)\n"
        # Short waits: Python looks at a signal that comes right before one only after it.
        "for _ in range(600): time.sleep(0.1)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program, nowhere], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    with within(END_MS / 1000):
        child.send_signal(signal.SIGTERM)
        _, said = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGTERM
    assert "'send_failed': 1" in said
    assert "Traceback" not in said
