"""`make bench`: produce and fetch at three batch sizes beside the machine's own limits, interleaved, as a table and as JSON."""

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from . import machine, produce_fetch
from .produce_fetch import Figure


def _median(figures: list[Figure]) -> dict[str, float]:
    rows = [asdict(figure) for figure in figures]
    return {name: round(statistics.median(row[name] for row in rows), 3) for name in rows[0]}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds, of which the medians are taken (default: 5)")
    parser.add_argument("--json", type=Path, default=Path("bench/results/broker.json"), help="where the result is written")
    arguments = parser.parse_args()

    figures: dict[str, list[Figure]] = {}
    loopback: list[float] = []
    page_cache: list[float] = []
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder, produce_fetch.broker(Path(folder)) as broker:
        for turn in range(arguments.rounds):
            loopback.append(machine.loopback_mb_per_s())
            page_cache.append(machine.page_cache_mb_per_s())
            for shape, (count, settings) in produce_fetch.SHAPES.items():
                print(f"round {turn + 1} of {arguments.rounds}: {shape}, {count:,} messages", file=sys.stderr, flush=True)
                topic = f"bench-{shape.replace(' ', '-')}-{turn}"
                produced = produce_fetch.produce(broker.address, broker.pid, topic, count, settings)
                fetched = produce_fetch.fetch(broker.address, broker.pid, topic, count)
                figures.setdefault(f"produce, {shape}", []).append(produced)
                figures.setdefault(f"fetch, {shape}", []).append(fetched)

    limit = statistics.median(loopback)
    medians = {name: _median(found) for name, found in figures.items()}
    print(f"{'200-byte messages, medians':<28} {'messages/s':>12} {'MB/s':>8} {'of loopback':>12} {'broker CPU s/M':>15}")
    for name, row in medians.items():
        share = row["mb_per_s"] / limit
        row["share_of_loopback"] = round(share, 4)
        print(
            f"{name:<28} {row['messages_per_s']:>12,.0f} {row['mb_per_s']:>8.1f} {share:>11.1%} "
            f"{row['broker_cpu_s_per_million']:>15.2f}"
        )
    print(f"loopback TCP {limit:,.0f} MB/s, page-cache write {statistics.median(page_cache):,.0f} MB/s, in the same run")
    result = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": machine.description(),
        "rounds": arguments.rounds,
        "message_bytes": len(produce_fetch.MESSAGE),
        "limits_mb_per_s": {"loopback": round(limit, 1), "page_cache_write": round(statistics.median(page_cache), 1)},
        "medians": medians,
    }
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {arguments.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
