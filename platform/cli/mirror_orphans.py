"""`headrace mirror orphans`: list the copies whose topic was deleted in the source; `--delete` removes them."""

import argparse
import json
import sys

from ..client.security import chosen
from .mirror_names import add_clients, add_naming, naming_of

COPY_SETTING = "headrace.mirror"


def configure(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the subcommand."""
    parser = actions.add_parser(
        "orphans",
        help="list copies whose topic was deleted in the source, and remove them",
        description="List the topics of the destination that a mirror made and that the source does not have any more.\n"
        "Nothing is deleted without --delete; run it without first. Only copies in a Headrace cluster are known as such.\n"
        "Exit: 0 done, 1 a cluster cannot be asked, 2 wrong usage.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: headrace mirror orphans --from live:9092 --to offline:9192 --topics 'flood-.*' --delete",
    )
    parser.add_argument("--from", dest="source", required=True, metavar="HOST:PORT", help="the source")
    parser.add_argument("--to", dest="destination", required=True, metavar="HOST:PORT", help="where the copies are")
    parser.add_argument(
        "--topics",
        default=".*",
        metavar="PATTERN[,...]",
        help="copies whose whole name there matches one of these (default: all)",
    )
    add_naming(parser)
    add_clients(parser)
    parser.add_argument("--delete", action="store_true", help="delete what is listed, with all records")
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.set_defaults(topics_exclude="")


def run(arguments: argparse.Namespace) -> int:
    """List, delete if asked to, and return 0."""
    from ..client import topic_admin
    from ..client.connection.cluster import Cluster
    from ..mirror.topics.naming import patterns
    from ..mirror.topics.orphans import orphans

    for bootstrap, file in ((arguments.source, arguments.from_config), (arguments.destination, arguments.to_config)):
        if file is not None:
            chosen.give(bootstrap, file)
    wanted = patterns(arguments.topics)
    arguments.topics = ".*"
    source = Cluster(arguments.source, client_id="headrace-orphans")
    destination = Cluster(arguments.destination, client_id="headrace-orphans")
    try:
        found = orphans(
            source,
            destination,
            naming_of(arguments),
            is_copy=lambda topic: any(
                one.name == COPY_SETTING and one.value == "true" for one in topic_admin.topic_settings(destination, topic)
            ),
            is_meant=lambda topic: any(one.fullmatch(topic) for one in wanted),
        )
        for topic in found if arguments.delete else ():
            topic_admin.delete_topic(destination, topic)
    finally:
        source.close()
        destination.close()
    if arguments.json:
        print(json.dumps({"orphans": found, "is_deleted": arguments.delete}))
        return 0
    for topic in found:
        print(topic)
    words = "are deleted" if arguments.delete else "would be deleted by --delete"
    print(f"headrace mirror: {len(found)} orphaned copies {words}", file=sys.stderr)
    return 0
