"""How many steps of the interpreter a piece of work takes: the same in each run, whatever else the machine does."""

import sys
from collections.abc import Callable
from types import FrameType


def steps(work: Callable[[], object]) -> int:
    """Return the bytecodes that `work` runs on this thread. A loop inside a C function counts as one."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        work()
    finally:
        sys.settrace(before)
    return count
