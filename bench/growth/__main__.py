"""`python -m bench.growth`: grows one platform to 100, 1,000 and 5,000 topics and measures what they cost.

Prints JSON. With `--page` docs/GROWTH.md is written from it. Processor time is read from /proc, so other load on the machine
changes the seconds of the clock, and the shares little.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from . import page
from .measures import ALL
from .world import World

SIZES = (0, 100, 1_000, 5_000)


def main() -> int:
    names = [measure.name for measure in ALL]
    parser = argparse.ArgumentParser(
        prog="python -m bench.growth",
        description=__doc__,
        epilog=f"measures: {', '.join(names)}\n\nexample: python -m bench.growth --topics 0,100 --only rest",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--topics", default=",".join(map(str, SIZES)), help="numbers of topics, growing (default %(default)s)")
    parser.add_argument("--only", default=",".join(names), metavar="MEASURES", help="measure these alone, commas between")
    parser.add_argument("--rest-s", type=float, default=20, help="how long rest is watched (default %(default)s)")
    parser.add_argument("--no-audit", action="store_true", help="run without an audit service")
    parser.add_argument("--page", action="store_true", help=f"write {page.PATH} and {page.FIGURE}")
    parser.add_argument("--draw", type=Path, metavar="JSON", help=f"measure nothing: write {page.PATH} from an earlier result")
    arguments = parser.parse_args()
    if arguments.draw is not None:
        page.write(json.loads(arguments.draw.read_text()))
        return 0
    wanted = arguments.only.split(",")
    if unknown := sorted(set(wanted) - set(names)):
        parser.error(f"no measure called {', '.join(unknown)} (there are: {', '.join(names)})")
    # SIGTERM becomes an exception, so that `finally` stops the processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    result: dict[str, Any] = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "has_audit": not arguments.no_audit}
    result["rows"] = []
    with tempfile.TemporaryDirectory(prefix="headrace-growth-") as name:
        world = World(Path(name), has_audit=not arguments.no_audit)
        try:
            world.start()
            for topics in map(int, arguments.topics.split(",")):
                row: dict[str, Any] = {"topics": topics, "figures": {}}
                for measure in ALL:
                    if measure.name == "grow" and topics <= len(world.topics):
                        continue
                    if measure.name in wanted or measure.name == "grow":
                        print(f"{topics} topics: {measure.title.lower()}", file=sys.stderr)
                        row["figures"][measure.name] = dict(measure.run(world, topics, arguments.rest_s))
                        print(json.dumps(row["figures"][measure.name]), file=sys.stderr)
                row["load_average"] = round(os.getloadavg()[0], 1)
                result["rows"].append(row)
        finally:
            world.close()
    print(json.dumps(result, indent=1))
    if arguments.page:
        page.write(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
