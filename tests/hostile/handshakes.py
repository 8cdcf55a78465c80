"""`python -m tests.hostile.handshakes [--seconds N]`: attacks on a broker's TLS handshakes, while one client writes.

One broker process with TLS. A client sends a Produce request every few milliseconds on an open connection, and others attack from
a process of their own: thousands of connections that send half a ClientHello, clients that send theirs byte by byte, a thousand
that connect at once, and clients that connect again without a pause. Prints a table: how long the client's requests took, the
broker's memory before, most and 15 s after, and what became of the attackers. Exit 1 if a request of the client failed.
"""

import argparse
import os
import resource
import selectors
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import quantiles

from tests.hostile.__main__ import machine, resident_mb
from tests.support.broker import BrokerProcess
from tests.support.certificates import Authority
from tests.support.processes import free_port
from tests.support.raw_kafka import RawClient, batch, create_topic
from tests.support.tls_broker import keystore, trusting
from tests.support.tls_clients import shake_hands
from tests.support.zookeeper import ZooKeeperProcess

HALF_OPEN = 3_000
SLOW = 500
AT_ONCE = 1_000
EVERY_S = 0.003
BYTE_EVERY_S = 0.2
AFTER_S = 15
HANDSHAKE_MS = 10_000
"""How long a handshake may take (a minute by default), so that each attack sees its end."""
TOPIC = "clicks"


class Writer(threading.Thread):
    """The client that is not to notice anything."""

    def __init__(self, port: int, trust: ssl.SSLContext) -> None:
        super().__init__(daemon=True)
        self._port, self._trust = port, trust
        self.took_ms: list[float] = []
        self.ended = threading.Event()
        self.fault: Exception | None = None

    def run(self) -> None:
        try:
            with RawClient(self._port, tls=self._trust, timeout_ms=60_000) as client:
                while not self.ended.wait(EVERY_S):
                    began = time.perf_counter()
                    assert client.produce(TOPIC, batch(b"x" * 100)).error_code == 0
                    self.took_ms.append(1_000 * (time.perf_counter() - began))
        except Exception as error:
            self.fault = error


def client_hello(trust: ssl.SSLContext) -> bytes:
    """Return the first bytes of a client."""
    sent = ssl.MemoryBIO()
    client = trust.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return sent.read()


def half_open(port: int, trust: ssl.SSLContext, seconds: float) -> str:
    """Half a ClientHello, and nothing more."""
    hello = client_hello(trust)
    opened = list(_connected(port, HALF_OPEN))
    for one in opened:
        one.send(hello[: len(hello) // 2])
    closed = _closed_within(opened, seconds)
    return f"{HALF_OPEN} connections, {closed} closed by the broker"


def slow(port: int, trust: ssl.SSLContext, seconds: float) -> str:
    """A byte of the ClientHello now and then."""
    hello = client_hello(trust)
    opened = list(_connected(port, SLOW))
    until, sent = time.monotonic() + seconds, 0
    while time.monotonic() < until and sent < len(hello):
        for one in opened:
            try:
                one.send(hello[sent : sent + 1])
            except OSError:
                pass  # the broker has closed it
        sent += 1
        time.sleep(BYTE_EVERY_S)
    closed = _closed_within(opened, 0.1)
    return f"{SLOW} connections, {closed} closed by the broker, {sent} bytes of {len(hello)} sent on each"


def at_once(port: int, trust: ssl.SSLContext, seconds: float) -> str:
    """A thousand clients connect, and stay."""
    began = time.monotonic()
    connected = shake_hands(trust, _connected(port, AT_ONCE))
    took_s = time.monotonic() - began
    time.sleep(max(0.0, min(5.0, seconds - took_s)))
    for one in connected:
        one.close()
    return f"{len(connected)} connected in {took_s:.1f} s"


def again(port: int, trust: ssl.SSLContext, seconds: float) -> str:
    """A hundred clients connect and leave, without a pause."""
    count, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        for one in shake_hands(trust, _connected(port, 100)):
            one.close()
            count += 1
    return f"{count} connections"


ATTACKS: dict[str, Callable[[int, ssl.SSLContext, float], str]] = {
    "nothing": lambda port, trust, seconds: time.sleep(min(10, seconds)) or "",
    "half-open": half_open,
    "byte by byte": slow,
    "all at once": at_once,
    "again and again": again,
}


def _connected(port: int, count: int) -> Iterable[socket.socket]:
    for _ in range(count):
        yield socket.create_connection(("127.0.0.1", port), timeout=60)


def _closed_within(opened: list[socket.socket], seconds: float) -> int:
    """Return how many the other side has closed by then."""
    with selectors.DefaultSelector() as waiting:
        for one in opened:
            one.setblocking(False)
            waiting.register(one, selectors.EVENT_READ)
        until, closed = time.monotonic() + seconds, 0
        while closed < len(opened) and time.monotonic() < until:
            for key, _ in waiting.select(max(0.0, until - time.monotonic())):
                assert isinstance(key.fileobj, socket.socket)
                try:
                    is_over = not key.fileobj.recv(1_000)
                except BlockingIOError:
                    continue
                except ConnectionError:
                    is_over = True
                if is_over:
                    waiting.unregister(key.fileobj)
                    closed += 1
    for one in opened:
        one.close()
    return closed


def attacked(name: str, broker: BrokerProcess, port: int, authority: Authority, seconds: float) -> tuple[str, bool]:
    """Return the table's line, and whether the client was served."""
    writer = Writer(port, trusting(authority))
    writer.start()
    before_mb = most_mb = resident_mb(broker.pid)
    command = [sys.executable, "-m", "tests.hostile.handshakes", "--attack", name, str(port), str(authority.file), str(seconds)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    while child.poll() is None:
        most_mb = max(most_mb, resident_mb(broker.pid))
        time.sleep(0.05)
    assert child.stdout is not None
    seen = child.stdout.read().strip()
    writer.ended.set()
    writer.join(60)
    time.sleep(AFTER_S)
    took = writer.took_ms
    centiles = quantiles(took, n=100) if len(took) > 1 else [0.0] * 99
    line = (
        f"| {name} | {seen} | {before_mb:.0f}, {most_mb:.0f}, {resident_mb(broker.pid):.0f} MB | {len(took):,} | "
        f"{centiles[49]:.1f}, {centiles[98]:.1f}, {max(took, default=0):.0f} ms |"
    )
    return line, writer.fault is None and bool(took) and child.returncode == 0


def main() -> int:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000) if hard > 0 else 20_000, hard))
    if sys.argv[1:2] == ["--attack"]:
        name, port, cafile, seconds = sys.argv[2:6]
        print(ATTACKS[name](int(port), ssl.create_default_context(cafile=cafile), float(seconds)))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40, help="of each attack at most (default %(default)s)")
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"one of: {', '.join(ATTACKS)} (default: all)")
    arguments = parser.parse_args()
    seconds = arguments.seconds
    is_served = True
    with (
        tempfile.TemporaryDirectory(prefix="headrace-handshakes-") as name,
        ZooKeeperProcess(Path(name) / "zookeeper") as zookeeper,
    ):
        folder = Path(name)
        authority = Authority(folder / "authority")
        clear, secured = free_port(), free_port()
        listeners = f"PLAINTEXT://127.0.0.1:{clear},SSL://127.0.0.1:{secured}"
        settings = {
            "listeners": listeners,
            "ssl.keystore.location": keystore(authority),
            "request.read.timeout.ms": HANDSHAKE_MS,
        }
        with BrokerProcess(folder / "broker", zookeeper.address, port=clear, settings=settings) as broker:
            create_topic(clear, TOPIC, 1, {})
            print(f"{time.strftime('%d %B %Y')}; {machine()}; load average before {os.getloadavg()[0]:.1f}.\n")
            print("| attack | what was done | memory before, most, 15 s after | requests beside it | p50, p99, longest |")
            print("|---|---|---|---|---|")
            for one in arguments.attacks or ATTACKS:
                line, was_served = attacked(one, broker, secured, authority, seconds)
                print(line, flush=True)
                is_served = is_served and was_served
    return 0 if is_served else 1


if __name__ == "__main__":
    sys.exit(main())
