"""`headrace quota list|set|remove`: how much users and clients may use of each broker."""

import argparse
import json

from ..client import quotas
from ..client.quotas import CLIENT_ID, KEYS, USER, Entity
from .chosen_cluster import action, connected, options
from .errors import UsageError

HELP = """List, set and remove quotas by user and client id: this platform's, or those of any Kafka-wire cluster.

A quota counts on each broker. Of several that fit a client the most specific one counts: of its user and client id, of its user,
of its client id, then the defaults (docs/RIGHTS.md). Brokers know a change within a second.

exit codes: 0 done, 1 the cluster could not do it, 2 asked wrongly

example: headrace quota set --user shop --producer-byte-rate 1048576"""

UNITS = {KEYS[0]: "bytes/s", KEYS[1]: "bytes/s", KEYS[2]: "%"}


def configure(parser: argparse.ArgumentParser) -> None:
    common = options()
    user = common.add_mutually_exclusive_group()
    user.add_argument("--user", metavar="NAME", help="of this user")
    user.add_argument("--default-user", action="store_true", help="of each user without a quota of its own")
    client = common.add_mutually_exclusive_group()
    client.add_argument("--client-id", metavar="ID", help="of this client id")
    client.add_argument("--default-client-id", action="store_true", help="of each client id without a quota of its own")
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|set|remove")
    action(actions, common, "list", "list quotas", example="headrace quota list --json")
    change = action(actions, common, "set", "set quotas", example="headrace quota set --default-user --request-percentage 20")
    remove = action(actions, common, "remove", "remove quotas, all or some", example="headrace quota remove --user shop")
    for key in KEYS:
        flag = f"--{key.replace('_', '-')}"
        change.add_argument(flag, type=float, metavar="N", help=UNITS[key])
        remove.add_argument(flag, action="store_true", help="this one")
    for one in (change, remove):
        one.add_argument("--dry-run", action="store_true", help="have the cluster check the change, and make none")


def run(arguments: argparse.Namespace) -> int:
    entity = _entity(arguments)
    if arguments.action != "list" and not entity:
        raise UsageError("whose quota: give --user, --client-id, or both (--default-user, --default-client-id)")
    cluster = connected(arguments, "quota")
    try:
        if arguments.action == "list":
            found = {one: its for one, its in quotas.quotas(cluster).items() if set(entity) <= set(one)}
            _show(found, as_json=arguments.json)
            return 0
        if arguments.action == "set":
            values: dict[str, float | None] = {
                key: getattr(arguments, key) for key in KEYS if getattr(arguments, key) is not None
            }
            if not values:
                raise UsageError(f"which quota: give {', '.join('--' + key.replace('_', '-') for key in KEYS)}")
        else:
            present = quotas.quotas(cluster).get(entity, {})
            named = [key for key in KEYS if getattr(arguments, key)] or [key for key in KEYS if key in present]
            if not present or any(key not in present for key in named):
                raise UsageError(f"there is no such quota of {quotas.words(entity)}: `headrace quota list` shows those there are")
            values = dict.fromkeys(named)
        quotas.change(cluster, entity, values, is_dry=arguments.dry_run)
    finally:
        cluster.close()
    if arguments.json:
        print(json.dumps({**dict(entity), "changed": values, "dry_run": arguments.dry_run}))
    else:
        said = ", ".join(f"{key} {_value(key, value)}" for key, value in values.items())
        print(f"{'would change' if arguments.dry_run else 'changed'} {quotas.words(entity)}: {said}")
    return 0


def _entity(arguments: argparse.Namespace) -> Entity:
    parts: list[tuple[str, str | None]] = []
    for kind, name, is_default in (
        (USER, arguments.user, arguments.default_user),
        (CLIENT_ID, arguments.client_id, arguments.default_client_id),
    ):
        if name is not None or is_default:
            parts.append((kind, name))
    return tuple(parts)


def _show(found: dict[Entity, dict[str, float]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([{**dict(entity), "quotas": its} for entity, its in found.items()]))
        return
    names = {entity: quotas.words(entity) for entity in found}
    width = max([len("WHOSE"), *map(len, names.values())])
    print(f"{'WHOSE':<{width}}  QUOTAS")
    for entity, its in found.items():
        print(f"{names[entity]:<{width}}  {', '.join(f'{key} {_value(key, value)}' for key, value in its.items())}")


def _value(key: str, value: float | None) -> str:
    return (
        "removed"
        if value is None
        else f"{value:g} {UNITS.get(key, '')}".rstrip()
        if value % 1
        else f"{value:.0f} {UNITS.get(key, '')}"
    )
