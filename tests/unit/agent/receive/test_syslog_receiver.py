"""One syslog section on real sockets: what comes in is journaled, bounds are reached, and what is dropped is counted."""

import logging
import logging.handlers
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.agent.errors import AgentError, SettingsRefused
from headrace.agent.receive.receivers import Receivers
from headrace.runtime.clock import SystemClock
from tests.support.processes import eventually

from .received import Running, settings_of

ANY = "127.0.0.1:0"


def section(**words: Any) -> dict[str, Any]:
    return {"syslog": [{"topic": "syslog", "udp": ANY, "tcp": ANY, **words}]}


def test_python_s_own_handler_over_each_transport(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    with Running(tmp_path, **section(unix=path)) as running:
        for address, kind in (
            (("127.0.0.1", running.one.udp_port), socket.SOCK_DGRAM),
            (("127.0.0.1", running.one.tcp_port), socket.SOCK_STREAM),
            (path, socket.SOCK_DGRAM),
        ):
            handler = logging.handlers.SysLogHandler(address, facility="local0", socktype=kind)
            handler.ident = "app[7]: "
            handler.emit(logging.makeLogRecord({"msg": "hi there", "levelno": logging.ERROR, "levelname": "ERROR"}))
            handler.close()
        eventually(lambda: len(running.journaled()) == 3, what="three messages journaled")
        found = running.journaled()
    assert {one["transport"] for one in found} == {"udp", "tcp", "unix"}
    # No time, so that all of it is the message (RFC 3164, 4.3.3).
    assert {(one["facility"], one["severity"], one["message"], one["server"]) for one in found} == {
        (16, 3, "app[7]: hi there", "host")
    }
    assert not os.path.exists(path)


def test_the_time_of_a_message_is_its_event_s_unless_it_is_far_off(tmp_path: Path) -> None:
    now_ms = SystemClock().now_ms()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_ms // 1000 - 5))
    with Running(tmp_path, **section()) as running:
        with socket.create_connection(("127.0.0.1", running.one.tcp_port)) as one:
            one.sendall(f"<13>1 {stamp} h a - - - near\n<13>1 2001-01-01T00:00:00Z h a - - - far\n".encode())
        eventually(lambda: len(running.journaled()) == 2, what="both journaled")
        near, far = running.journaled()
    assert near["event_time"] == near["message_time"]
    assert far["message_time"].year == 2001
    assert abs(far["event_time"].timestamp() * 1000 - now_ms) < 60_000


def test_what_is_no_message_goes_to_quarantine(tmp_path: Path) -> None:
    with Running(tmp_path, **section(most_message_bytes=480)) as running:
        with socket.create_connection(("127.0.0.1", running.one.tcp_port)) as one:
            one.sendall(b"nonsense\n<13>" + b"x" * 500 + b"\n<13>good\n999 <13>cut")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.sendto(b"<13>" + b"y" * 500, ("127.0.0.1", running.one.udp_port))
        eventually(lambda: len(running.quarantined()) == 4, what="four in quarantine")
        found = running.quarantined()
        assert [one["message"] for one in running.journaled()] == ["good"]
    codes = sorted(one.code for one in found)
    assert codes == ["message_cut_short", "message_too_long", "message_too_long", "not_syslog"]
    assert all("from 127.0.0.1" in one.reason for one in found)
    assert running.events["messages_refused"] == 4


def test_datagrams_that_the_kernel_drops_are_counted_and_told_to_the_audit(tmp_path: Path) -> None:
    with Running(tmp_path, **section(receive_buffer_bytes=4096)) as running:
        receiver = running.one
        sent = 0
        # A turn that is held up until all is sent, as by a slow disk: the socket's buffer fills meanwhile.
        all_sent, take = threading.Event(), receiver._inbox.take_or_lose
        receiver._inbox.take_or_lose = lambda records: take(records) if all_sent.wait(20) else 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            for number in range(200):
                datagrams.sendto(b"<13>%d" % number, ("127.0.0.1", receiver.udp_port))
                sent += 1
        receiver._inbox.take_or_lose = take
        all_sent.set()

        def is_settled() -> bool:
            return running.events.get("messages", 0) + running.events.get("datagrams_dropped", 0) == sent

        eventually(is_settled, what="each datagram was read or is counted as dropped")
        assert running.events["datagrams_dropped"] > 0
        assert running.losses() == {"dropped_buffer_full": running.events["datagrams_dropped"]}
        assert len(running.journaled()) == running.events["messages"]


def test_with_a_full_journal_datagrams_are_lost_by_name_and_connections_wait(tmp_path: Path) -> None:
    message = b"<13>" + b"x" * 1000
    with Running(tmp_path, **section(quota_bytes=65_536)) as running:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            for number in range(100):
                datagrams.sendto(message, ("127.0.0.1", running.one.udp_port))
                eventually(lambda number=number: running.events.get("messages", 0) > number, what="read", every_ms=1)
        assert 0 < running.events["messages_lost"] < 100
        assert running.losses() == {"dropped_journal_full": running.events["messages_lost"]}
        before = running.events["messages"]
        with socket.create_connection(("127.0.0.1", running.one.tcp_port)) as one:
            one.settimeout(0.5)
            with pytest.raises(TimeoutError):
                one.sendall((message + b"\n") * 100_000)
            # What was read of it waits in memory: one read of the socket, and no more.
            assert running.events["messages"] - before <= 80


def test_connections_are_bounded_and_a_silent_one_is_closed(tmp_path: Path) -> None:
    with Running(tmp_path, **section(most_connections=2, idle_ms=1_000)) as running:
        address = ("127.0.0.1", running.one.tcp_port)
        first, second, third = (socket.create_connection(address) for _ in range(3))
        third.settimeout(10)
        assert third.recv(1) == b""
        assert running.events["connections_refused"] == 1
        first.settimeout(10)
        assert first.recv(1) == b""
        assert running.events["connections_idle"] >= 1
        for one in (first, second, third):
            one.close()


def test_an_address_that_is_taken_is_named(tmp_path: Path) -> None:
    with Running(tmp_path, **section()) as running:
        taken = f"127.0.0.1:{running.one.tcp_port}"
        other = Receivers(settings_of(tmp_path / "other", **section(udp="", tcp=taken)), SystemClock())
        with pytest.raises(AgentError, match=f"tcp: cannot listen on {taken}"):
            other.start()


def test_other_machines_are_let_in_only_where_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsRefused, match="insecure_allowed"):
        Receivers(settings_of(tmp_path, **section(udp="0.0.0.0:0")), SystemClock())
    Receivers(settings_of(tmp_path, **section(udp="0.0.0.0:0", insecure_allowed=True)), SystemClock())


def test_every_fault_of_the_sections_is_named(tmp_path: Path) -> None:
    words = {
        "syslog": [{"topic": "a/b", "udp": "nowhere", "speed": 1}, {"topic": "x"}],
        "http": [{"topic": "x", "listen": "0.0.0.0:80", "fields": {"n": "number"}, "invalid": "maybe"}],
    }
    with pytest.raises(SettingsRefused) as refused:
        Receivers(settings_of(tmp_path, **words), SystemClock())
    faults = "\n".join(refused.value.faults)
    for word in ("'a/b'", "nowhere", "speed", "at least one of", "token_file", "'number'", "'maybe'"):
        assert word in faults, f"{word} is not named in:\n{faults}"
