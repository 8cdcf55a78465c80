"""CPU, memory and children of any process, read from /proc."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path


def cpu_s(pids: Sequence[int]) -> float:
    """Return the CPU seconds that these processes have used, to the microsecond where the kernel keeps it.

    `stat` counts in ticks of 10 ms and includes ended threads. `schedstat` is exact but knows living threads only; it is used
    unless `stat` shows half a second more.
    """
    total = 0.0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        exact = 0.0
        for thread in Path(f"/proc/{pid}/task").iterdir():
            try:
                exact += int((thread / "schedstat").read_text().split()[0]) / 1e9
            except (FileNotFoundError, ProcessLookupError):
                continue
        total += exact if ticks - exact < 0.5 else ticks
    return total


def rss_mb(pids: Sequence[int]) -> float:
    """Return the resident memory of these processes, in MB (10^6 bytes)."""
    total = 0
    for pid in pids:
        line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
        total += int(line.split()[1]) * 1024
    return total / 1e6


def descendants(pid: int) -> list[int]:
    """Return a process and everything it has started, itself first. Processes that end meanwhile are left out."""
    found = [pid]
    for known in found:
        with suppress(FileNotFoundError, ProcessLookupError):
            for thread in Path(f"/proc/{known}/task").glob("*/children"):
                found.extend(int(word) for word in _words(thread))
    return found


def processor_s(pid: int) -> float:
    """Return the processor time of a process and all that it has started, those included that have ended."""
    ticks = 0
    for one in descendants(pid):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def program(pid: int) -> str:
    """Return the name of the program that a process runs; empty when it has ended."""
    return " ".join(_words(Path(f"/proc/{pid}/comm")))


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []
