"""`headrace acl list|add|remove`: the access rules of a cluster, in the words of `kafka-acls.sh`."""

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import product

from ..broker.rights.rule import ANY_NAME, CLUSTER_NAME, Operation, Pattern, Permission, Resource, Rule, fault_of, written
from ..client import access_rules
from ..client.access_rules import Row
from .chosen_cluster import action, connected, options
from .errors import UsageError

HELP = """List, add and remove the access rules (ACLs) of a cluster: this platform's, or any Kafka-wire one.

The flags are those of kafka-acls.sh. Brokers know a change within a second. docs/RIGHTS.md lists what each role needs.

exit codes: 0 done, 1 the cluster could not do it, 2 asked wrongly

example: headrace acl add --allow-principal User:shop --producer --topic clicks --dry-run"""

MOST_RULES = 1_000
"""Of one command."""

Named = tuple[Resource, str]


def configure(parser: argparse.ArgumentParser) -> None:
    common = options()
    for flag in ("topic", "group", "transactional-id", "delegation-token", "user-principal"):
        common.add_argument(f"--{flag}", action="append", default=[], metavar="NAME", help="* is all; may be repeated")
    common.add_argument("--cluster-rights", action="store_true", help="rights on the cluster itself (kafka-acls.sh: --cluster)")
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|add|remove")
    show = action(actions, common, "list", "list the rules", example="headrace acl list --topic clicks")
    show.add_argument("--principal", action="append", default=[], metavar="User:NAME", help="only this one's; may be repeated")
    add = action(
        actions,
        common,
        "add",
        "add rules",
        example="headrace acl add --allow-principal User:shop --consumer --topic clicks --group shop",
    )
    remove = action(
        actions,
        common,
        "remove",
        "remove rules",
        "Without a principal it removes the rules of all principals on the resources.",
        example="headrace acl remove --allow-principal User:shop --operation Write --topic clicks",
    )
    for one in (add, remove):
        for flag in ("allow", "deny"):
            one.add_argument(f"--{flag}-principal", action="append", default=[], metavar="User:NAME", help="may be repeated")
            one.add_argument(f"--{flag}-host", action="append", default=[], metavar="ADDRESS", help="(default: every host)")
        one.add_argument(
            "--operation", action="append", default=[], type=_operation, metavar="Read", help="(default: All); may be repeated"
        )
        role = one.add_mutually_exclusive_group()
        role.add_argument("--producer", action="store_true", help="Write, Describe and Create on the topics")
        role.add_argument("--consumer", action="store_true", help="Read and Describe on the topics, Read on the groups")
        one.add_argument("--dry-run", action="store_true", help="print what would change, and change nothing")
    show.add_argument(
        "--resource-pattern-type", choices=("any", "match", "literal", "prefixed"), default="any", help="(default: %(default)s)"
    )
    for one in (add, remove):
        one.add_argument(
            "--resource-pattern-type", choices=("literal", "prefixed"), default="literal", help="(default: %(default)s)"
        )


def run(arguments: argparse.Namespace) -> int:
    resources = [*_resources(arguments)]
    if arguments.action == "list":
        return _list(arguments, resources)
    if not resources:
        raise UsageError("which resource: give --topic, --group, --cluster-rights, …")
    return _add(arguments, resources) if arguments.action == "add" else _remove(arguments, resources)


def _list(arguments: argparse.Namespace, resources: Sequence[Named]) -> int:
    pattern = Pattern[arguments.resource_pattern_type.upper()]
    named: Sequence[tuple[Resource, str | None]] = resources or [(Resource.ANY, None)]
    filters = [
        Row(resource, name, pattern, principal, None, Operation.ANY, Permission.ANY)
        for resource, name in named
        for principal in arguments.principal or [None]
    ]
    cluster = connected(arguments, "acl")
    try:
        found = {rule for one in filters for rule in access_rules.find(cluster, one)}
    finally:
        cluster.close()
    _show(found, arguments, "")
    return 0


def _add(arguments: argparse.Namespace, resources: Sequence[Named]) -> int:
    wanted = [*_rules(arguments, resources)]
    if not wanted:
        raise UsageError("whose rights: give --allow-principal or --deny-principal")
    for rule in wanted:
        if (fault := fault_of(rule)) is not None:
            raise UsageError(fault)
    if len(wanted) > MOST_RULES:
        raise UsageError(f"these are {len(wanted)} rules, and one command adds at most {MOST_RULES}: use prefixes")
    cluster = connected(arguments, "acl")
    try:
        if not arguments.dry_run:
            access_rules.add(cluster, [_row(rule) for rule in wanted])
    finally:
        cluster.close()
    _show({_row(rule) for rule in wanted}, arguments, "would add" if arguments.dry_run else "added")
    return 0


def _remove(arguments: argparse.Namespace, resources: Sequence[Named]) -> int:
    rules = [*_rules(arguments, resources)]
    pattern = Pattern[arguments.resource_pattern_type.upper()]
    filters = [_row(rule) for rule in rules] or [
        Row(resource, name, pattern, None, None, operation, Permission.ANY)
        for resource, name in resources
        for operation in arguments.operation or [Operation.ANY]
    ]
    cluster = connected(arguments, "acl")
    try:
        found = {rule for one in filters for rule in access_rules.find(cluster, one)}
        if found and not arguments.dry_run:
            access_rules.remove(cluster, filters)
    finally:
        cluster.close()
    _show(found, arguments, "would remove" if arguments.dry_run else "removed")
    return 0


def _rules(arguments: argparse.Namespace, resources: Sequence[Named]) -> Iterator[Rule]:
    for permission, principals, hosts in (
        (Permission.ALLOW, arguments.allow_principal, arguments.allow_host),
        (Permission.DENY, arguments.deny_principal, arguments.deny_host),
    ):
        for (resource, name), principal, host in product(resources, principals, hosts or [ANY_NAME]):
            pattern = Pattern.LITERAL if resource is Resource.CLUSTER else Pattern[arguments.resource_pattern_type.upper()]
            for operation in _operations(arguments, resource):
                yield Rule(resource, name, pattern, principal, host, operation, permission)


def _operations(arguments: argparse.Namespace, resource: Resource) -> Sequence[Operation]:
    its: dict[Resource, Sequence[Operation]]
    if arguments.producer:
        its = {Resource.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)}
    elif arguments.consumer:
        its = {Resource.TOPIC: (Operation.READ, Operation.DESCRIBE), Resource.GROUP: (Operation.READ,)}
    else:
        return arguments.operation or (Operation.ALL,)
    if resource not in its:
        raise UsageError(f"--producer and --consumer give no rights on a {resource.name}: use --operation")
    return its[resource]


def _resources(arguments: argparse.Namespace) -> Iterator[Named]:
    for resource, names in (
        (Resource.TOPIC, arguments.topic),
        (Resource.GROUP, arguments.group),
        (Resource.TRANSACTIONAL_ID, arguments.transactional_id),
        (Resource.DELEGATION_TOKEN, arguments.delegation_token),
        (Resource.USER, arguments.user_principal),
        (Resource.CLUSTER, [CLUSTER_NAME] if arguments.cluster_rights else []),
    ):
        for name in names:
            yield resource, name


def _row(rule: Rule) -> Row:
    return Row(rule.resource, rule.name, rule.pattern, rule.principal, rule.host, rule.operation, rule.permission)


def _rule(row: Row) -> Rule:
    return Rule(
        Resource(row.resource),
        row.name or "",
        Pattern(row.pattern),
        row.principal or "",
        row.host or "",
        Operation(row.operation),
        Permission(row.permission),
    )


def _show(rows: set[Row], arguments: argparse.Namespace, done: str) -> None:
    rules = sorted(_rule(row) for row in rows)
    if arguments.json:
        fields = ("resource", "pattern", "name", "principal", "host", "operation", "permission")
        print(json.dumps([dict(zip(fields, words, strict=True)) for words in written(rules)]))
        return
    for rule in rules:
        print(f"{done} {rule}".lstrip())
    if not rules:
        print("there are no such rules")


def _operation(text: str) -> Operation:
    wanted = text.replace("_", "").replace("-", "").upper()
    for one in Operation:
        if one.name.replace("_", "") == wanted and one not in (Operation.UNKNOWN, Operation.ANY):
            return one
    raise argparse.ArgumentTypeError(f"{text} is no operation: Read, Write, Create, Delete, Alter, Describe, …, All")
