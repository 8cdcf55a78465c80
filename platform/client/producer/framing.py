"""How a record is framed as it is appended: in C where `headrace_native` is installed, else as `wire.batch.record_frame` does."""

from collections.abc import Callable

from ...runtime.native import native
from ...wire.batch import record_frame

frame_record: Callable[[int, int, bytes | None, bytes, bytes], bytes] = (
    record_frame.frame_record if native is None else native.frame_record
)
"""(Delta in ms, offset delta, key, prefix, body) → a record without headers, whose value is prefix + body."""
