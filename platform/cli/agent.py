"""`headrace agent run`: ship journals and files, in the foreground, until SIGTERM. `status`: how far it is. `retire`: its end.
`stdin`: lines into its journals.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ..agent.settings import AgentSettings
from ..agent.settings import load as load_settings
from ..client.security import chosen
from ..runtime.lifecycle import StopSignal
from ..runtime.logs import configure as configure_logs
from ..runtime.logs import log_thread_faults
from . import agent_stdin

HELP = "Ship what applications journal, and log files, to the live cluster. docs/AGENT.md is its manual."

WRONG_SETTINGS = 2


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="run|status|retire|stdin")
    run = actions.add_parser(
        "run",
        help="run in the foreground until SIGTERM",
        description=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit codes: 0 stopped as asked, 1 could not start, 2 wrong settings\n\n"
        "example: headrace agent run /etc/headrace/agent.toml",
    )
    status = actions.add_parser(
        "status",
        help="what it has shipped, how far it is behind, what troubles it",
        description="Show what the agent last said of itself, or, while none runs, what its state holds. "
        "Exit code 1: it is not ready.",
        epilog="example: headrace agent status /etc/headrace/agent.toml --json",
    )
    retire = actions.add_parser(
        "retire",
        help="say that this agent and its sources will report nothing more",
        description="Report to the audit that no agent runs here now: its enrolment and its unsealed runs are retired. Windows "
        "that waited for them are ACCEPTED then, never COMPLETE. Stop the agent first, when it has shipped what there is.",
        epilog="example: headrace agent retire /etc/headrace/agent.toml --by ana --reason 'host decommissioned'",
    )
    stdin = actions.add_parser(
        "stdin",
        help="journal the lines of standard input, for the agent to ship",
        description=agent_stdin.HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    agent_stdin.configure(stdin)
    for one in (run, status, retire, stdin):
        one.add_argument("settings", type=Path, help="the agent's settings, a TOML file")
    run.add_argument("--status-file", type=Path, help="file in which the process writes its state as JSON")
    run.add_argument("--metrics-port", type=int, help="port of /metrics, /healthz, /readyz and /status on the loopback")
    status.add_argument("--json", action="store_true", help="as JSON")
    retire.add_argument("--by", required=True, help="who says so")
    retire.add_argument("--reason", required=True, help="why")


def run(arguments: argparse.Namespace) -> int:
    from ..agent.errors import SettingsRefused

    try:
        match arguments.action:
            case "run":
                return _run(arguments)
            case "status":
                return _status(arguments)
            case "stdin":
                return agent_stdin.run(arguments, load(arguments.settings))
            case _:
                return _retire(arguments)
    except SettingsRefused as refused:
        for fault in refused.faults:
            print(f"headrace agent: {arguments.settings}: {fault}", file=sys.stderr)
        return WRONG_SETTINGS


def load(path: Path, **overrides: Any) -> AgentSettings:
    """Return the settings, with their client configuration given for the cluster."""
    settings = load_settings(path, **overrides)
    if settings.client_config is not None:
        chosen.give(settings.brokers, Path(settings.client_config))
    return settings


def _run(arguments: argparse.Namespace) -> int:
    from ..agent.process.agent import Agent

    settings = load(arguments.settings, status_file=arguments.status_file, metrics_port=arguments.metrics_port)
    configure_logs(f"agent-{settings.name}")
    log_thread_faults()
    Agent(settings).run(StopSignal(second_ends=True).install())
    return 0


def _status(arguments: argparse.Namespace) -> int:
    from ..agent.process.status import status_of

    found = status_of(load(arguments.settings))
    if arguments.json:
        print(json.dumps(found, indent=2))
    else:
        print("\n".join(_lines(found)))
    return 0 if found["is_ready"] else 1


def _retire(arguments: argparse.Namespace) -> int:
    from ..agent.process.retirement import retire

    for run_ in retire(load(arguments.settings), by=arguments.by, reason=arguments.reason):
        print(f"retired {run_}")
    return 0


def _lines(found: dict[str, Any]) -> list[str]:
    running = f"runs as process {found['pid']}" if found["is_running"] else "is not running"
    ready = "ready" if found["is_ready"] else f"not ready: {found['reason']}"
    lines = [
        f"{found['instance']} {running}, {ready}",
        f"  acknowledged {found['acknowledged']} records; ambiguous {found['ambiguous']}; "
        f"{found['batches']} batches and {found['reports']} reports under way",
        *(f"  {name} {count}" for name, count in sorted(found["losses"].items())),
        f"  {found['source_count']} sources, {found['lag_bytes']} bytes and {found['lag_ms'] / 1000:.1f} s behind",
    ]
    for one in found["sources"][:_MOST_LINES]:
        trouble = f"  {one['trouble']}" if one["trouble"] else ""
        lines.append(f"    {one['name']} → {one['topic']}: {one['lag_bytes']} bytes, {one['lag_ms'] / 1000:.1f} s{trouble}")
    if found["source_count"] > _MOST_LINES:
        lines.append(f"    … and {found['source_count'] - _MOST_LINES} more: --json")
    lines += [f"  cannot open {what}: {why}" for what, why in found["unopened"].items()]
    for group, events in sorted(found.get("events", {}).items()):  # one that still runs may be of an older version
        lines += [f"  {group}: {event} {count} times since its start" for event, count in sorted(events.items()) if count]
    lines += [f"  waits: {why}" for why in found["trouble"]]
    return lines


_MOST_LINES = 20
