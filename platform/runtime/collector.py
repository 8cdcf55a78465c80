"""Garbage collection in processes whose work makes no reference cycles: it is only to look now and then."""

import gc


def freeze_live_objects() -> None:
    """Exempt the present objects from garbage collection, and run it less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
