"""Server-sent events from a thread that reads: rows as JSON, a bounded number of them in flight, an end with the client's."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from ..errors import HeadraceError

MOST_STREAMS = 16
MOST_WAITING = 200
"""Rows that the client has not taken yet; newer ones are counted and left out."""
TOGETHER_S = 0.25
"""Rows of this time are sent in one event."""
STILL_HERE_S = 15.0
LONGEST_S = 600.0
"""Then the stream ends, and the browser asks anew."""

Rows = Iterator[dict[str, Any]]


class Streams:
    """How many streams are open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0

    def take(self) -> bool:
        """Return whether there is room for one more."""
        with self._lock:
            if self.count >= MOST_STREAMS:
                return False
            self.count += 1
            return True

    def leave(self) -> None:
        with self._lock:
            self.count -= 1


async def events(streams: Streams, begin: Callable[[Callable[[], bool]], Rows]) -> AsyncIterator[bytes]:
    """Yield events until the client goes, the reading ends, or `LONGEST_S`.

    `begin` is called on the thread with a function that says when to stop, and returns the rows.
    """
    if not streams.take():
        yield _ended(f"{MOST_STREAMS} live streams are open already: close one")
        return
    loop = asyncio.get_running_loop()
    waiting: list[dict[str, Any]] = []
    left_out = 0
    fault: str | None = None
    is_done = False
    stop = threading.Event()
    news = asyncio.Event()

    def take(row: dict[str, Any]) -> None:
        nonlocal left_out
        if len(waiting) < MOST_WAITING:
            waiting.append(row)
        else:
            left_out += 1
        news.set()

    def end(why: str | None) -> None:
        nonlocal fault, is_done
        fault, is_done = why, True
        news.set()

    def read() -> None:
        why: str | None = None
        try:
            for row in begin(stop.is_set):
                if stop.is_set():
                    break
                loop.call_soon_threadsafe(take, row)
        except HeadraceError as error:
            why = str(error)
        except RuntimeError:
            return  # the loop is closed: nobody is there
        finally:
            streams.leave()
        if not loop.is_closed():
            loop.call_soon_threadsafe(end, why)

    threading.Thread(target=read, name="console-live", daemon=True).start()
    deadline = loop.time() + LONGEST_S
    try:
        yield b": the stream has begun\n\n"
        while loop.time() < deadline:
            try:
                await asyncio.wait_for(news.wait(), STILL_HERE_S)
            except TimeoutError:
                yield b": still here\n\n"
                continue
            await asyncio.sleep(TOGETHER_S)
            news.clear()
            if waiting or left_out:
                rows, count = waiting[:], left_out
                waiting.clear()
                left_out = 0
                yield b"data: " + json.dumps({"rows": rows, "left_out": count}).encode() + b"\n\n"
            if is_done:
                yield _ended(fault or "the reading ended")
                return
    finally:
        stop.set()


def _ended(why: str) -> bytes:
    return b"event: ended\ndata: " + json.dumps(why).encode() + b"\n\n"
