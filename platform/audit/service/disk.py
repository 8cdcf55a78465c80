"""Whether the store has room for the next write."""

from pathlib import Path

from ...runtime.disk_room import why_full


def why_no_room(store: str) -> str | None:
    """Return why the next write to the store may fail; None where there is room, and for a store on a server."""
    return None if "://" in store else why_full(Path(store).absolute().parent, "the store's folder")
