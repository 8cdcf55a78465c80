"""From an event to its Avro body, or to the reason why not. Pure: no schema id, no clock.

`event_encoder` is the entry point. `program` describes a schema in the few words that a writer needs; `python_writer` makes
Python code of it. Both know the usual shapes of data only; for everything else, and for every refusal, `reference` decides:
fastavro's validation and writer.
"""

from .event_encoder import EventEncoder, event_time_ms_of

__all__ = ["EventEncoder", "event_time_ms_of"]
