"""`headrace mirror`: copy topics of one cluster to another (`run`), compare the two (`verify`), steer a running mirror."""

import argparse

from . import mirror_control, mirror_run, mirror_verify

HELP = "Copy topics of one cluster to another, exactly once, counted on the way; compare the two; steer a running mirror."
_ACTIONS = {
    "run": mirror_run,
    "verify": mirror_verify,
    **dict.fromkeys(("status", "pause", "resume", "throttle"), mirror_control),
}


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for module in dict.fromkeys(_ACTIONS.values()):
        module.configure(actions)


def run(arguments: argparse.Namespace) -> int:
    code: int = _ACTIONS[arguments.action].run(arguments)
    return code
