"""Record batches: the public names of `batch_header`, `record`, `batch_builder` and `batch_placement`."""

from .batch_builder import BatchBuilder
from .batch_header import (
    HEADER_SIZE,
    LENGTH_PREFIX_SIZE,
    TIMESTAMPS_BOUNDED,
    BatchHeader,
    Buffer,
    advance_of,
    crc_matches,
    iter_batches,
    read_header,
)
from .batch_placement import place
from .record import MAX_DECOMPRESSED_BYTES, Record, is_surely_between, iter_records, iter_timestamps, unpacked_records

__all__ = [
    "HEADER_SIZE",
    "LENGTH_PREFIX_SIZE",
    "MAX_DECOMPRESSED_BYTES",
    "TIMESTAMPS_BOUNDED",
    "BatchBuilder",
    "BatchHeader",
    "Buffer",
    "Record",
    "advance_of",
    "crc_matches",
    "is_surely_between",
    "iter_batches",
    "iter_records",
    "iter_timestamps",
    "place",
    "read_header",
    "unpacked_records",
]
