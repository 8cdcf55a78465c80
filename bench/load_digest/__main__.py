"""`python -m bench.load_digest`: measures loads with and without the digest of the rows, in pairs, and prints one JSON object.

Two processes, each with a warm JVM, load the same topic in turn, each time into an empty warehouse. Processor time is that of the
process with all that it has started (JVM, Python's workers), not that of the broker. Who is first changes from pair to pair.
Without the start of a JVM in them, the loads are cheaper than a whole `headrace load`: the digest's share is at most as shown.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from ..harness import proc_meters
from . import sides, topic

STOP_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One load."""

    side: str
    wall_s: float
    processor_s: float


class Side:
    """One of the two processes."""

    def __init__(self, name: str, package: Path, addresses: topic.Addresses, rows: int, log: Path) -> None:
        self._name = name
        self._rows = rows
        command = [sys.executable, str(Path(__file__).with_name("one_side.py")), topic.NAME]
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [*command, addresses.bootstrap, addresses.registry_url],
                # A JVM that continues after a load makes its scratch folder again.
                env={**os.environ, "PYTHONPATH": str(package), "TMPDIR": str(log.parent)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._log = log

    def load(self, folder: Path) -> Load:
        """Load everything into a new warehouse there. Raises RuntimeError for a load that was not as it should be."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        before, began = proc_meters.processor_s(self._process.pid), time.monotonic()
        self._process.stdin.write(f"{folder}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        wall_s, processor_s = time.monotonic() - began, proc_meters.processor_s(self._process.pid) - before
        if not answer:
            raise RuntimeError(f"the load failed:\n{self._log.read_text(errors='replace')[-3000:]}")
        words = json.loads(answer)
        if words["rows"] != self._rows or bool(words["partitions_with_digests"]) != (self._name == sides.WITH):
            raise RuntimeError(f"the side {self._name} loaded {words} of {self._rows} rows: not what was asked")
        print(f"{self._name:<8} {processor_s:6.2f} s of processor, {wall_s:6.2f} s", file=sys.stderr, flush=True)
        return Load(side=self._name, wall_s=round(wall_s, 2), processor_s=round(processor_s, 2))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.load_digest", description=__doc__, epilog="example: python -m bench.load_digest --pairs 7"
    )
    parser.add_argument("--rows", type=int, default=500_000, help="events in the topic (default %(default)s)")
    parser.add_argument("--pairs", type=int, default=5, help="(default %(default)s)")
    arguments = parser.parse_args()
    if arguments.rows < 1 or arguments.pairs < 1:
        parser.error("--rows and --pairs are at least 1")
    with tempfile.TemporaryDirectory(prefix="headrace-load-digest-") as name:
        folder = Path(name)
        with topic.serving(folder) as addresses:
            print(f"writing {arguments.rows:,} events", file=sys.stderr, flush=True)
            topic.fill(addresses, arguments.rows)
            with _both(folder, addresses, arguments.rows) as both:
                for side in both:
                    both[side].load(folder / f"warm-up-{side}")
                pairs = []
                for number in range(arguments.pairs):
                    order = (sides.WITH, sides.WITHOUT) if number % 2 == 0 else (sides.WITHOUT, sides.WITH)
                    pairs.append({side: both[side].load(folder / f"{number}-{side}") for side in order})
    print(json.dumps(_result(arguments.rows, pairs), indent=2))
    return 0


@contextmanager
def _both(folder: Path, addresses: topic.Addresses, rows: int) -> Iterator[Mapping[str, Side]]:
    packages = sides.make(folder / "sides")
    both = {name: Side(name, package, addresses, rows, folder / f"{name}.log") for name, package in packages.items()}
    try:
        yield both
    finally:
        for side in both.values():
            side.close()


def _result(rows: int, pairs: list[dict[str, Load]]) -> dict[str, object]:
    def ratios(name: str) -> dict[str, object]:
        found = sorted(getattr(pair[sides.WITH], name) / getattr(pair[sides.WITHOUT], name) for pair in pairs)
        medians = {side: statistics.median(getattr(pair[side], name) for pair in pairs) for side in (sides.WITH, sides.WITHOUT)}
        return {
            "ratios": [round(one, 3) for one in found],
            "median_ratio": round(statistics.median(found), 3),
            "ratio_of_medians": round(medians[sides.WITH] / medians[sides.WITHOUT], 3),
            "medians_s": medians,
        }

    return {
        "rows": rows,
        "processor": ratios("processor_s"),
        "wall": ratios("wall_s"),
        "loads": [asdict(one) for pair in pairs for one in pair.values()],
    }


if __name__ == "__main__":
    sys.exit(main())
