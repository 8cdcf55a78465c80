"""What pyiceberg opens of a table's files, by kind: metadata, lists of manifests, manifests, data. Counted, for tests of cost."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFile


@contextmanager
def opened_files() -> Iterator[Counter[str]]:
    """Yield a counter of opened files by kind, and of their bytes under `<kind> bytes`; it continues until the end.

    pyiceberg opens files on several threads.
    """
    found, lock = Counter[str](), threading.Lock()
    open_before = PyArrowFile.open

    def counting(self: PyArrowFile, *words: Any, **named: Any) -> Any:
        kind, size = _kind(self.location.rpartition("/")[2]), len(self)
        with lock:
            found[kind] += 1
            found[f"{kind} bytes"] += size
        return open_before(self, *words, **named)

    PyArrowFile.open = counting  # type: ignore[method-assign]
    try:
        yield found
    finally:
        PyArrowFile.open = open_before  # type: ignore[method-assign]


def _kind(name: str) -> str:
    if name.endswith(".metadata.json"):
        return "metadata"
    if name.endswith(".avro"):
        return "list" if name.startswith("snap-") else "manifest"
    return "data"
