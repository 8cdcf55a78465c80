"""The WSGI middleware, under the standard library's own checker of PEP 3333 (`wsgiref.validate`)."""

from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

from headrace.runtime.clock import ManualClock
from headrace.sdk import ACCESS_LOG_SCHEMA, AuditedWsgiRequests
from tests.unit.sdk.adapters.kept import KeptEvents

HEADERS = [("Content-Type", "text/plain")]


def _hello(environ: Any, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", HEADERS)
    return [b"hel", b"lo"]


def _lazy(environ: Any, start_response: Any) -> Iterator[bytes]:
    start_response("201 Created", HEADERS)
    yield b"12345"
    yield b"67"


def _writes(environ: Any, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", HEADERS)(b"written ")
    return [b"and returned"]


def _fails(environ: Any, start_response: Any) -> Iterable[bytes]:
    raise RuntimeError("the application's own fault")


def _fails_late(environ: Any, start_response: Any) -> Iterator[bytes]:
    start_response("200 OK", HEADERS)
    yield b"some"
    raise RuntimeError("the application's own fault")


def _logger(error: Exception | None = None) -> KeptEvents:
    return KeptEvents(ACCESS_LOG_SCHEMA, "access_log", error)


def _environ(**changes: Any) -> dict[str, Any]:
    environ: dict[str, Any] = {
        "wsgi.input": BytesIO(),
        "SCRIPT_NAME": "",
        "PATH_INFO": "/",
        "QUERY_STRING": "",
        "REMOTE_ADDR": "203.0.113.9",
        **changes,
    }
    setup_testing_defaults(environ)
    environ["SERVER_PROTOCOL"] = "HTTP/1.1"
    return environ


def _serve(app: Callable[..., Iterable[bytes]], logger: KeptEvents, take: int | None = None, **changes: Any) -> bytes:
    """Serve a request as a server does: take the parts (`take` of them, if the client goes away then), close the response."""
    audited = AuditedWsgiRequests(validator(app), logger, skip_paths=["/healthz"], clock=ManualClock(123_456))  # type: ignore[arg-type]
    sent: list[bytes] = []
    response = validator(audited)(_environ(**changes), lambda status, headers, exc_info=None: sent.append)  # type: ignore[arg-type]
    try:
        for part in response:
            sent.append(part)
            if take is not None and len(sent) >= take:
                break
    finally:
        response.close()  # type: ignore[attr-defined]
    return b"".join(sent)


def test_a_request_is_one_event_with_all_that_an_access_log_says() -> None:
    logger = _logger()
    words = {"HTTP_REFERER": "http://other/", "HTTP_USER_AGENT": "test/1", "REMOTE_USER": "ann"}
    assert _serve(_hello, logger, PATH_INFO="/caf\xc3\xa9", QUERY_STRING="a=1&b=%20", **words) == b"hello"
    assert logger.events == [
        {
            "event_time": 123_456,
            "client_ip": "203.0.113.9",
            "ident": None,
            "user": "ann",
            "method": "GET",
            "path": "/caf%C3%A9?a=1&b=%20",
            "protocol": "HTTP/1.1",
            "status": 200,
            "size_bytes": 5,
            "referrer": "http://other/",
            "user_agent": "test/1",
        }
    ]


def test_the_target_is_as_the_client_sent_it_where_the_server_tells_it() -> None:
    logger = _logger()
    _serve(_hello, logger, PATH_INFO="/a b", RAW_URI="/a%20b?x")
    _serve(_hello, logger, SCRIPT_NAME="/shop", PATH_INFO="/a b")
    assert [event["path"] for event in logger.events] == ["/a%20b?x", "/shop/a%20b"]


@pytest.mark.parametrize(("app", "status", "size"), [(_lazy, 201, 7), (_writes, 200, 20)])
def test_what_is_sent_is_counted_whole_however_it_is_sent(app: Any, status: int, size: int) -> None:
    logger = _logger()
    assert len(_serve(app, logger)) == size
    assert [(event["status"], event["size_bytes"]) for event in logger.events] == [(status, size)]


def test_a_client_that_went_away_is_an_event_with_what_went_out() -> None:
    logger = _logger()
    _serve(_lazy, logger, take=1)
    _serve(_lazy, logger, take=0)
    assert [(event["status"], event["size_bytes"]) for event in logger.events] == [(201, 5), (201, 5)]


def test_a_response_that_was_never_begun_is_499() -> None:
    logger = _logger()
    audited = AuditedWsgiRequests(_lazy, logger, clock=ManualClock(1))  # type: ignore[arg-type]
    audited(_environ(), lambda status, headers: [].append).close()  # type: ignore[attr-defined]
    assert [(event["status"], event["size_bytes"]) for event in logger.events] == [(499, 0)]


@pytest.mark.parametrize(("app", "status"), [(_fails, 500), (_fails_late, 200)])
def test_a_failing_application_is_one_event_and_still_fails(app: Any, status: int) -> None:
    logger = _logger()
    with pytest.raises(RuntimeError, match="the application's own fault"):
        _serve(app, logger)
    assert [event["status"] for event in logger.events] == [status]


def test_health_probes_are_no_events() -> None:
    logger = _logger()
    assert _serve(_hello, logger, PATH_INFO="/healthz") == b"hello"
    assert logger.events == []


@pytest.mark.parametrize("error", [RuntimeError("any"), MemoryError()])
def test_logging_that_fails_never_fails_the_request(error: Exception) -> None:
    assert _serve(_hello, _logger(error)) == b"hello"
