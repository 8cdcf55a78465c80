"""`headrace mirror`: copy topics of one cluster to another, compare the two, list copies without a source, steer a mirror."""

import argparse

from . import mirror_control, mirror_orphans, mirror_run, mirror_verify

HELP = "Copy topics of one cluster to another, exactly once, counted on the way; compare the two; steer a running mirror."
_ACTIONS = {
    "run": mirror_run,
    "verify": mirror_verify,
    "orphans": mirror_orphans,
    **dict.fromkeys(("status", "pause", "resume", "throttle"), mirror_control),
}


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for module in dict.fromkeys(_ACTIONS.values()):
        module.configure(actions)


def run(arguments: argparse.Namespace) -> int:
    code: int = _ACTIONS[arguments.action].run(arguments)
    return code
