"""Which sequence numbers the producers of a window named: the application's own records, for proofs. Pure."""

from typing import Any

from ...model.books import WindowBook
from ...model.packed_rows import joined

MOST_RANGES = 200
"""Of a window. A producer that sends in order has one range a partition, however many batches it sent."""


def sequences(window: WindowBook) -> dict[str, Any]:
    """Return the fewest ranges that name every batch that a producer sent and did not send again under other numbers.

    `acknowledged` ones stand in the log; `uncertain` ones may. `more`: ranges that are left out.
    """
    ranges = [
        {
            "end": end,
            "partition": key.partition,
            "producer_id": key.producer_id,
            "producer_epoch": key.producer_epoch,
            "first_sequence": first,
            "count": behind - first,
            "instance": run.instance,
        }
        for run, book in sorted(window.producers.items())
        for key, sent in sorted(book.sent.items())
        for end, rows in (("acknowledged", sent.acknowledged), ("uncertain", sent.uncertain))
        for first, behind in joined(rows)
    ]
    return {"ranges": ranges[:MOST_RANGES], "more": max(0, len(ranges) - MOST_RANGES)}
