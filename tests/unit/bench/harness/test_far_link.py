"""The far and lossy line in user space: bytes come through it unchanged, late, and in spite of what it drops."""

import hashlib
import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.harness import far_link
from bench.harness.child import Child, free_port


@pytest.fixture
def far_port(tmp_path: Path) -> Iterator[int]:
    """The near end of a line of 20 ms there and back, with loss, to a server that sends back what it gets."""
    server = socket.create_server(("127.0.0.1", 0))
    port = free_port()
    words = ["--port", str(port), "--server-port", str(server.getsockname()[1]), "--delay-ms", "10", "--loss", "0.02"]
    line = Child([sys.executable, "-m", far_link.__name__, *words], tmp_path / "log", port=port)

    def echo(peer: socket.socket) -> None:
        with peer:
            while came := peer.recv(1 << 16):
                peer.sendall(came)

    def serve() -> None:
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=echo, args=(peer,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    with server:
        line.start()
        try:
            yield port
        finally:
            line.kill()


@pytest.mark.needs("far line")
def test_what_is_sent_comes_back_unchanged_after_the_round_trip(far_port: int) -> None:
    content = random.Random(3).randbytes(300_000)
    with socket.create_connection(("127.0.0.1", far_port), timeout=60) as peer:
        began = time.monotonic()
        peer.sendall(b"x")
        assert peer.recv(1) == b"x"
        assert time.monotonic() - began >= 0.02
        threading.Thread(target=peer.sendall, args=(content,), daemon=True).start()
        received = hashlib.sha256()
        left = len(content)
        while left:
            came = peer.recv(1 << 16)
            assert came, "the line ended"
            received.update(came)
            left -= len(came)
    assert received.digest() == hashlib.sha256(content).digest()


@pytest.mark.needs("far line")
def test_one_connection_is_measured_with_what_was_dropped() -> None:
    words = ["--bulk-s", "1", "--warm-s", "0.5", "--delay-ms", "5", "--loss", "0.05"]
    done = subprocess.run([sys.executable, "-m", far_link.__name__, *words], capture_output=True, text=True, timeout=60)
    found = json.loads(done.stdout)
    assert found["mb_per_s"] > 0
    assert 0 < found["dropped"] < found["packets"]
