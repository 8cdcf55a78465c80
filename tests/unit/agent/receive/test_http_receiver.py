"""HTTP sections on real sockets: 202 only for what is journaled, and a reason for everything else."""

import http.client
import json
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.agent.errors import SettingsRefused
from headrace.agent.receive.receivers import Receivers
from headrace.runtime.clock import SystemClock
from tests.support.certificates import Authority

from .received import Running, settings_of

TOKEN = "0123456789abcdef0123"
NDJSON = "application/x-ndjson"


def section(**words: Any) -> dict[str, Any]:
    fields = {"page": "string", "n": "int"}
    return {"http": [{"topic": "clicks", "listen": "127.0.0.1:0", "fields": fields, "durable": False, **words}]}


def post(
    running: Running, body: bytes, kind: str = "application/json", path: str = "/topics/clicks", **headers: str
) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", running.one.port, timeout=20)
    try:
        connection.request("POST", path, body, {"Content-Type": kind, **headers})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_objects_arrays_and_lines_are_journaled_before_the_answer(tmp_path: Path) -> None:
    with Running(tmp_path, **section(key="page")) as running:
        assert post(running, b'{"page": "/", "n": 1}') == (202, {"accepted": 1})
        assert post(running, b'[{"page": "/a", "n": 2}, {"n": 3}]') == (202, {"accepted": 2})
        assert post(running, b'{"n": 4}\n\n{"n": 5}\r\n', NDJSON) == (202, {"accepted": 2})
        assert [one["n"] for one in running.journaled()] == [1, 2, 3, 4, 5]
        assert running.journaled()[0]["server"] == "host"


def test_a_bad_line_is_named_and_nothing_of_the_request_is_taken(tmp_path: Path) -> None:
    with Running(tmp_path, **section()) as running:
        status, words = post(running, b'{"n": 1}\n{"n": "two"}\n{"n": 3, "m": 1}\nnot json', NDJSON)
        assert (status, words["accepted"]) == (400, 0)
        assert [one["line"] for one in words["faults"]] == [2, 3, 4]
        assert [word in one["reason"] for one, word in zip(words["faults"], ("'n'", "no m", "not JSON"), strict=True)] == [
            True
        ] * 3
        assert post(running, b'{"n": ')[0] == 400
        assert post(running, b'{"n": 1}', "text/plain")[0] == 415
        assert post(running, b'{"n": 1}', path="/topics/other")[0] == 404
        assert running.journaled() == []


def test_bad_events_go_to_quarantine_where_that_is_set(tmp_path: Path) -> None:
    with Running(tmp_path, **section(invalid="quarantine", most_event_bytes=100)) as running:
        body = b'{"n": 1}\nnot json\n' + json.dumps({"page": "x" * 200}).encode() + b"\n"
        status, words = post(running, body, NDJSON)
        assert (status, words["accepted"], words["quarantined"]) == (202, 1, 2)
        assert [one.payload[:8] for one in running.quarantined()] == [b"not json", b'{"page":']
        assert "most_event_bytes" in running.quarantined()[1].reason


def test_a_body_that_is_too_large_or_without_a_length_is_not_read(tmp_path: Path) -> None:
    with Running(tmp_path, **section(most_body_bytes=100)) as running:
        assert post(running, b" " * 101)[0] == 413
        with socket.create_connection(("127.0.0.1", running.one.port)) as one:
            one.sendall(b"POST /topics/clicks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            assert one.recv(100).startswith(b"HTTP/1.1 411")


def test_lengths_that_differ_are_refused_and_nothing_is_taken(tmp_path: Path) -> None:
    with Running(tmp_path, **section()) as running:
        for lengths in (b"8\r\nContent-Length: 16", b"16\r\nContent-Length: 8", b"8\r\nContent-Length: 8"):
            with socket.create_connection(("127.0.0.1", running.one.port)) as one:
                head = b"POST /topics/clicks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " + lengths
                one.sendall(head + b'\r\n\r\n{"n": 1}{"n": 2}')
                assert one.recv(100).startswith(b"HTTP/1.1 400")
        assert running.journaled() == []


def test_a_page_of_another_origin_or_under_another_name_sends_no_event(tmp_path: Path) -> None:
    with Running(tmp_path, **section()) as running:
        assert post(running, b'{"n": 1}', Origin="http://evil.example")[0] == 403
        assert post(running, b'{"n": 1}', Host="evil.example")[0] == 421
        assert running.journaled() == []


def test_a_full_journal_says_how_many_it_took_and_takes_the_rest_once_there_is_room(tmp_path: Path) -> None:
    event = json.dumps({"page": "x" * 1000, "n": 7}).encode()
    with Running(tmp_path, **section(quota_bytes=65_536)) as running:
        status, words = post(running, b"\n".join([event] * 200), NDJSON)
        assert status == 503
        assert 0 < words["accepted"] < 200
        assert len(running.journaled()) == words["accepted"]
        assert running.losses() == {}, "the sender has them still: nothing is lost"
        assert running.events["requests_without_room"] == 1


def test_the_token_is_asked_for_and_needed_elsewhere_than_on_the_loopback(tmp_path: Path) -> None:
    with pytest.raises(SettingsRefused, match="token_file"):
        Receivers(settings_of(tmp_path, **section(listen="0.0.0.0:0")), SystemClock())
    token = tmp_path / "token"
    token.write_text(TOKEN)
    with Running(tmp_path, **section(listen="0.0.0.0:0", token_file=str(token))) as running:
        assert post(running, b'{"n": 1}')[0] == 401
        assert post(running, b'{"n": 1}', Authorization="Bearer " + TOKEN[:-1] + "x")[0] == 401
        assert post(running, b'{"n": 1}', Authorization=f"Bearer {TOKEN}")[0] == 202


def test_connections_are_bounded_and_a_slow_one_is_ended(tmp_path: Path) -> None:
    with Running(tmp_path, **section(most_connections=2, request_ms=700)) as running:
        address = ("127.0.0.1", running.one.port)
        slow = [socket.create_connection(address) for _ in range(2)]
        for one in slow:
            one.sendall(b"POST /topics/clicks HTTP/1.1\r\nContent-Length: 50\r\nContent-Type: application/json\r\n\r\n")
        stop = threading.Event()

        def drip() -> None:
            while not stop.wait(0.1):
                for one in slow:
                    try:
                        one.sendall(b" ")
                    except OSError:
                        return

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            with socket.create_connection(address) as third:
                third.settimeout(5)
                assert third.recv(100).startswith(b"HTTP/1.1 429")
            for one in slow:
                one.settimeout(10)
                assert one.recv(100) == b""
        finally:
            stop.set()
            dripping.join()
        for one in slow:
            one.close()
        deadline = time.monotonic() + 10
        while (answer := post(running, b'{"n": 1}'))[0] != 202 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert answer[0] == 202


def test_without_fields_the_registry_s_newest_schema_counts_and_its_absence_is_503(tmp_path: Path) -> None:
    words = section()
    del words["http"][0]["fields"]
    receivers = Receivers(settings_of(tmp_path, **words), SystemClock())
    (one,) = receivers.receivers
    (topic,) = one._topics.values()  # type: ignore[attr-defined]
    topic._newest_schema = _away
    receivers.start()
    try:
        running = Running.__new__(Running)
        running.receivers = receivers
        status, answer = post(running, b'{"n": 1}')
        assert (status, answer["accepted"]) == (503, 0)
        topic._newest_schema = lambda subject: json.dumps(SCHEMA) if subject == "clicks-value" else ""
        assert post(running, b'{"n": 1}')[0] == 202
        assert post(running, b'{"n": "x"}')[0] == 400
    finally:
        receivers.stop()


SCHEMA = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "event_time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "server", "type": "string"},
        {"name": "n", "type": "int"},
    ],
}


def _away(subject: str) -> str:
    raise OSError("the registry is away")


def test_over_tls_who_has_no_certificate_is_refused_and_a_plain_client_ends(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    words = {"tls_cert": str(certificate), "tls_key": str(key), "tls_client_ca": str(authority.file)}
    with Running(tmp_path, **section(listen="0.0.0.0:0", **words)) as running:
        with socket.create_connection(("127.0.0.1", running.one.port)) as plain:
            plain.settimeout(10)
            plain.sendall(b"POST /topics/clicks HTTP/1.1\r\n\r\n")
            assert b"HTTP/1.1 2" not in plain.recv(100)
        context = ssl.create_default_context(cafile=authority.file)
        context.check_hostname = False
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.BadStatusLine)):
            _post_over(context, running.one.port)
        context.load_cert_chain(*authority.issue("client"))
        assert _post_over(context, running.one.port) == 202
        assert [one["n"] for one in running.journaled()] == [1]


def _post_over(context: ssl.SSLContext, port: int) -> int:
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
    try:
        connection.request("POST", "/topics/clicks", b'{"n": 1}', {"Content-Type": "application/json"})
        return connection.getresponse().status
    finally:
        connection.close()
