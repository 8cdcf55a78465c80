"""`make audit-scale`: makes a store with many topics and measures an audit service on it.

Prints one JSON object. 10,000 topics take about 6 GB and a quarter of an hour to make; `--keep` keeps the store for the next run.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from . import checkpoints, service, store

FEW_TOPICS = 100
"""Up to so many, a report of all is measured, too."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.audit_scale",
        description=__doc__,
        epilog="example: python -m bench.audit_scale --topics 100 --days 4",
    )
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--window-days", type=int, default=3, help="days by window, ten minutes each (default %(default)s)")
    parser.add_argument("--days", type=int, default=87, help="days before, added up by day (default %(default)s)")
    parser.add_argument("--idle-s", type=float, default=60, help="how long the idle service is watched (default %(default)s)")
    parser.add_argument("--store", help="where to make the store, or where one is (default: a temporary folder)")
    parser.add_argument("--keep", action="store_true", help="use the store where it is")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-audit-scale-") as name:
        folder = Path(name)
        address = arguments.store or str(folder / "books.sqlite")
        began = time.monotonic()
        if not arguments.keep:
            store.make(
                address, arguments.topics,
                by_window_days=arguments.window_days, days=arguments.days, losing_every=100, progress=_say,
            )  # fmt: skip
        made_s = time.monotonic() - began
        found = {"made_s": round(made_s, 1), **measure(folder, address, arguments.topics, arguments.idle_s)}
        # Last, for it continues with the store's history.
        found["checkpoints"] = checkpoints.measure(address, arguments.topics, progress=_say)
        print(service.as_json(found))
    return 0


def measure(folder: Path, address: str, topics: int, idle_s: float) -> dict[str, object]:
    """Return the figures: milliseconds, bytes, shares of a core."""
    found: dict[str, object] = {"topics": topics, "store_bytes": store.size_bytes(address), "rows": store.row_counts(address)}
    running = service.Service(folder, address)
    try:
        _say("measuring")
        found["restart_ms"] = round(running.ready_ms)
        found["memory_at_start"] = running.memory()
        some = store.topic_name(topics // 2)
        for what, path in {
            "newest_of_a_topic": f"/api/completeness?topic={some}&newest=100&stored=1",
            "overview": "/api/overview",
            "windows_of_a_topic": f"/api/completeness?topic={some}",
            "days_of_a_topic": f"/api/completeness?topic={some}&by=day",
            "first_page_of_all_windows": "/api/completeness",
            "summary": "/api/summary",
            "topics": "/api/topics",
            "metrics": "/metrics",
        }.items():
            first_ms, later_ms, size = running.ask(path)
            found[what] = {"first_ms": round(first_ms), "later_ms": round(later_ms), "bytes": size}
        took_ms, size = service.report_ms(running.url, some)
        found["report_of_a_topic"] = {"ms_with_start_of_python": round(took_ms), "bytes": size}
        if topics <= FEW_TOPICS:
            took_ms, size = service.report_ms(running.url, None)
            found["report_of_all"] = {"ms_with_start_of_python": round(took_ms), "bytes": size}
        for number in range(0, topics, max(1, topics // 500)):
            running.ask(f"/api/completeness?topic={store.topic_name(number)}&newest=100", times=2)
        found["memory_after_500_topics"] = running.memory()
        found["idle_share_of_a_core"] = round(running.cpu_share(idle_s), 4)
    finally:
        running.close()
    again = service.Service(folder, address)
    found["restart_again_ms"] = round(again.ready_ms)
    again.close()
    return found


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
