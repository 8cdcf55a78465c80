"""A real broker process for tests, on a free loopback port: started until it is ready, killed, stopped, started again on the
same folder and port.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.runtime.status import read_status
from tests.support.processes import Process, eventually, free_port


class BrokerProcess:
    """`headrace broker run` on `folder`. The constructor starts nothing; `start` returns when the broker is ready.

    `settings` are `--set` words by Kafka's names. `address` is the bootstrap address for clients, the same over restarts.
    """

    def __init__(
        self,
        folder: Path,
        zookeeper: str,
        *,
        port: int | None = None,
        broker_id: int = 1,
        settings: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
    ) -> None:
        """`within`: a command that prepares something and then executes the command behind it."""
        self.folder = folder
        self.data = folder / "data"
        self.zookeeper = zookeeper
        self.port = free_port() if port is None else port
        self.broker_id = broker_id
        self._status = folder / "status.json"
        words = [word for name, value in (settings or {}).items() for word in ("--set", f"{name}={_word(value)}")]
        command = [sys.executable, "-m", "headrace.cli.main", "broker", "run", "--port", str(self.port), "--data", str(self.data)]
        command += ["--zookeeper", zookeeper, "--id", str(broker_id), "--status-file", str(self._status), *words]
        self.process = Process([*within, *command], folder / "log", environment)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def http_port(self) -> int:
        """Where metrics are served; the setting `http.port` must be given."""
        status = read_status(self._status)
        assert status is not None
        return int(str(status["http_port"]))

    @property
    def log(self) -> str:
        return self.process.output()

    def start(self, within_ms: int = 20_000) -> "BrokerProcess":
        """Start it and return when it is ready; fail with its log when it ends instead."""
        return self.launch().await_ready(within_ms)

    def launch(self) -> "BrokerProcess":
        """Start it without waiting: for tests of starts that fail."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._status.unlink(missing_ok=True)
        self.process.start()
        return self

    def await_ready(self, within_ms: int = 20_000) -> "BrokerProcess":
        """Return when a launched one is ready; fail with its log when it ends instead."""
        try:
            eventually(self.is_ready, within_ms=within_ms, every_ms=20, what=f"broker {self.broker_id} ready")
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.process.stacks()}") from None
        return self

    def kill(self) -> None:
        """`kill -9`."""
        self.process.kill()

    def stop(self) -> int:
        """SIGTERM; return the exit code."""
        return self.process.stop()

    def restart(self) -> "BrokerProcess":
        """Start it again on the same folder and port, after `kill` or `stop`."""
        return self.start()

    def __enter__(self) -> "BrokerProcess":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.process.kill()

    def is_ready(self) -> bool:
        if not self.process.is_running():
            raise RuntimeError(f"broker {self.broker_id} ended while starting:\n{self.log[-4000:]}")
        status = read_status(self._status)
        return status is not None and status["state"] == "ready" and status["pid"] == self.pid


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
