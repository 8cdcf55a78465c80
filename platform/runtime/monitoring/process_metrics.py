"""Numbers that every process has: version, memory, processor time, open files. Names of Prometheus' own client libraries."""

import os
import resource
from pathlib import Path

from ... import __version__
from .text_format import Metric, one

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def process_metrics(role: str) -> list[Metric]:
    """Return them as they are now, read from /proc (Linux); what cannot be read is left out."""
    times = os.times()
    metrics = [
        Metric("headrace_info", "gauge", "Always 1. The labels name the process's role and version.", [_info(role)]),
        Metric("process_cpu_seconds_total", "counter", "Processor time, of user and system.", one(times.user + times.system)),
        Metric("process_max_fds", "gauge", "Files that may be open.", one(resource.getrlimit(resource.RLIMIT_NOFILE)[0])),
    ]
    try:
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
        started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / _TICKS
        boot_s = next(int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
        open_files = len(os.listdir("/proc/self/fd"))
    except (OSError, ValueError, IndexError, StopIteration):
        return metrics
    return [
        *metrics,
        Metric("process_resident_memory_bytes", "gauge", "Memory that is in use.", one(resident)),
        Metric("process_start_time_seconds", "gauge", "When the process began, since the epoch.", one(boot_s + started)),
        Metric("process_open_fds", "gauge", "Open files.", one(open_files)),
    ]


def _info(role: str) -> tuple[dict[str, str], float]:
    return {"role": role, "version": __version__}, 1
