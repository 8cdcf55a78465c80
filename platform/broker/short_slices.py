"""The loop's thread asks the system for short turns on a processor, so that it is let in sooner when something has come for it.

Linux gives a thread that wakes the processor at once only when its turn would end before the running one's; with turns as long
as everybody's (3 ms) a busy machine lets a request wait that long. From 6.12 on a thread may ask for shorter ones, and is owed
no more time for it; an older system, or none of Linux, stays as it is. sched_setattr(2); Python has no name for it."""

import ctypes
import os
import struct

TURN_NS = 100_000
"""The least that the system grants."""
_CALL = {"x86_64": 314, "aarch64": 274}
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")
"""size, policy, flags, nice, priority, runtime, deadline, period: the first version of struct sched_attr."""


def ask_for_short_turns() -> bool:
    """Ask for this thread; return whether the system has taken note."""
    number = _CALL.get(os.uname().machine)
    if number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    asked = ctypes.create_string_buffer(_ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, TURN_NS, 0, 0))
    return ctypes.CDLL(None).syscall(number, 0, asked, 0) == 0  # type: ignore[no-any-return]
