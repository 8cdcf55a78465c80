"""Asks the warehouse in a process of its own: reading a table takes 350 MB and seconds, which a console is not to keep.

The page says that the answer is on its way, and shows the one before it, if there is one. One process runs at a time.
"""

import json
import subprocess
import sys
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from ..runtime.clock import Clock
from ..runtime.layout import Layout

FRESH_MS = 60_000
WITHIN_S = 60
MOST_REMEMBERED = 64
MOST_WAITING = 8
"""Questions that wait for the process; beyond it a page is told to ask again."""
MOST_ANSWER_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What is known of a question now."""

    answer: dict[str, Any] | None
    """None: nothing yet, or it failed."""
    age_ms: int | None
    is_asking: bool
    """A newer answer is on its way."""
    fault: str = ""


class Asking:
    """Any thread may ask."""

    def __init__(self, layout: Layout, clock: Clock) -> None:
        self._layout = layout
        self._clock = clock
        self._lock = threading.Lock()
        self._one = threading.Lock()
        self._answers: OrderedDict[tuple[str, ...], tuple[int, dict[str, Any] | None, str]] = OrderedDict()
        self._under_way: set[tuple[str, ...]] = set()
        self._child: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def ask(self, *question: str) -> Found:
        """Return the last answer at once; have it asked anew where it is old."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            at_ms, answer, fault = self._answers.get(question, (None, None, ""))
            age_ms = None if at_ms is None else now_ms - at_ms
            if question not in self._under_way and (age_ms is None or age_ms > FRESH_MS) and not self._is_closed:
                if len(self._under_way) >= MOST_WAITING:
                    return Found(answer=answer, age_ms=age_ms, is_asking=True, fault=fault)
                self._under_way.add(question)
                threading.Thread(target=self._run, args=(question,), name="warehouse-question", daemon=True).start()
            return Found(answer=answer, age_ms=age_ms, is_asking=question in self._under_way, fault=fault)

    def close(self) -> None:
        """End the process that reads, if one does."""
        with self._lock:
            self._is_closed = True
            if self._child is not None:
                self._child.kill()

    def _run(self, question: tuple[str, ...]) -> None:
        answer, fault = None, ""
        try:
            with self._one:
                answer, fault = self._asked(question)
        finally:
            with self._lock:
                self._under_way.discard(question)
                self._answers[question] = (self._clock.monotonic_ms(), answer, fault)
                self._answers.move_to_end(question)
                while len(self._answers) > MOST_REMEMBERED:
                    self._answers.popitem(last=False)

    def _asked(self, question: tuple[str, ...]) -> tuple[dict[str, Any] | None, str]:
        with self._lock:
            if self._is_closed:
                return None, "the console stops"
            child = self._child = subprocess.Popen(
                [sys.executable, "-m", "headrace.console.warehouse_reader", *question],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        try:
            out, errors = child.communicate(timeout=WITHIN_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            return None, f"the warehouse gave no answer within {WITHIN_S} s"
        finally:
            with self._lock:
                self._child = None
        if child.returncode or len(out) > MOST_ANSWER_BYTES:
            lines = errors.decode(errors="replace").strip().splitlines()
            return None, lines[-1][:500] if lines else f"the reader of the warehouse ended with {child.returncode}"
        answer: dict[str, Any] = json.loads(out)
        return answer, ""
