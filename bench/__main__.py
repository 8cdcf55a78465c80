"""`make bench`: measures Headrace, Apache Kafka, RabbitMQ, ActiveMQ, NATS JetStream and Redis Streams side by side in one run.

Writes JSON, and from it the figures and docs/BENCHMARKS.md. Installs nothing: what is missing is skipped by name.
"""

import argparse
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

from .harness import machine, runner
from .harness.servers import Servers
from .measures import ALL
from .peers.makers import makers
from .report import against_base, document, figures, targets

_RESULT = Path("bench/results/broker.json")
_PAGE = Path("docs/BENCHMARKS.md")
_FILES = 65_536


def main() -> int:
    names = [measure.name for measure in ALL]
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"measures: {', '.join(names)}\n\nexample: python -m bench --only produce,consume --rounds 7",
    )
    parser.add_argument("--rounds", type=int, help="interleaved rounds, of which the medians are taken (default: 5, quick: 1)")
    parser.add_argument(
        "--only", default="", metavar="MEASURES", help="measure these alone, commas between; nothing is written to docs/"
    )
    parser.add_argument("--quick", action="store_true", help="a fifth of the messages, one round: does it all run?")
    parser.add_argument("--ours", action="store_true", help="measure no peer; nothing is written to docs/")
    parser.add_argument(
        "--base",
        type=Path,
        metavar="TREE",
        help="measure the broker of another checkout of this repository beside ours, and no peer; nothing is written to docs/",
    )
    parser.add_argument("--json", type=Path, help=f"where the result is written (default: {_RESULT} for a full run)")
    parser.add_argument(
        "--draw",
        type=Path,
        nargs="+",
        metavar="JSON",
        help="measure nothing: figures and page of one result, with the measures of further ones instead of its own, marked so",
    )
    parser.add_argument("--lock", type=Path, help="hold this file locked while something is measured, where others measure too")
    arguments = parser.parse_args()
    if arguments.draw is not None:
        whole, *later = [json.loads(path.read_text()) for path in arguments.draw]
        _publish(document.with_later(whole, later), arguments.draw[0])
        return 0
    wanted = [word for word in arguments.only.split(",") if word]
    unknown = [word for word in wanted if word not in names]
    if unknown:
        parser.error(f"no measure called {', '.join(unknown)} (there are: {', '.join(names)})")
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    if rounds < 1:
        parser.error("--rounds is at least 1")

    _allow_many_files()
    # SIGTERM becomes an exception, so that `finally` stops the servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    known = makers(quick=arguments.quick, only_ours=arguments.ours, base=arguments.base)
    servers = Servers(known, rounds=rounds, quick=arguments.quick)
    result: dict[str, Any] = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "rounds": rounds,
        "quick": arguments.quick,
        "message_bytes": 200,
        "machine": machine.description(),
        "limits_mb_per_s": machine.limits(),
        "measures": {},
    }
    try:
        for measure in ALL:
            if not wanted or measure.name in wanted:
                result["measures"][measure.name] = runner.run(measure, servers, runner.Lock(arguments.lock))
    finally:
        servers.close()
    result |= {"versions": servers.versions, "skipped": servers.skipped, "took_s": round(time.monotonic() - began, 1)}

    for found in result["measures"].values():
        print(f"\n{found['title']}\n{document.measure_table(found)}")
    if arguments.base is not None:
        print(f"\nours beside {arguments.base}\n{against_base.table(result['measures'])}")
    elif not wanted:
        verdicts = targets.verdicts(targets.medians_of(result["measures"]))
        print(document.verdict_table(verdicts) + targets.summary(verdicts))
    for name, reason in servers.skipped.items():
        print(f"skipped: {name}: {reason}")
    complete = not wanted and not arguments.ours and arguments.base is None
    path = arguments.json or (_RESULT if complete and not arguments.quick else None)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
        print(f"written to {path}")
        if complete and path == _RESULT:
            _publish(result, path)
    failed = [
        name
        for name, found in result["measures"].items()
        if found.get("failed") or any(row.get("failed") for row in found["rows"])
    ]
    if failed:
        print(f"failed in part: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _publish(result: dict[str, Any], source: Path) -> None:
    drawn = figures.write(result, _PAGE.parent / "figures")
    document.write(result, _PAGE, source=os.path.relpath(source), figures=drawn)
    print(f"written to {_PAGE} with {len(drawn)} figures")


def _allow_many_files() -> None:
    """Raise the descriptor limit as far as this user may: thousands of partitions and connections need them."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES if most == resource.RLIM_INFINITY else min(_FILES, most), most))


if __name__ == "__main__":
    sys.exit(main())
