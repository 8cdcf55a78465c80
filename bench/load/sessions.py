"""Both sides as processes: started, asked for a load, ended; with the processor time of all that they start."""

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..harness.child import BenchFault
from ..harness.proc_meters import processor_s

STOP_S = 60.0
_EVERY_S = 0.05


class Session:
    """One process that loads into the folders that it is notified of."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                list(command),
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._used_s = 0.0
        self._is_over = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    def load(self, folder: Path) -> str:
        """Load everything into the new folder; return the answer. Raises BenchFault."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{folder}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if not answer:
            raise BenchFault(f"the load failed:\n{self._log.read_text(errors='replace')[-3000:]}")
        return answer

    def used_s(self) -> float:
        """Return the processor time until now, of the process and all that it has started."""
        self._used_s = max(self._used_s, processor_s(self._process.pid))
        return self._used_s

    def close(self) -> float:
        """End it, and return its processor time to within a sample of its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._is_over.set()
        self._sampler.join()
        return self._used_s

    def _sample(self) -> None:
        while not self._is_over.is_set() and self._process.poll() is None:
            self._used_s = max(self._used_s, processor_s(self._process.pid))
            time.sleep(_EVERY_S)
