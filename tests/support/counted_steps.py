"""How many steps of the interpreter a piece of work takes: the same in each run, whatever else the machine does."""

import gc
import sys
from collections.abc import Callable
from types import FrameType


def steps(work: Callable[[], object]) -> int:
    """Return the bytecodes that `work` runs on this thread. A loop inside a C function counts as one.

    Fault: a collection of garbage fell into the work, and the callback that Hypothesis has in `gc` was counted with it.
    """
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before, collected = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        work()
    finally:
        sys.settrace(before)
        if collected:
            gc.enable()
    return count
