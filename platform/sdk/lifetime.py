"""What happens to a process happens to its loggers: it forks, it exits, it is told to end by a signal.

Nothing here runs before the first logger is made: importing the SDK registers nothing and starts nothing.
"""

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from types import FrameType
from typing import Protocol

from ..errors import HeadraceError
from ..runtime.logs import get_library_logger

log = get_library_logger(__name__)


class Living(Protocol):
    """A logger, as far as the end of its process concerns it."""

    topic: str
    exit_timeout_ms: int

    def close(self, timeout_ms: int) -> None: ...

    def is_inside(self) -> bool: ...

    def restart_after_fork(self) -> None: ...


open_loggers: dict[int, Living] = {}
"""By id: those that are neither closed nor refused. Held here: a logger that the application forgets is closed at exit."""
_closing: set[int] = set()
"""Threads inside `close_all`."""
_watched_in = 0
_has_warned = False
_AGAIN_S = 0.01
_GRACE_S = 1.0
"""For what a close does without waiting, on a busy machine."""


def watch(logger: Living) -> None:
    """Close the logger at the end of this process, and have it continue in the children."""
    global _watched_in
    open_loggers[id(logger)] = logger
    if not _watched_in:
        atexit.register(close_all)
        os.register_at_fork(after_in_child=_forked)
    _watched_in = os.getpid()


def warn_of_sigterm() -> None:
    """Warn, once a process, if SIGTERM will end it without a close: the windows that its loggers hold are UNKNOWN then."""
    global _has_warned
    if not _has_warned and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        log.warning(
            "sigterm_ends_loggers_unsealed",
            reason="nothing handles SIGTERM yet: it would end this process with events in memory, and the audit could not decide "
            "the windows that it holds",
            advice="call headrace.sdk.close_on_signals() once the application has set its own handlers",
        )
    _has_warned = True


def forget(logger: Living) -> bool:
    """Leave the logger alone from now on; return whether it was watched."""
    return open_loggers.pop(id(logger), None) is not None


def watch_child() -> None:
    """Close this process's loggers even where it ends without `atexit`, as children of multiprocessing, billiard and Celery do.
    Called in a child that logs.
    """
    if _is_child_of_multiprocessing() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        # `Pool.terminate()`, which ends `with Pool()`, sends SIGTERM: its default would end the child with what it holds.
        close_on_signals([signal.SIGTERM])
    for name in ("multiprocessing.util", "billiard.util"):
        module = sys.modules.get(name)
        if module is not None:
            module.Finalize(None, close_all, exitpriority=0)
    # Celery's pool leaves the finalizers out too.
    celery_signals = sys.modules.get("celery.signals")
    if celery_signals is not None:
        celery_signals.worker_process_shutdown.connect(_close_at_shutdown, weak=False)


def _is_child_of_multiprocessing() -> bool:
    """Return whether multiprocessing began this process, and this is the thread that may set a handler."""
    process = sys.modules.get("multiprocessing.process")
    is_child = process is not None and process.parent_process() is not None
    return is_child and threading.current_thread() is threading.main_thread()


def close_all() -> None:
    """Close every open logger, all of them within the longest `exit_timeout_ms` of one."""
    _closing.add(threading.get_ident())
    try:
        _close_each(list(open_loggers.values()))
    finally:
        _closing.discard(threading.get_ident())


def _close_each(loggers: list[Living]) -> None:
    deadline = time.monotonic() + max((logger.exit_timeout_ms for logger in loggers), default=0) / 1000
    for at, logger in enumerate(loggers):
        # Each has its share of what is left, so that one that waits in vain takes no time from the others.
        left_ms = max(0, int((deadline - time.monotonic()) * 1000)) // (len(loggers) - at)
        try:
            logger.close(min(logger.exit_timeout_ms, left_ms))
        except HeadraceError as error:
            log.error("logger_not_closed_at_exit", topic=logger.topic, reason=str(error))


def close_on_signals(signals: Iterable[int] = (signal.SIGTERM, signal.SIGINT)) -> None:
    """Close all loggers when one of the signals comes, then do what was done with it before: the handler that is there, or its
    default. Call it in the main thread, after the application's own handlers are set. The SDK never does so by itself.
    """
    for number in signals:
        before = signal.getsignal(number)

        def handle(number: int, frame: FrameType | None, before: object = before) -> None:
            loggers = list(open_loggers.values())
            if threading.get_ident() in _closing or any(logger.is_inside() for logger in loggers):
                # This very thread was interrupted inside a logger, or closing all (a pool's worker is told to end, and then sent
                # SIGTERM at once): it continues first, and the signal comes again.
                again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))
                again.daemon = True
                again.start()
                return
            # In a thread of its own, so that its locks are not this thread's.
            closing = threading.Thread(target=close_all, name="headrace-close", daemon=True)
            closing.start()
            closing.join(_GRACE_S + max((logger.exit_timeout_ms for logger in loggers), default=0) / 1000)
            if callable(before):
                before(number, frame)
            elif before == signal.SIG_DFL:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)

        signal.signal(number, handle)


def _close_at_shutdown(**_: object) -> None:
    close_all()


def _forked() -> None:
    for logger in list(open_loggers.values()):
        logger.restart_after_fork()
