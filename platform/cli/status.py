"""`headrace status`: each process with address, pid, uptime and health."""

import argparse
import json
import sys
from dataclasses import asdict

from ..local import control
from ..local.supervisor.faults import faults
from ..local.supervisor.state import ProcessState
from ..runtime.clock import SystemClock
from ..runtime.disk_room import look, why_no_room
from ..runtime.layout import Layout

HELP = """List each process with address, pid, uptime, health; exit 1 when one is not ready.

A line for each fault follows on stderr: what, where, why, what to do. A mirror that an operator has paused or throttled is well,
and its health says so.

example: headrace status --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print a JSON array, one object a process")


def run(arguments: argparse.Namespace) -> int:
    now_ms = SystemClock().now_ms()
    layout = Layout.from_environment()
    seen = control.running(layout)
    rows = [asdict(process) | {"uptime_ms": _uptime_ms(process, now_ms)} for process in seen.processes]
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        print(f"{'process':<22} {'address':<18} {'pid':>8} {'uptime':>9}  health")
        for row in rows:
            uptime = "-" if row["uptime_ms"] is None else f"{row['uptime_ms'] / 1000:.0f} s"
            health = row["state"] if row["reason"] is None else f"{row['state']}: {row['reason']}"
            health += "" if row["notice"] is None else f" - {row['notice']}"
            print(f"{row['name']:<22} {row['address'] or '-':<18} {row['pid'] or '-':>8} {uptime:>9}  {health}")
    for line in faults(seen.processes, layout.logs):
        print(line, file=sys.stderr)
    no_room = why_no_room(look(layout.home))
    if no_room is not None:
        print(f"{no_room}. What is shown may be old: the supervisor cannot write it there", file=sys.stderr)
    return 0 if seen.is_ready and no_room is None else 1


def _uptime_ms(process: ProcessState, now_ms: int) -> int | None:
    return None if process.started_at_ms is None else max(0, now_ms - process.started_at_ms)
