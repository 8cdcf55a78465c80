"""A Spark standalone cluster of pyspark's own distribution, for tests: a master and workers on free loopback ports."""

import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import pyspark

from headrace.local.supervisor.descendants import descendants
from headrace.runtime.layout import LOOPBACK
from tests.support.processes import Process, accepts, eventually, free_port

HOME = Path(pyspark.__file__).parent
START_MS = 90_000
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
_MASTER, _WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
_EXECUTOR = "CoarseGrainedExecutorBackend"


class SparkCluster:
    """The cluster. `environment` is that of its executors: where the store is, which Python."""

    def __init__(self, folder: Path, *, workers: int = 2, cores: int = 1, environment: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._cores = cores
        self._environment = {
            **(environment or {}),
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _JVM,
        }
        self.port = free_port()
        self._page = free_port()
        words = ["--host", LOOPBACK, "--port", str(self.port), "--webui-port", str(self._page)]
        self.master = self._process(_MASTER, "master", words)
        self.workers = [self._worker(number) for number in range(workers)]

    @property
    def url(self) -> str:
        return f"spark://{LOOPBACK}:{self.port}"

    def __enter__(self) -> "SparkCluster":
        self.master.start()
        try:
            eventually(lambda: accepts(self.port), within_ms=START_MS, what=f"Spark's master; {self.master.log}")
            for one in self.workers:
                one.start()
            self.await_workers()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def await_workers(self) -> None:
        """Return when the master counts all workers that run as alive."""
        wanted = sum(one.is_running() for one in self.workers)
        eventually(lambda: self._alive() >= wanted, within_ms=START_MS, what=f"{wanted} workers of Spark")

    def _alive(self) -> int:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self._page}/json/", timeout=5) as answer:
            return answer.read().decode().replace(" ", "").count('"state":"ALIVE"')

    def executors(self) -> list[int]:
        """Return the processes of the executors' JVMs."""
        found = [pid for one in self.workers if one.is_running() for pid in descendants(one.pid)]
        return [pid for pid in found if _EXECUTOR in _title(pid)]

    def pythons(self) -> list[int]:
        """Return the Python processes of the executors."""
        return [pid for one in self.executors() for pid in descendants(one)]

    def kill_worker(self, number: int) -> None:
        """`kill -9` a worker with all that it has started, as a machine that loses its power."""
        worker = self.workers[number]
        if worker.is_running():
            family = [worker.pid, *descendants(worker.pid)]
            for pid in family:
                end(pid)
            worker.kill()

    def revive(self) -> None:
        """Start the workers that are gone, and wait until the master knows them."""
        for number, one in enumerate(self.workers):
            if not one.is_running():
                self.workers[number] = self._worker(number).start()
        self.await_workers()

    def close(self) -> None:
        for number in range(len(self.workers)):
            self.kill_worker(number)
        self.master.kill()
        shutil.rmtree(self._folder / "work", ignore_errors=True)

    def _worker(self, number: int) -> Process:
        words = ["--host", LOOPBACK, "--port", str(free_port()), "--webui-port", str(free_port()), "--cores", str(self._cores)]
        work = self._folder / "work" / f"{number}-{free_port()}"
        return self._process(_WORKER, f"worker-{number}", [*words, "--memory", "1g", "--work-dir", str(work), self.url])

    def _process(self, name: str, log: str, words: list[str]) -> Process:
        command = [str(HOME / "bin" / "spark-class"), name, *words]
        return Process(command, self._folder / f"{log}.log", self._environment)


def submit_command(master: str, *words: str, conf: Mapping[str, str] | None = None) -> list[str]:
    """Return a command of spark-submit, with pyspark's own."""
    given = [word for name, value in (conf or {}).items() for word in ("--conf", f"{name}={value}")]
    return [str(HOME / "bin" / "spark-submit"), "--master", master, *given, *words]


def python_of(folder: Path, *, has_packages: bool) -> Path:
    """Return the Python of a new virtual environment: with all of this one's packages but `headrace`, or with none at all."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    if has_packages:
        site = next((folder / "lib").glob("python*/site-packages"))
        # A line of a .pth file adds the folder itself, and none of what its own .pth files (editable installs) would add.
        (site / "packages.pth").write_text(f"{HOME.parent}\n")
    return folder / "bin" / "python"


def end(pid: int) -> None:
    """`kill -9`, whether it is still there or not."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
