"""`headrace security init|apply|rights`: certificates, users, rights and client files for every role of a platform."""

import argparse
import json
import os
from pathlib import Path

from ..broker.rights.rule import ANY_NAME
from ..client.connection.cluster import Cluster
from ..client.security import chosen
from ..coordination import security as zookeeper_security
from ..local.security import apply, files
from ..local.security.roles import LIVE, OFFLINE, ROLES, rules_of
from .errors import UsageError

HELP = """Make a platform secure: a CA, certificates, users with random passwords, and files for each role. Then give a cluster
these users and the least rights of their roles.

exit codes: 0 done, 1 it could not be done, 2 asked wrongly

example: headrace security init /etc/headrace/security --host broker=broker-1.example,broker-2.example"""

NAMES = [role.name for role in ROLES]


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="init|apply|rights")
    init = _action(
        actions,
        "init",
        "make the files of a folder; what is there is kept",
        "headrace security init security --host broker=broker-1.example,10.0.0.7 --installed-at /etc/headrace/security",
    )
    init.add_argument("folder", type=Path, metavar="FOLDER")
    init.add_argument("--role", action="append", choices=NAMES, default=[], help="only this role; may be repeated")
    init.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="[ROLE=]NAME[,NAME]",
        help="names and addresses in the certificates of a role that listens, or of all; may be repeated (default: localhost)",
    )
    init.add_argument(
        "--installed-at", type=Path, metavar="PATH", help="where the folder is on the machines (default: where it is)"
    )
    init.add_argument("--days", type=int, default=files.DAYS, help="how long certificates are valid (default %(default)s)")
    init.add_argument("--renew", action="store_true", help="new certificates for these roles; the CA and passwords stay")
    give = _action(
        actions,
        "apply",
        "create the users and rules of a folder on a cluster; rules that their roles no longer have are taken away",
        "headrace security apply security --cluster live --zookeeper zk:2281/live",
    )
    give.add_argument("folder", type=Path, metavar="FOLDER")
    _of_cluster(give)
    where = give.add_mutually_exclusive_group(required=True)
    where.add_argument("--zookeeper", metavar="HOSTS/CHROOT", help="for the first time: without a user no client can log in")
    where.add_argument("--bootstrap", metavar="HOST:PORT[,...]", help="by the brokers, as the operator")
    give.add_argument("--role", action="append", choices=NAMES, default=[], help="only this role; may be repeated")
    show = _action(
        actions, "rights", "print the rules that the roles get", "headrace security rights --cluster live --topic shop.*"
    )
    _of_cluster(show)
    show.add_argument("--role", action="append", choices=NAMES, default=[], help="only this role; may be repeated")
    show.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> int:
    return {"init": _init, "apply": _apply, "rights": _rights}[arguments.action](arguments)


def _init(arguments: argparse.Namespace) -> int:
    if arguments.days < 1:
        raise UsageError("--days is at least 1")
    made = files.init(
        arguments.folder,
        roles=arguments.role,
        hosts=_hosts(arguments.host),
        installed=arguments.installed_at,
        days=arguments.days,
        renews=arguments.renew,
    )
    print(f"{arguments.folder}: new certificates for {', '.join(made.issued)}")
    if made.kept:
        print(f"kept, valid for more than {files.RENEWED_FROM_DAYS} days: {', '.join(made.kept)}")
    print("give each machine ca.pem and the folder of its role; ca.key stays here")
    print(f"next: headrace security apply {arguments.folder}")
    return 0


def _apply(arguments: argparse.Namespace) -> int:
    plan = apply.wanted(
        arguments.folder,
        arguments.cluster,
        roles=arguments.role,
        topics=arguments.topic or (ANY_NAME,),
        groups=arguments.group or (ANY_NAME,),
    )
    if arguments.zookeeper:
        _take(zookeeper_security.VARIABLE, arguments.folder / "operator" / "zookeeper.properties")
        apply.in_zookeeper(arguments.zookeeper, plan)
    else:
        _take(chosen.VARIABLE, arguments.folder / "operator" / "client.properties")
        cluster = Cluster(arguments.bootstrap, client_id="headrace-security")
        try:
            apply.by_brokers(cluster, plan)
        finally:
            cluster.close()
    print(f"the {arguments.cluster} cluster has {len(plan.rules)} rules and the users {', '.join(plan.passwords)}")
    return 0


def _rights(arguments: argparse.Namespace) -> int:
    topics, groups = arguments.topic or (ANY_NAME,), arguments.group or (ANY_NAME,)
    rules = [
        rule
        for role in ROLES
        if not arguments.role or role.name in arguments.role
        for rule in rules_of(role, arguments.cluster, topics, groups)
    ]
    if arguments.json:
        print(json.dumps([[one.resource.name, one.pattern.name, one.name, one.principal, one.operation.name] for one in rules]))
    else:
        print("\n".join(map(str, rules)))
    return 0


def _action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, what: str, example: str
) -> argparse.ArgumentParser:
    return actions.add_parser(name, help=what, description=what, epilog=f"example: {example}")


def _of_cluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cluster", choices=(LIVE, OFFLINE), default=LIVE, help="whose rights (default %(default)s)")
    parser.add_argument(
        "--topic", action="append", metavar="NAME", help="a topic of the platform, or the beginning of names and *"
    )
    parser.add_argument("--group", action="append", metavar="NAME", help="a group of readers, or the beginning of names and *")


def _hosts(words: list[str]) -> dict[str, tuple[str, ...]]:
    servers = [role.name for role in ROLES if role.is_server]
    found: dict[str, tuple[str, ...]] = {}
    for word in words:
        role, equals, names = word.rpartition("=")
        if equals and role not in servers:
            raise UsageError(f"--host {word}: {role!r} is none of the roles that listen: {', '.join(servers)}")
        its = tuple(filter(None, names.split(",")))
        if not its:
            raise UsageError(f"--host {word} names no host")
        for name in (role,) if equals else servers:
            found[name] = (*found.get(name, ()), *its)
    return found


def _take(variable: str, file: Path) -> None:
    """Reach ZooKeeper or brokers as the folder's operator, unless the environment or a flag says how."""
    if file.exists() and not os.environ.get(variable):
        os.environ[variable] = str(file.absolute())
