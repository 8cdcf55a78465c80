"""The life that all peers share: companions first and last, ready means the port answers, logs and pids in one place."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bench.harness.child import BenchFault, Child, free_port, is_open
from bench.peers.lifecycle import LoopbackServer

_SERVE = "import http.server, os, sys; print(os.environ.get('WORD'), flush=True); " + (
    "http.server.test(http.server.SimpleHTTPRequestHandler, port=int(sys.argv[1]), bind='127.0.0.1')"
)


class _Pages(LoopbackServer):
    name = "pages"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.companion = Child([], folder / "companion.log", port=free_port())

    def version(self) -> str:
        return "pages 1"

    def command(self) -> Sequence[str]:
        return [sys.executable, "-c", _SERVE, str(self.port)]

    def environment(self) -> Mapping[str, str]:
        return {"WORD": "said"}

    def prepare(self) -> None:
        port = self.companion.port
        self.companion = Child([sys.executable, "-c", _SERVE, str(port)], self.folder / "companion.log", port=port)
        self.start_companion(self.companion)


class _Refusing(_Pages):
    def command(self) -> Sequence[str]:
        return [sys.executable, "-c", "raise SystemExit('no licence')"]


def test_a_server_starts_on_its_companion_and_both_are_gone_after_stop(tmp_path: Path) -> None:
    server = _Pages(tmp_path / "pages")
    server.start()
    try:
        assert is_open(server.port)
        assert is_open(server.companion.port)
        assert server.pids == [server.broker.pid]
        assert (tmp_path / "pages" / "log").read_text().startswith("said")
        assert server.bootstrap == f"127.0.0.1:{server.port}"
    finally:
        server.stop()
    assert not is_open(server.port)
    assert not is_open(server.companion.port)


def test_a_server_that_was_killed_starts_again_on_the_same_port_beside_its_companion(tmp_path: Path) -> None:
    server = _Pages(tmp_path / "pages")
    server.start()
    try:
        first = server.broker.pid
        server.broker.kill()
        server.start_broker()
        assert server.broker.pid != first
        server.companion.assert_alive()
    finally:
        server.stop()


def test_a_server_that_does_not_start_names_its_last_words_and_stop_ends_its_companion(tmp_path: Path) -> None:
    server = _Refusing(tmp_path / "pages")
    with pytest.raises(BenchFault, match="no licence"):
        server.start()
    assert is_open(server.companion.port)
    server.stop()
    assert not is_open(server.companion.port)
