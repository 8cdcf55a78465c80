"""Which servers run when, and what becomes of one that does not start."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bench.harness.servers import Servers
from bench.harness.unavailable import Unavailable


class _Server:
    name = "S"

    def __init__(self, folder: Path, fault: Exception | None = None) -> None:
        self.folder = folder
        self.stopped = 0
        self._fault = fault

    def version(self) -> str:
        return "S 1"

    def start(self) -> None:
        self.folder.mkdir()
        if self._fault is not None:
            raise self._fault

    def stop(self) -> None:
        self.stopped += 1

    @property
    def pids(self) -> Sequence[int]:
        return []


@pytest.fixture
def servers() -> Iterator[Servers]:
    made = Servers({}, rounds=1, quick=False)
    yield made
    made.close()


def test_a_server_that_is_not_needed_any_more_is_stopped_and_its_files_deleted(servers: Servers) -> None:
    kept, ended = _Server(servers.folder / "kept"), _Server(servers.folder / "ended")
    assert servers.try_start("kept", kept)
    assert servers.try_start("ended", ended)
    servers.keep_only({"kept"})
    assert (kept.stopped, ended.stopped) == (0, 1)
    assert (kept.folder.exists(), ended.folder.exists()) == (True, False)
    servers.close()
    assert kept.stopped == 1
    assert not servers.folder.exists()


def test_a_server_that_is_missing_is_skipped_by_name(servers: Servers) -> None:
    assert not servers.try_start("S", _Server(servers.folder / "s", Unavailable("S: install s")))
    assert servers.skipped == {"S": "S: install s"}


def test_a_server_that_fails_to_start_is_stopped_and_not_taken_for_running(servers: Servers) -> None:
    broken = _Server(servers.folder / "s", RuntimeError("usage"))
    with pytest.raises(RuntimeError, match="usage"):
        servers.try_start("S", broken)
    assert broken.stopped == 1
    assert servers.running("S") is None


def test_a_quick_run_does_a_fifth_but_never_less_than_is_needed() -> None:
    quick = Servers({}, rounds=1, quick=True)
    assert (quick.scaled(1_000), quick.scaled(1_000, 500), quick.scaled(2)) == (200, 500, 1)
    quick.close()
