"""`headrace user add|list|remove`: who may log in to a cluster with SCRAM or PLAIN."""

import argparse
import getpass
import json
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ..broker.logins.scram_credential import HASHES, LEAST_ITERATIONS, MOST_ITERATIONS, ScramCredential
from ..client import scram_users
from ..coordination.session import Session
from ..coordination.users import Config, UserRegistry
from ..wire import scram_client
from .chosen_cluster import action, connected, options
from .errors import UsageError

HELP = """Add, list and remove the users of a cluster: this platform's, or any Kafka-wire cluster with SCRAM.

Make the first user of a cluster with --zookeeper: without a user, no client can log in. Brokers know a change within a second.

exit codes: 0 done, 1 the cluster could not do it, 2 asked wrongly

example: headrace user add alice --password-file alice.password --zookeeper 127.0.0.1:2181/live"""

TIMEOUT_MS = 20_000
T = TypeVar("T")
LONGEST_PASSWORD = 1_000


def configure(parser: argparse.ArgumentParser) -> None:
    common = options()
    common.add_argument(
        "--zookeeper", metavar="HOSTS/CHROOT", help="write to the cluster's ZooKeeper instead of asking a broker; only for ours"
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="add|list|remove")
    add = action(
        actions,
        common,
        "add",
        "add a user, or give one another password",
        "Without --password-file the password is asked for on the terminal. No broker and no log ever gets it.",
        example="headrace user add alice --password-file alice.password",
    )
    add.add_argument("name", metavar="NAME")
    add.add_argument("--password-file", metavar="FILE", help="its first line is the password; -: standard input")
    add.add_argument("--mechanism", choices=sorted(HASHES), action="append", help="may be repeated (default: both)")
    add.add_argument("--iterations", type=_iterations, default=LEAST_ITERATIONS, metavar="N", help="(default %(default)s)")
    action(actions, common, "list", "list the users", example="headrace user list --json")
    remove = action(actions, common, "remove", "remove a user", example="headrace user remove alice")
    remove.add_argument("name", metavar="NAME")
    remove.add_argument("--mechanism", choices=sorted(HASHES), action="append", help="only this credential; may be repeated")


def run(arguments: argparse.Namespace) -> int:
    return {"add": _add, "list": _list, "remove": _remove}[arguments.action](arguments)


def _add(arguments: argparse.Namespace) -> int:
    name, mechanisms, iterations = arguments.name, arguments.mechanism or sorted(HASHES), arguments.iterations
    password = _password(arguments.password_file)
    if arguments.zookeeper:
        made = {
            one: ScramCredential.of_password(one, password, secrets.token_bytes(scram_users.SALT_BYTES), iterations).to_text()
            for one in mechanisms
        }
        _in_zookeeper(arguments.zookeeper, lambda users: users.change(name, lambda present: {**present, **made}))
    else:
        cluster = connected(arguments, "user")
        try:
            scram_users.put_user(cluster, name, password, mechanisms, iterations)
        finally:
            cluster.close()
    if arguments.json:
        print(json.dumps({"name": name, "mechanisms": mechanisms}))
    else:
        print(f"{name} logs in with {' or '.join(mechanisms)}")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    if arguments.zookeeper:
        found = _in_zookeeper(arguments.zookeeper, _known)
    else:
        cluster = connected(arguments, "user")
        try:
            found = scram_users.users(cluster)
        finally:
            cluster.close()
    if arguments.json:
        print(json.dumps([{"name": name, "mechanisms": dict(its)} for name, its in found.items()]))
        return 0
    width = max([len("USER"), *map(len, found)])
    print(f"{'USER':<{width}}  LOGS IN WITH (ITERATIONS)")
    for name, its in found.items():
        print(f"{name:<{width}}  {', '.join(f'{one} ({count})' for one, count in its.items())}")
    return 0


def _remove(arguments: argparse.Namespace) -> int:
    name = arguments.name
    if arguments.zookeeper:

        def without(present: Config) -> Config:
            if not any(one in present for one in arguments.mechanism or HASHES):
                raise UsageError(f"there is no such user {name!r}: `headrace user list` shows those there are")
            return {key: value for key, value in present.items() if key not in (arguments.mechanism or HASHES)}

        _in_zookeeper(arguments.zookeeper, lambda users: users.change(name, without))
    else:
        cluster = connected(arguments, "user")
        try:
            its = scram_users.users(cluster).get(name, {})
            wanted = arguments.mechanism or list(its)
            if not wanted or any(one not in its for one in wanted):
                raise UsageError(f"there is no such user {name!r}: `headrace user list` shows those there are")
            scram_users.remove_user(cluster, name, wanted)
        finally:
            cluster.close()
    print(json.dumps({"name": name}) if arguments.json else f"{name} can no longer log in; open connections stay")
    return 0


def _known(users: UserRegistry) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for name, config in users.read_each(users.list()).items():
        if not isinstance(config, Exception):
            texts = {one: config[one] for one in HASHES if one in config}
            found[name] = {one: ScramCredential.of_text(one, text).iterations for one, text in texts.items()}
    return found


def _in_zookeeper(hosts: str, use: Callable[[UserRegistry], T]) -> T:
    session = Session(hosts, name="headrace-user")
    session.start(TIMEOUT_MS)
    try:
        return use(UserRegistry(session))
    finally:
        session.close()


def _password(file: str | None) -> str:
    if file is None:
        if not sys.stdin.isatty():
            raise UsageError("there is no terminal to ask for the password: give --password-file (- for standard input)")
        password = getpass.getpass("password: ")
        if password != getpass.getpass("again: "):
            raise UsageError("the two passwords differ")
    else:
        try:
            text = sys.stdin.readline() if file == "-" else Path(file).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--password-file {file} cannot be read: {error}") from None
        password = text.split("\n")[0].rstrip("\r")
    try:
        is_plain = scram_client.prepared(password) == password
    except scram_client.ScramRefused:
        is_plain = False
    if not is_plain:
        raise UsageError("the password has characters that clients write in different ways (SASLprep): choose another")
    if not 0 < len(password) <= LONGEST_PASSWORD:
        raise UsageError(f"a password has 1 to {LONGEST_PASSWORD} characters")
    return password


def _iterations(text: str) -> int:
    if not text.isdigit() or not LEAST_ITERATIONS <= int(text) <= MOST_ITERATIONS:
        raise argparse.ArgumentTypeError(f"from {LEAST_ITERATIONS} to {MOST_ITERATIONS}")
    return int(text)
