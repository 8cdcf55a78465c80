"""Reading for an event loop: a thread reads ahead into a bounded queue, and learns which records are done.

Cancelling is safe: what was not done is not committed, and another member, or the next start, reads it again.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable

from ..runtime.lifecycle import StopSignal
from .errors import HandlerFailed
from .handling import PAUSE, OnError, Stop, reason_of
from .handoff import Handoff
from .record import EventRecord
from .steered_loop import SteeredLoop

AsyncHandler = Callable[[EventRecord], Awaitable[object]]


class AsyncReading:
    """One member and its thread. Everything public belongs to the event loop."""

    def __init__(self, loop: SteeredLoop, handoff: Handoff, stop: StopSignal) -> None:
        self.loop, self.handoff, self._stop = loop, handoff, stop
        self._record: EventRecord | None = None
        """What an iteration has in hand."""
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"read-{loop.settings.consumer_id}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def next(self) -> EventRecord | None:
        """Return the next record; asking says that the last one is done. None at the end. Raises what ended the reading."""
        record, self._record = self._record, None
        if record is not None:
            self.handoff.done(record)
        self._record = await self.handoff.get()
        if self._record is None:
            await self._ended()
        return self._record

    async def leave(self, *, is_done: bool) -> None:
        """Commit what is done and leave the group; also when cancelled. `is_done`: the record in hand is. Raises what ended the
        reading, if it is not known yet.
        """
        record, self._record = self._record, None
        if record is not None:
            (self.handoff.done if is_done else self.handoff.drop)(record)
        self._stop.set()
        await self._ended(raises=is_done)

    async def run(self, handle: AsyncHandler, on_error: OnError, concurrency: int) -> None:
        """Call `handle` with each record, so many at a time, until the stop. Raises HandlerFailed and what ended the reading."""
        failures: list[HandlerFailed] = []

        async def work() -> None:
            while (record := await self.handoff.get()) is not None:
                failure = await self._handle(handle, record, on_error)
                if failure is not None:
                    failures.append(failure)
                    self._stop.set()

        workers = [asyncio.ensure_future(work()) for _ in range(concurrency)]
        try:
            await asyncio.gather(*workers)
        finally:
            for one in workers:
                one.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self._stop.set()
            await self._ended(raises=False)
        if failures:
            raise failures[0] from failures[0].__cause__
        if self._error is not None:
            raise self._error

    async def _handle(self, handle: AsyncHandler, record: EventRecord, on_error: OnError) -> HandlerFailed | None:
        attempt, is_over = 0, False
        try:
            while True:
                try:
                    await handle(record)
                    failed = None
                    break
                except Exception as error:
                    attempt += 1
                    if isinstance(on_error, Stop):
                        failure = HandlerFailed(record, error)
                        failure.__cause__ = error
                        return failure
                    if attempt >= on_error.after:
                        failed = reason_of(attempt, error)
                        break
                await asyncio.sleep(PAUSE.wait_ms(attempt - 1) / 1000)
                if self._stop.is_set():
                    return None
            self.handoff.done(record, failed)
            is_over = True
        finally:
            if not is_over:  # failed, cancelled, or given up at the stop: it is read again
                self.handoff.drop(record)
        return None

    async def _ended(self, *, raises: bool = True) -> None:
        """Return when the thread has ended. A cancellation waits for it, too: only then nothing is half done."""
        ended = asyncio.get_running_loop().run_in_executor(None, self._thread.join)
        cancelled: asyncio.CancelledError | None = None
        while not ended.done():
            try:
                await asyncio.shield(ended)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
        if raises and self._error is not None:
            known, self._error = self._error, None
            raise known

    # ---- the thread

    def _run(self) -> None:
        try:
            try:
                self.loop.start(self._stop)
                while not self._stop.is_set():
                    self.loop.read_ahead()
                self.handoff.end()
                while self.handoff.has_in_hand():
                    self.loop.attend()
            finally:
                self.loop.close()
        except BaseException as error:
            self._error = error
        finally:
            self.handoff.end()
