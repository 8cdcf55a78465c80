"""`python -m bench.paper`: the paper's producer and consumer test, its page and its two figures.

Writes JSON, and from it `docs/PAPER_BENCHMARK.md` and the figures. Installs nothing: what is missing is skipped by name.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..__main__ import _allow_many_files
from ..harness import machine
from ..harness.servers import Servers
from ..peers.activemq import ActiveMQ
from ..peers.makers import makers
from ..peers.rabbitmq import RabbitMQ
from ..peers.subjects import KAFKA, OURS
from . import chart
from .page import PAPER_MESSAGES, page
from .runs import run
from .series import Series

_WHOLE = 1_000_000
"""With fewer messages it is a trial, and the peers warm up less."""
_WANTED = (OURS, KAFKA, RabbitMQ.name, ActiveMQ.name)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.paper",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m bench.paper --messages 200000 --docs /tmp/docs",
    )
    parser.add_argument("--messages", type=int, default=PAPER_MESSAGES, help="of each run (default: %(default)s)")
    parser.add_argument("--points", type=int, default=40, help="of each curve, about (default: %(default)s)")
    parser.add_argument("--peer-seconds", type=float, default=120, help="longest run of a queue (default: %(default)s)")
    parser.add_argument("--json", type=Path, default=Path("bench/results/paper.json"), help="(default: %(default)s)")
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="where page and figures go (default: %(default)s)")
    parser.add_argument("--draw", type=Path, metavar="JSON", help="measure nothing: page and figures of this result")
    arguments = parser.parse_args()
    if arguments.draw is not None:
        _publish(json.loads(arguments.draw.read_text()), arguments.docs)
        return 0
    if arguments.messages < 1_000 or arguments.points < 2 or arguments.peer_seconds <= 0:
        parser.error("--messages is at least 1000, --points at least 2, --peer-seconds above 0")
    _allow_many_files()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    known = {name: make for name, make in makers(quick=arguments.messages < _WHOLE).items() if name in _WANTED}
    servers = Servers(known, rounds=1, quick=False)
    try:
        producers, consumers = run(
            servers, messages=arguments.messages, points=arguments.points, peer_s=arguments.peer_seconds, tell=_tell
        )
    finally:
        servers.close()
    result: dict[str, Any] = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "messages": arguments.messages,
        "peer_s": arguments.peer_seconds,
        "machine": machine.description(),
        "versions": servers.versions,
        "skipped": servers.skipped,
        "producers": [one.words() for one in producers],
        "consumers": [one.words() for one in consumers],
    }
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    _publish(result, arguments.docs)
    _tell(f"written to {arguments.json} and {arguments.docs / 'PAPER_BENCHMARK.md'}")
    return 0


def _publish(result: Mapping[str, Any], docs: Path) -> None:
    producers, consumers = ([Series.of(one) for one in result[name]] for name in ("producers", "consumers"))
    figures = docs / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    (figures / "paper_producer.svg").write_text(chart.draw("Producer test of the paper", producers))
    (figures / "paper_consumer.svg").write_text(chart.draw("Consumer test of the paper", consumers))
    (docs / "PAPER_BENCHMARK.md").write_text(page(result, producers, consumers))


def _tell(words: str) -> None:
    print(words, flush=True)


if __name__ == "__main__":
    sys.exit(main())
