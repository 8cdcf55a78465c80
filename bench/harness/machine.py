"""The machine of a run, and its physical limits, measured in the same run."""

import importlib.metadata
import os
import platform
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

_BLOCK = bytes(256 * 1024)


def description() -> dict[str, Any]:
    """Return what a reader needs to judge the figures."""
    memory_kib = next(
        (int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal")), 0
    )
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown",
    )
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gib": round(memory_kib / 2**20, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average_before": round(os.getloadavg()[0], 2),
        "confluent_kafka": importlib.metadata.version("confluent-kafka"),
    }


def limits() -> dict[str, float]:
    """Return what nothing here can exceed, in MB/s: loopback TCP, and writing to the page cache."""
    return {"loopback_tcp": round(loopback_mb_per_s(), 1), "page_cache_write": round(page_cache_mb_per_s(), 1)}


def loopback_mb_per_s(total_bytes: int = 512 * 2**20) -> float:
    """Return how fast one thread sends to another over loopback TCP in 256 KiB blocks: nothing on the wire can be faster."""
    listener = socket.create_server(("127.0.0.1", 0))

    def send() -> None:
        with socket.create_connection(listener.getsockname()) as out:
            for _ in range(total_bytes // len(_BLOCK)):
                out.sendall(_BLOCK)

    sender = threading.Thread(target=send)
    began = time.perf_counter()
    sender.start()
    with listener, listener.accept()[0] as incoming:
        buffer = bytearray(len(_BLOCK))
        received = 0
        while received < total_bytes:
            received += incoming.recv_into(buffer)
    took = time.perf_counter() - began
    sender.join()
    return total_bytes / took / 1e6


def page_cache_mb_per_s(total_bytes: int = 256 * 2**20) -> float:
    """Return how fast a file takes blocks of 256 KiB without a sync. The first writing, into cold pages, is not timed."""
    with tempfile.TemporaryFile() as file:
        for _ in range(total_bytes // len(_BLOCK)):
            file.write(_BLOCK)
        file.seek(0)
        began = time.perf_counter()
        for _ in range(total_bytes // len(_BLOCK)):
            file.write(_BLOCK)
        file.flush()
        return total_bytes / (time.perf_counter() - began) / 1e6
