"""`headrace broker run --processes N`: which ids, ports and folders the brokers get, and what happens when one ends."""

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from headrace.broker.errors import SettingsRefused
from headrace.broker.settings import broker_settings
from headrace.cli import broker_processes
from headrace.runtime.clock import SystemClock
from headrace.runtime.lifecycle import StopSignal
from tests.support.processes import eventually


def settings(*words: str, **flags: object) -> broker_settings.BrokerSettings:
    return broker_settings.from_words(data=Path("/logs"), zookeeper="127.0.0.1:2181/live", words=words, **flags)  # type: ignore[arg-type]


def of(index: int, *words: str, **flags: object) -> broker_settings.BrokerSettings:
    """Return the settings of one of the brokers, read from the words that its process gets."""
    found = broker_processes.words_of(settings(*words, **flags), index, broker_processes.given_words([], words))
    by_flag = {flag: [found[at + 1] for at, word in enumerate(found) if word == flag] for flag in set(found[::2])}
    return broker_settings.from_words(
        data=Path(by_flag["--data"][0]),
        zookeeper=by_flag["--zookeeper"][0],
        broker_id=int(by_flag["--id"][0]),
        http_port=int(by_flag["--http-port"][0]) if "--http-port" in by_flag else None,
        status_file=Path(by_flag["--status-file"][0]) if "--status-file" in by_flag else None,
        words=by_flag["--set"],
    )


def test_ids_ports_and_folders_count_up() -> None:
    third = of(2, port=9092, broker_id=4, http_port=9200, status_file=Path("/run/status.json"))
    assert (third.broker_id, third.listeners[0].port, third.http_port) == (6, 9094, 9202)
    assert third.data == Path("/logs/broker-6")
    assert third.status_file == Path("/run/status-6.json")


def test_with_two_listeners_each_broker_takes_two_ports() -> None:
    words = (
        "listeners=A://127.0.0.1:9092,B://[::1]:9093",
        "advertised.listeners=A://localhost:19092",
        "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT",
    )
    second = of(1, *words)
    assert [(one.name, one.host, one.port) for one in second.listeners] == [("A", "127.0.0.1", 9094), ("B", "::1", 9095)]
    assert [(one.advertised_host, one.advertised_port) for one in second.listeners] == [("localhost", 19094), ("::1", None)]


def test_a_port_that_the_system_chooses_stays_so() -> None:
    assert of(3, port=0, http_port=0).listeners[0].port == 0


@pytest.mark.parametrize(
    ("count", "flags", "words"),
    [
        (0, {}, "--processes 0 is not from 1 to 64"),
        (65, {}, "--processes 65 is not from 1 to 64"),
        (3, {"port": 65_534}, "PLAINTEXT of broker 3 would be port 65536, above 65535: choose lower ports"),
        (3, {"port": 9092, "http_port": 9094}, "and http.port of broker 1 would have port 9094: choose ports further apart"),
    ],
)
def test_numbers_that_cannot_count_up_are_refused(count: int, flags: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsRefused) as refused:
        broker_processes.check(settings(**flags), count)
    assert words in str(refused.value)


NOTES = "import os, signal, sys; open(sys.argv[1], 'a').write('x'); code = int(sys.argv[2])\n"
NOTES_AND_ENDS = f"{NOTES}sys.exit(code)"
WAITS = f"{NOTES}signal.signal(15, lambda *_: sys.exit(code)); open(sys.argv[1], 'a').write('y'); signal.pause()"
HAS_NO_HANDLER = f"{NOTES}signal.pause()"
DEAF = f"{NOTES}signal.signal(15, signal.SIG_IGN); open(sys.argv[1], 'a').write('y')\nwhile True: signal.pause()"


class Run:
    """The brokers of some scripts, in a thread."""

    def __init__(self, *scripts: tuple[str, Path, int], stop_ms: int = 30_000) -> None:
        self.stop = StopSignal()
        commands = [[sys.executable, "-c", script, str(file), str(code)] for script, file, code in scripts]
        brokers = broker_processes.Brokers(commands, stop_ms=stop_ms, clock=SystemClock())
        self.codes: list[int] = []
        self.thread = threading.Thread(target=lambda: self.codes.append(brokers.run(self.stop)))
        self.thread.start()

    def ended(self) -> int:
        self.thread.join(60)
        return self.codes[0]


def starts(file: Path) -> int:
    return file.read_text().count("x") if file.exists() else 0


def waits(file: Path) -> bool:
    """Whether the script has come to its wait for a signal."""
    return file.exists() and file.read_text().endswith("y")


def test_a_broker_that_ends_is_started_again_and_the_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(broker_processes, "RESTART", broker_processes.Backoff(first_ms=1, longest_ms=50))
    ends, stays = tmp_path / "ends", tmp_path / "stays"
    run = Run((NOTES_AND_ENDS, ends, 1), (WAITS, stays, 0))
    eventually(lambda: starts(ends) >= 4 and waits(stays), what="several starts", within_ms=60_000)
    run.stop.set()
    assert run.ended() in (0, 1, signal.SIGTERM), "the one that ends may have been about to start"
    assert starts(stays) == 1


@pytest.mark.parametrize("other", [WAITS, HAS_NO_HANDLER], ids=["stops", "dies of the signal"])
def test_wrong_settings_of_one_end_all(tmp_path: Path, other: str) -> None:
    run = Run((NOTES_AND_ENDS, tmp_path / "wrong", 2), (other, tmp_path / "stays", 0))
    assert run.ended() == 2, "also where another one was still starting, and the signal ended it with 15"
    assert starts(tmp_path / "wrong") == 1


def test_the_stop_waits_for_all_and_its_code_is_the_highest(tmp_path: Path) -> None:
    run = Run((WAITS, tmp_path / "a", 0), (WAITS, tmp_path / "b", 3))
    eventually(lambda: waits(tmp_path / "a") and waits(tmp_path / "b"), what="both", within_ms=60_000)
    run.stop.set()
    assert run.ended() == 3


def test_a_broker_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    run = Run((DEAF, tmp_path / "deaf", 0), stop_ms=100)
    eventually(lambda: waits(tmp_path / "deaf"), what="the start", within_ms=60_000)
    run.stop.set()
    assert run.ended() == signal.SIGKILL
    assert os.listdir(tmp_path) == ["deaf"]
