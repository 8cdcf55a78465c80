"""Syslog over TLS (RFC 5425) on real sockets: who may send, what a handshake may take, and that nothing waits for another's."""

import os
import random
import socket
import ssl
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headrace.agent.errors import AgentError, SettingsRefused
from headrace.agent.receive.receivers import Receivers
from headrace.runtime.clock import SystemClock
from tests.support.certificates import Authority
from tests.support.processes import eventually

from .received import Running, settings_of

ANY = "127.0.0.1:0"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


def section(authority: Authority, **words: Any) -> dict[str, Any]:
    certificate, key = authority.issue("server", hosts=("127.0.0.1",))
    return {"syslog": [{"topic": "syslog", "tls": ANY, "tls_cert": str(certificate), "tls_key": str(key), **words}]}


def counted(message: bytes) -> bytes:
    return b"%d %s" % (len(message), message)


def connected(running: Running, authority: Authority, client: tuple[Path, Path] | None = None, **words: Any) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=authority.file)
    for name, value in words.items():
        setattr(context, name, value)
    if client is not None:
        context.load_cert_chain(*client)
    raw = socket.create_connection(("127.0.0.1", running.one.tls_port), timeout=20)
    return context.wrap_socket(raw, server_hostname="127.0.0.1")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_counted_messages_and_lines_of_any_size_are_journaled(
    tmp_path: Path, authority: Authority, version: ssl.TLSVersion
) -> None:
    # More than a record of TLS, messages across their borders, and the two framings one after the other.
    messages = [b"<13>1 - host app - - - " + b"%d " % n + b"x" * (n * 37 % 9000) for n in range(300)]
    with Running(tmp_path, **section(authority)) as running:
        with connected(running, authority, minimum_version=version, maximum_version=version) as one:
            one.sendall(b"".join(map(counted, messages)) + b"<13>a line\n" + counted(b"<13>the last"))
            one.unwrap()
        eventually(lambda: len(running.journaled()) == 302, what="all journaled")
        found = running.journaled()
    assert [len(each["message"]) for each in found[:300]] == [len(message) - 23 for message in messages]
    assert [each["message"] for each in found[300:]] == ["a line", "the last"]
    assert {(each["transport"], each["peer"]) for each in found} == {("tls", "127.0.0.1")}


def test_who_has_no_certificate_of_ours_sends_nothing_and_who_has_one_does(tmp_path: Path, authority: Authority) -> None:
    stranger = Authority(tmp_path / "other", "other-ca").issue("stranger")
    expired = authority.issue("expired", is_expired=True)
    with Running(tmp_path, **section(authority, tls="0.0.0.0:0", tls_client_ca=str(authority.file))) as running:
        for number, client in enumerate((None, stranger, expired), 1):
            # In TLS 1.3 the client learns only with its next read that it was refused.
            with suppress(OSError), connected(running, authority, client) as one:
                one.sendall(counted(b"<13>let me in"))
                assert one.recv(1) == b"", "closed"
            eventually(lambda number=number: running.events.get("handshakes_failed") == number, what="a handshake that failed")
        with connected(running, authority, authority.issue("client")) as one:
            one.sendall(counted(b"<13>hello"))
            eventually(lambda: [each["message"] for each in running.journaled()] == ["hello"], what="the message")
        assert running.quarantined() == []


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_old_versions_and_what_is_no_tls_are_refused(tmp_path: Path, authority: Authority) -> None:
    with Running(tmp_path, **section(authority)) as running:
        with socket.create_connection(("127.0.0.1", running.one.tls_port), timeout=20) as plain:
            with suppress(ConnectionResetError):
                plain.sendall(b"<13>in the clear\n" * 10)
                assert plain.recv(100)[:1] in (b"", b"\x15"), "an alert at most"
            eventually(lambda: running.events.get("handshakes_failed") == 1, what="refused")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with socket.create_connection(("127.0.0.1", running.one.tls_port), timeout=20) as raw, pytest.raises(OSError):
            context.wrap_socket(raw)
        assert running.journaled() == running.quarantined() == []


def test_handshakes_that_never_end_hold_up_nobody_and_have_their_time(tmp_path: Path, authority: Authority) -> None:
    with Running(tmp_path, **section(authority, tcp=ANY, handshake_ms=1_000, most_connections=10)) as running:
        address = ("127.0.0.1", running.one.tls_port)
        silent = [socket.create_connection(address, timeout=20) for _ in range(4)]
        half = [socket.create_connection(address, timeout=20) for _ in range(4)]
        for one in half:
            one.sendall(_client_hello()[:40])
        with connected(running, authority) as good:
            good.sendall(counted(b"<13>over tls"))
            with socket.create_connection(("127.0.0.1", running.one.tcp_port)) as plain:
                plain.sendall(b"<13>in the clear\n")
                eventually(lambda: len(running.journaled()) == 2, what="both journaled meanwhile")
            eventually(lambda: running.events.get("handshakes_too_slow") == 8, what="ended")
            for one in (*silent, *half):
                assert one.recv(1) == b""
                one.close()
            good.sendall(counted(b"<13>still there"))
            eventually(lambda: len(running.journaled()) == 3, what="its next message")


def test_one_that_drips_its_handshake_is_ended_too(tmp_path: Path, authority: Authority) -> None:
    with Running(tmp_path, **section(authority, handshake_ms=1_000, idle_ms=600_000)) as running:
        with socket.create_connection(("127.0.0.1", running.one.tls_port), timeout=20) as one:
            stop = threading.Event()

            def drip() -> None:
                for byte in _client_hello():
                    if stop.wait(0.1):
                        return
                    try:
                        one.sendall(bytes([byte]))
                    except OSError:
                        return

            dripping = threading.Thread(target=drip)
            dripping.start()
            try:
                eventually(lambda: running.events.get("handshakes_too_slow") == 1, what="ended")
            finally:
                stop.set()
                dripping.join()


@pytest.mark.parametrize("seed", range(int(os.environ.get("HEADRACE_SYSLOG_SEEDS", "2"))))
def test_whatever_some_clients_do_what_the_others_send_is_there_once_and_in_order(
    tmp_path: Path, authority: Authority, seed: int
) -> None:
    """Some break off in the middle of a handshake, of a record or of a message; some send no TLS at all; many never read.

    Fault: the session tickets of TLS 1.3 stood unread at clients that never read, so that their close was a reset, which took
    back what the agent had not read yet.
    """
    rng = random.Random(seed)
    plans = [(rng.choice(("good", "good", "cut", "garbage", "half")), rng.randrange(1 << 30)) for _ in range(40)]
    sent: dict[int, list[str]] = {}

    def client(number: int, what: str, of: int) -> None:
        own = random.Random(of)
        raw = socket.create_connection(("127.0.0.1", running.one.tls_port), timeout=20)
        with raw, suppress(OSError):
            if what == "garbage":
                raw.sendall(own.randbytes(own.randrange(2_000)))
            elif what == "half":
                raw.sendall(_client_hello()[: own.randrange(200)])
            else:
                words = [f"of {number}: {at} {'x' * own.randrange(3_000)}" for at in range(own.randrange(60))]
                stream = b"".join(counted(b"<13>" + one.encode()) for one in words)
                with ssl.create_default_context(cafile=authority.file).wrap_socket(raw, server_hostname="127.0.0.1") as one:
                    at = 0
                    while at < len(stream):
                        size = own.randrange(1, 20_000)
                        one.sendall(stream[at : at + size])
                        at += size
                        if what == "cut" and own.random() < 0.2:
                            socket.socket.shutdown(one, socket.SHUT_RDWR)  # below TLS, as a cable does it
                            return
                    if own.random() < 0.7:
                        one.unwrap()
                sent[number] = words

    with Running(tmp_path, **section(authority, handshake_ms=1_000)) as running:
        threads = [threading.Thread(target=client, args=(number, *plan)) for number, plan in enumerate(plans)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        whole = {number: words for number, words in sent.items() if plans[number][0] == "good"}

        def found() -> dict[int, list[str]]:
            mine: dict[int, list[str]] = {number: [] for number in whole}
            for one in running.journaled():
                number = int(one["message"].split(":", 1)[0].removeprefix("of "))
                if number in mine:
                    mine[number].append(one["message"])
            return mine

        eventually(lambda: found() == whole, what="what whole clients sent")
        eventually(lambda: not running.one._connections, what="every connection at its end")
        assert len(whole) > 8


def test_connections_of_both_kinds_are_bounded_together(tmp_path: Path, authority: Authority) -> None:
    with Running(tmp_path, **section(authority, tcp=ANY, most_connections=2)) as running:
        with (
            socket.create_connection(("127.0.0.1", running.one.tcp_port)) as plain,
            connected(running, authority) as first,
            socket.create_connection(("127.0.0.1", running.one.tls_port), timeout=20) as third,
        ):
            assert third.recv(1) == b""
            assert running.events["connections_refused"] == 1
            plain.sendall(b"<13>one\n")
            first.sendall(counted(b"<13>two"))
            eventually(lambda: len(running.journaled()) == 2, what="those who were there are served")


def test_a_renewed_certificate_counts_from_the_next_connection_on(tmp_path: Path, authority: Authority) -> None:
    words = section(authority)
    certificate, key = Path(words["syslog"][0]["tls_cert"]), Path(words["syslog"][0]["tls_key"])
    with Running(tmp_path, **words) as running:
        with connected(running, authority) as before:
            first = before.getpeercert()
        other = Authority(tmp_path / "new", "new-ca").issue("server", hosts=("127.0.0.1",))
        key.write_bytes(other[1].read_bytes())
        with connected(running, authority) as between:
            assert between.getpeercert() == first, "certificate and key do not belong together: the last good ones are used"
        certificate.write_bytes(other[0].read_bytes())
        with pytest.raises(ssl.SSLCertVerificationError):
            connected(running, authority)


@pytest.mark.needs("openssl")
@pytest.mark.parametrize("has_certificate", [True, False])
def test_openssl_s_client(tmp_path: Path, authority: Authority, has_certificate: bool) -> None:
    certificate, key = authority.issue("client")
    with Running(tmp_path, **section(authority, tls_client_ca=str(authority.file))) as running:
        words = ["openssl", "s_client", "-connect", f"127.0.0.1:{running.one.tls_port}", "-CAfile", str(authority.file)]
        words += ["-verify_return_error", "-quiet", "-no_ign_eof"]
        words += ["-cert", str(certificate), "-key", str(key)] if has_certificate else []
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as client:
            assert client.stdin is not None
            client.stdin.write(counted(b"<165>1 2003-10-11T22:14:15.003Z host app - ID47 - from openssl"))
            client.stdin.flush()
            if has_certificate:
                eventually(lambda: len(running.journaled()) == 1, what="the message")
            else:
                eventually(lambda: running.events.get("handshakes_failed") == 1, what="refused")
            client.stdin.close()
            client.wait(30)
        assert [each["message"] for each in running.journaled()] == ["from openssl"] * has_certificate


@pytest.mark.needs("logger")
def test_logger_through_a_tunnel(tmp_path: Path, authority: Authority) -> None:
    """`logger` speaks no TLS itself: what it sends by TCP continues through a tunnel, as people do it with stunnel."""
    with Running(tmp_path, **section(authority)) as running, socket.create_server(("127.0.0.1", 0)) as tunnel:
        port = str(tunnel.getsockname()[1])
        words = [
            "logger",
            "--tcp",
            "--server",
            "127.0.0.1",
            "--port",
            port,
            "--rfc5424",
            "--octet-count",
            "--tag",
            "app",
            "hello",
        ]
        with subprocess.Popen(words) as logger:
            accepted, _ = tunnel.accept()
            with accepted, connected(running, authority) as onwards:
                while piece := accepted.recv(1000):
                    onwards.sendall(piece)
            assert logger.wait(30) == 0
        eventually(lambda: len(running.journaled()) == 1, what="the message")
        (found,) = running.journaled()
    assert (found["message"], found["app_name"], found["transport"]) == ("hello", "app", "tls")


def test_while_the_journal_is_full_senders_wait_and_no_connection_counts_as_silent(tmp_path: Path, authority: Authority) -> None:
    """Fault: a connection that nobody read, for want of room, was closed as idle, with what the kernel held of it."""
    message = b"<13>" + b"x" * 1000
    with Running(tmp_path, **section(authority, quota_bytes=65_536, idle_ms=1_000)) as running:
        with connected(running, authority) as one:
            one.settimeout(1.0)
            with pytest.raises(TimeoutError):
                one.sendall(counted(message) * 100_000)
            before = running.events["messages"]
            looked_at = running.one._look_at_ms
            eventually(lambda: running.one._look_at_ms > looked_at + 3_000, what="looked at again and again")
            assert "connections_idle" not in running.events
            assert running.events["messages"] == before


def test_a_full_journal_is_asked_now_and_then_and_not_all_the_time(tmp_path: Path, authority: Authority) -> None:
    """Fault: what could not be taken made its socket readable on and on, and the thread took a whole core."""
    with Running(tmp_path, **section(authority, quota_bytes=65_536, tcp=ANY)) as running:
        with socket.create_connection(("127.0.0.1", running.one.tcp_port)) as one:
            one.settimeout(1.0)
            with pytest.raises(TimeoutError):
                one.sendall((b"<13>" + b"x" * 1000 + b"\n") * 100_000)
            asked, take = [0], running.one._inbox.take
            running.one._inbox.take = lambda records: asked.__setitem__(0, asked[0] + 1) or take(records)
            began = time.monotonic()
            eventually(lambda: asked[0] >= 10, what="asked again")
            assert asked[0] <= 11 + (time.monotonic() - began) / 0.015


def test_settings_that_do_not_go_together_are_all_named(tmp_path: Path, authority: Authority) -> None:
    certificate, key = map(str, authority.issue("server"))
    for words, what in (
        ({"tls": ANY}, "tls_cert and tls_key"),
        ({"tls": ANY, "tls_cert": certificate}, "tls_cert and tls_key"),
        ({"tls": ANY, "tls_cert": certificate, "tls_key": "/nowhere"}, "/nowhere cannot be read"),
        ({"tls": "0.0.0.0:6514", "tls_cert": certificate, "tls_key": key}, "tls_client_ca = .*insecure_allowed"),
        ({"udp": ANY, "tls_client_ca": certificate}, "tls_client_ca: it belongs to tls"),
        ({"tls": ANY, "tls_cert": certificate, "tls_key": key, "handshake_ms": 1}, "handshake_ms"),
    ):
        with pytest.raises(SettingsRefused, match=what):
            Receivers(settings_of(tmp_path, syslog=[{"topic": "syslog", **words}]), SystemClock())
    open_to_all = {"tls": "0.0.0.0:0", "tls_cert": certificate, "tls_key": key, "insecure_allowed": True}
    Receivers(settings_of(tmp_path, syslog=[{"topic": "syslog", **open_to_all}]), SystemClock())


@pytest.mark.parametrize("fault", ["another key", "an encrypted key", "no certificates of clients' authorities"])
def test_certificates_that_cannot_be_used_are_named_at_the_start(tmp_path: Path, authority: Authority, fault: str) -> None:
    words = section(authority)["syslog"][0]
    if fault == "another key":
        words["tls_key"] = str(authority.issue("other")[1])
    elif fault == "an encrypted key":
        words["tls_cert"], words["tls_key"] = map(str, authority.issue("locked", password="secret"))
    else:
        words["tls_client_ca"] = words["tls_key"]
    receivers = Receivers(settings_of(tmp_path, syslog=[words]), SystemClock())
    with pytest.raises(AgentError, match=os.path.basename(words["tls_key"])):
        receivers.start()


def _client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="headrace")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()
