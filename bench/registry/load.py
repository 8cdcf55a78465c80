"""A bounded load of HTTP requests on keep-alive connections of this process, and the time of each."""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    failed: int
    server_cpu_ms: float
    """CPU time of the server's process for one request: what a busy machine does not change much."""

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds


Request = Callable[[int], bytes]
"""The bytes of request number n."""


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: registry\r\n\r\n".encode()


def post(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: registry\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def measure(port: int, request: Request, *, pid: int, connections: int, requests: int) -> Measured:
    """Return what `requests` requests took over `connections` connections, each with one request at a time; `pid`: the
    server.
    """
    before = _cpu_s(pid)
    found = asyncio.run(_measure(port, request, connections, requests))
    return replace(found, server_cpu_ms=1000 * (_cpu_s(pid) - before) / requests)


def _cpu_s(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


async def _measure(port: int, request: Request, connections: int, requests: int) -> Measured:
    numbers = iter(range(requests))
    took: list[float] = []
    failed = 0

    async def one() -> None:
        nonlocal failed
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in numbers:
            began = time.perf_counter()
            writer.write(request(number))
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(length)
            took.append(time.perf_counter() - began)
            failed += not head.startswith(b"HTTP/1.1 200")
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(connections)))
    seconds = time.perf_counter() - began
    took.sort()
    return Measured(
        requests=len(took),
        seconds=seconds,
        p50_ms=1000 * took[len(took) // 2],
        p99_ms=1000 * took[len(took) * 99 // 100],
        failed=failed,
        server_cpu_ms=0,
    )
