"""The wall clock of one process of the platform, set by a file: `sitecustomize.py` in a folder of `PYTHONPATH` stands between
Python and the system's clock, so that nothing of ours is replaced.
"""

from pathlib import Path

SITE = """
import os, time
_file, _time_ns = os.environ["HEADRACE_TEST_CLOCK"], time.time_ns
def _now_ns():
    with open(_file) as words:
        return _time_ns() + int(words.read() or 0) * 1_000_000
time.time_ns = _now_ns
time.time = lambda: _now_ns() / 1e9
"""


class HostClock:
    """How wrong the clock is of a process that runs under `environment`."""

    def __init__(self, folder: Path) -> None:
        self._site = folder / "site"
        self._file = folder / "wrong_by_ms"

    def environment(self) -> dict[str, str]:
        """Write what such a process reads; return the variables that it needs."""
        self._site.mkdir(parents=True)
        (self._site / "sitecustomize.py").write_text(SITE)
        self.set_wrong_by(0)
        return {"PYTHONPATH": str(self._site), "HEADRACE_TEST_CLOCK": str(self._file)}

    def set_wrong_by(self, wrong_by_ms: int) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(str(wrong_by_ms))
        new.replace(self._file)
