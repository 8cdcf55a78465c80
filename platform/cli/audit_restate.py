"""`headrace audit restate mirror TOPIC`: the mirror reports again what the destination holds of a topic."""

import argparse
import time
from typing import TYPE_CHECKING

from ..errors import HeadraceError
from ..runtime.layout import Layout
from .errors import UsageError

if TYPE_CHECKING:
    Actions = argparse._SubParsersAction[argparse.ArgumentParser]

LONGEST_WAIT_S = 86_400


def configure(actions: "Actions") -> None:
    """Add the subcommand."""
    layout = Layout.from_environment()
    restate = actions.add_parser(
        "restate",
        help="have the mirror report again what the destination holds of a topic",
        description="Have the mirror report again what the destination's log holds of a topic.\n"
        "The new report replaces the earlier one. For offsets that the log does not hold, the earlier report stays.\n"
        "A running mirror starts within seconds and keeps copying; one that is down does it at its next start.\n"
        "Records that are reported again count as `redelivered`. Exit: 0 asked (and done, with --wait), 1 not done in "
        "time, 2 wrong usage.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: headrace audit restate mirror access_log --wait 60",
    )
    restate.add_argument("tier", choices=["mirror"], help="the tier that reports again")
    restate.add_argument("topic", metavar="TOPIC")
    restate.add_argument("--partition", type=int, metavar="N", help="only this partition (default: all)")
    restate.add_argument("--wait", type=float, metavar="SECONDS", help="return once the mirror has done it, at most SECONDS")
    restate.add_argument(
        "--destination-zookeeper",
        default=layout.offline_zookeeper,
        metavar="HOST:PORT[/CHROOT]",
        help="where the mirror keeps how far it has reported (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Leave the wish for the mirror, and with --wait return once it is carried out."""
    from ..coordination.positions import AuditPositions
    from ..coordination.restate_requests import RestateRequests
    from ..coordination.session import Session

    tier, topic, wait_s = arguments.tier, arguments.topic, arguments.wait
    if wait_s is not None and not 0 <= wait_s <= LONGEST_WAIT_S:
        raise UsageError(f"--wait {wait_s:g}: a number of seconds from 0 to {LONGEST_WAIT_S}")
    session = Session(arguments.destination_zookeeper, name="audit-restate")
    try:
        session.start()
        known = AuditPositions(session).partitions(tier, topic)
        wanted = known if arguments.partition is None else [arguments.partition]
        if not known or not set(wanted) <= set(known):
            what = f"topic {topic!r}" if not known else f"partition {arguments.partition} of topic {topic!r}"
            raise UsageError(
                f"the {tier} has never reported of {what}, by the ZooKeeper at {arguments.destination_zookeeper}: nothing to say "
                "again. `headrace topic list` shows the topics; internal ones are not mirrored"
            )
        requests = RestateRequests(session)
        for partition in wanted:
            requests.ask(tier, topic, partition)
        named = f"{topic}, partition {', '.join(map(str, wanted))}"
        if wait_s is None:
            print(f"the {tier} is to report again what it holds of {named}; --wait SECONDS waits until it has")
            return 0
        deadline = time.monotonic() + wait_s
        while left := [one for one in requests.open(tier) if one.topic == topic and one.partition in wanted]:
            if time.monotonic() >= deadline:
                raise HeadraceError(
                    f"after {wait_s:g} s the {tier} has not reported again of partition "
                    f"{', '.join(str(one.partition) for one in left)} of {topic}: it continues, also after a restart. "
                    "`headrace status` shows whether it runs"
                )
            time.sleep(0.1)
    finally:
        session.close()
    print(f"the {tier} has reported again what it holds of {named}")
    return 0
