"""The options that say which topics a mirror copies and what they are called there; the same for every `headrace mirror …`."""

import argparse
from pathlib import Path

from ..mirror.errors import InvalidPattern, InvalidRename
from ..mirror.topics.naming import Naming, Policy
from .errors import UsageError


def add_topics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--topics",
        default=".*",
        metavar="PATTERN[,...]",
        help="the topics whose whole name matches one of these regular expressions (default: all but internal ones)",
    )
    parser.add_argument("--topics-exclude", default="", metavar="PATTERN[,...]", help="but none of these")


def add_naming(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rename",
        action="append",
        default=[],
        metavar="FROM=TO",
        help="a topic's other name in the destination; FROM is a regular expression, TO may have \\1; repeatable",
    )
    parser.add_argument(
        "--replication-policy",
        choices=[one.value for one in Policy],
        default=Policy.IDENTITY.value,
        help="identity keeps names; default puts the source's alias in front, as MirrorMaker does (default: %(default)s)",
    )
    parser.add_argument("--source-alias", default="source", metavar="NAME", help="for --replication-policy default")
    parser.add_argument(
        "--target-alias", default="target", metavar="NAME", help="with that policy, NAME.… came from the destination: not copied"
    )
    parser.add_argument("--replication-policy-separator", default=".", metavar="TEXT", help="between alias and name")


def add_clients(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from-config", type=Path, metavar="FILE", help="client configuration (TLS, SASL) of the source")
    parser.add_argument("--to-config", type=Path, metavar="FILE", help="client configuration (TLS, SASL) of the destination")


def naming_of(arguments: argparse.Namespace) -> Naming:
    """Return what the options say. Raises UsageError."""
    try:
        return Naming(
            arguments.topics,
            exclude=arguments.topics_exclude,
            renames=arguments.rename,
            policy=Policy(arguments.replication_policy),
            source_alias=arguments.source_alias,
            destination_alias=arguments.target_alias,
            separator=arguments.replication_policy_separator,
        )
    except (InvalidPattern, InvalidRename) as error:
        raise UsageError(str(error)) from error
