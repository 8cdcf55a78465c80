"""What a destination is to the reader: a processor that holds records until it is flushed."""

from ...errors import HeadraceError
from ...reader.processor import Processor, ProcessorAway, RefusedRecord
from ...reader.record import EventRecord

__all__ = ["EventRecord", "ProcessorAway", "RefusedRecord", "Sink", "SinkRefused"]

Sink = Processor


class SinkRefused(HeadraceError):
    """The destination cannot be used with these settings: its table has other columns, say."""
