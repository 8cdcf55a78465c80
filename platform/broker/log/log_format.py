"""The layout of a log's files. This code writes format 2: the offset gap of a batch is in front of its records. Format 1, written
until November 2026, had the gap behind them: base offset = position, last offset delta = advance - 1.

The first batch alone decides, so that a folder of format 1 is refused before anything in it is taken for damage and cut. Source:
decision 1.
"""

import os
from pathlib import Path

from ...wire.batch.record_batch import HEADER_SIZE, advance_of, crc_matches, read_header
from ...wire.errors import CorruptBatch
from .errors import OldFormat

LOG_FORMAT = 2


def refuse_format_1(path: Path, base_offset: int) -> None:
    """Raise `OldFormat` when the segment file at `path` begins with a batch of format 1. Raises OSError."""
    with path.open("rb") as file:
        try:
            header = read_header(file.read(HEADER_SIZE))
        except CorruptBatch:
            return
        advance = advance_of(header.size_bytes, header.record_count)
        if header.base_offset != base_offset or header.last_offset_delta != advance - 1 or header.is_dense:
            return
        if header.size_bytes <= os.fstat(file.fileno()).st_size:
            file.seek(0)
            if crc_matches(file.read(header.size_bytes), 0, header.size_bytes):
                raise OldFormat(path)
