"""Python's logging as events: the whole record, whatever its arguments, and never a loop, a wait or an error."""

import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.sdk import LOG_RECORD_SCHEMA, EventHandler
from headrace.sdk.adapters import log_records
from tests.unit.sdk.adapters.kept import KeptEvents


@pytest.fixture
def kept() -> KeptEvents:
    return KeptEvents(LOG_RECORD_SCHEMA, "log_records")


@pytest.fixture
def shop(kept: KeptEvents) -> Iterator[logging.Logger]:
    """The application's logger; the handler is at the root, where it meets everything."""
    handler = EventHandler(kept)  # type: ignore[arg-type]
    root, logger = logging.getLogger(), logging.getLogger("shop.orders")
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield logger
    root.removeHandler(handler)
    root.setLevel(level)
    handler.close()


def _fail() -> None:
    raise LookupError("no such order")


def test_a_record_is_one_event_with_all_that_it_says(kept: KeptEvents, shop: logging.Logger) -> None:
    shop.warning("order %d of %s", 7, "ann", extra={"order": 7, "path": "/ö"})
    (event,) = kept.events
    assert abs(event.pop("event_time") - _now_ms()) < 60_000
    assert event.pop("file").endswith("test_log_records.py")
    assert event.pop("line") > 0
    assert event.pop("process") > 0
    assert event == {
        "level": "WARNING",
        "level_number": 30,
        "logger": "shop.orders",
        "message": "order 7 of ann",
        "exception": None,
        "function": "test_a_record_is_one_event_with_all_that_it_says",
        "thread": "MainThread",
        "extra": {"order": "7", "path": "/ö"},
    }


def test_an_exception_is_its_traceback(kept: KeptEvents, shop: logging.Logger) -> None:
    try:
        _fail()
    except LookupError:
        shop.exception("failed", stack_info=True)
    shop.error("no exception", exc_info=True)
    text = kept.events[0]["exception"]
    assert text.startswith("Traceback (most recent call last):")
    assert "in _fail" in text
    assert "LookupError: no such order" in text
    assert "Stack (most recent call last):" in text
    assert kept.events[1]["exception"] is None


class _Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("message", "arguments", "told"),
    [
        ("%d apples", ("many",), "%d apples ('many',)"),
        ("%s and %s", (1,), "%s and %s (1,)"),
        (_Unprintable(), (), "<_Unprintable> ()"),
        ("%s", (_Unprintable(),), "%s <tuple>"),
        ("half a pair \ud800", (), "half a pair \\ud800"),
        ("ö" * 40_000, (), "ö" * 32_768 + "… (7232 more characters)"),
        ({"a": 1}, (), "{'a': 1}"),
    ],
    ids=["type", "count", "message", "argument", "surrogate", "long", "object"],
)
def test_whatever_is_logged_is_an_event(kept: KeptEvents, message: Any, arguments: tuple[Any, ...], told: str) -> None:
    alone = logging.Logger("alone")  # pytest's own handlers raise for such records
    alone.addHandler(EventHandler(kept))  # type: ignore[arg-type]
    alone.info(message, *arguments)
    assert [event["message"] for event in kept.events] == [told]


def test_extra_fields_are_bounded_and_always_strings(kept: KeptEvents, shop: logging.Logger) -> None:
    shop.info("many", extra={"bad": _Unprintable(), "none": None, **{f"field_{number}": number for number in range(100)}})
    extra = kept.events[0]["extra"]
    assert len(extra) == log_records.MOST_EXTRA
    assert (extra["bad"], extra["none"], extra["field_0"]) == ("<_Unprintable>", "None", "0")


def test_what_the_sdk_logs_itself_is_no_event(kept: KeptEvents, shop: logging.Logger) -> None:
    for own in ("headrace", "headrace.sdk.event_logger", "headrace.client.producer.sender", "headrace.schema_registry.client"):
        logging.getLogger(own).error("own")
    sending = threading.Thread(target=lambda: shop.error("a library, called by a thread of ours"), name="headrace-shop-sender")
    sending.start()
    sending.join()
    assert kept.events == []
    logging.getLogger("headracecourse").error("another's")
    assert [event["logger"] for event in kept.events] == ["headracecourse"]


def test_a_logger_that_logs_while_it_logs_does_not_loop(shop: logging.Logger, kept: KeptEvents) -> None:
    """Names the loop: an event that is refused is logged, becomes an event, is refused, is logged."""
    taken = kept.log

    def log_and_complain(event: Any, **words: Any) -> bool:
        logging.getLogger("a.library.of.ours").error("while it logs")
        return taken(event, **words)

    kept.log = log_and_complain  # type: ignore[method-assign]
    shop.info("one")
    shop.info("two")
    assert [event["message"] for event in kept.events] == ["one", "two"]


@pytest.mark.parametrize("error", [RuntimeError("any"), RecursionError(), MemoryError()])
def test_logging_that_fails_fails_nothing_and_says_so_once(
    kept: KeptEvents, shop: logging.Logger, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    kept.error = error
    for _ in range(3):
        shop.info("lost")
    told = [record.getMessage() for record in caplog.records if record.name.startswith("headrace.")]
    assert len(told) == 1
    assert told[0].startswith(f"record_not_logged topic=log_records reason={str(error) or repr(error)}")


def test_level_and_filters_hold_as_with_any_handler(kept: KeptEvents) -> None:
    handler = EventHandler(kept, level="ERROR")  # type: ignore[arg-type]
    handler.addFilter(lambda record: "secret" not in record.getMessage())
    logger = logging.Logger("alone")
    logger.addHandler(handler)
    logger.warning("below")
    logger.error("a secret")
    logger.error("passes")
    assert [event["message"] for event in kept.events] == ["passes"]


def test_a_record_of_another_process_or_library_with_gaps_fits_too(kept: KeptEvents, shop: logging.Logger) -> None:
    shop.handle(logging.makeLogRecord({"name": "other", "msg": "bare", "levelno": 20, "levelname": "INFO"}))
    assert (kept.events[0]["message"], kept.events[0]["process"] >= 0) == ("bare", True)


def test_no_lock_is_held_while_an_event_is_taken(kept: KeptEvents, shop: logging.Logger) -> None:
    """A thread that waits for room must not keep the others from logging."""
    inside, may_go = threading.Event(), threading.Event()
    taken = kept.log

    def log_slowly(event: Any, **words: Any) -> bool:
        if event["message"] == "slow":
            inside.set()
            assert may_go.wait(20)
        return taken(event, **words)

    kept.log = log_slowly  # type: ignore[method-assign]
    slow = threading.Thread(target=shop.info, args=("slow",))
    slow.start()
    try:
        assert inside.wait(20)
        shop.info("fast")
        assert [event["message"] for event in kept.events] == ["fast"]
    finally:
        may_go.set()
        slow.join()


def _now_ms() -> int:
    return int(logging.makeLogRecord({}).created * 1000)


def test_standard_attributes_are_no_extra_fields() -> None:
    assert log_records.log_event(logging.LogRecord("n", 20, "p", 1, "m", None, sys.exc_info()))["extra"] == {}
