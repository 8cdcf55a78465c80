"""`headrace zookeeper export` and `import`: a copy of a datacenter's tree, for an ensemble that has lost all its disks; `secure`:
who may change its nodes."""

import argparse
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..broker.log import topic_note
from ..broker.partitions import replica_note
from ..coordination.backup import Backup, HeldFolder, export, restore, with_folders
from ..coordination.node_rights import in_words
from ..coordination.security import VARIABLE, of_environment
from ..coordination.session import Session
from ..coordination.tree_rights import carry_out, planned
from ..runtime.layout import Layout
from ..runtime.whole_file import replace_file
from .errors import UsageError

HELP = """Copy what ZooKeeper knows of a datacenter into a file, and back into an ensemble that has lost it: topics with their
settings and brokers, users, committed offsets, what audit and mirrors have noted. The records are in the brokers' folders, not
here. The file is a secret: passwords can be guessed from what it holds of users.

example: headrace zookeeper export --zookeeper 127.0.0.1:2181/live tree.json"""

TIMEOUT_MS = 20_000
_PARTITION = re.compile(r"([A-Za-z0-9._-]+)-(\d+)")


def configure(parser: argparse.ArgumentParser) -> None:
    zookeeper = Layout.from_environment().live_zookeeper
    actions = parser.add_subparsers(dest="action", required=True, metavar="export|import|rebuild|secure")
    for name, what in (
        ("export", "write the tree to a file; each broker keeps such a copy in its data folder (tree.json)"),
        ("import", "write a file's tree into an ensemble that has lost its own; brokers may live on meanwhile"),
    ):
        action = actions.add_parser(
            name,
            help=what,
            description=what,
            epilog=f"example: headrace zookeeper {name} --zookeeper 127.0.0.1:2181/live tree.json",
        )
        action.add_argument("--zookeeper", default=zookeeper, metavar="HOSTS/CHROOT", help="(default %(default)s)")
        action.add_argument("file", type=Path, help="JSON")
    what = (
        "add to a file the topics of a broker's data folder; run it on each broker's machine in turn. A file that does not exist "
        "begins with the copy that the broker keeps in its folder (tree.json), if it has one"
    )
    example = "example: headrace zookeeper rebuild --data /var/lib/headrace/broker tree.json"
    rebuild = actions.add_parser("rebuild", help=what, description=what, epilog=example)
    rebuild.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="a broker's data folder")
    rebuild.add_argument("file", type=Path, help="JSON")
    what = (
        "give each node the rights of its path (docs/RIGHTS.md), with a broker's or the operator's certificate. Run it once for "
        "a tree that is older than its rights, and after a change of zookeeper.acl.identities"
    )
    example = (
        "example: headrace zookeeper secure --zookeeper zk:2281/live --zookeeper-config operator.zookeeper.properties --dry-run"
    )
    secure = actions.add_parser("secure", help=what, description=what, epilog=example)
    secure.add_argument("--zookeeper", default=zookeeper, metavar="HOSTS/CHROOT", help="(default %(default)s)")
    secure.add_argument("--open", action="store_true", help="the way back: everyone who can connect may change every node")
    secure.add_argument("--dry-run", action="store_true", help="only print what would change")


def run(arguments: argparse.Namespace) -> int:
    if arguments.action == "rebuild":
        return _rebuild(arguments.data, arguments.file)
    session = Session(arguments.zookeeper, name="headrace-zookeeper")
    if arguments.action == "secure":
        return _secure(session, is_opening=arguments.open, is_dry=arguments.dry_run)
    if arguments.action == "export":
        with _open(session):
            copy = export(session)
        replace_file(arguments.file, copy.to_json().encode(), mode=0o600)
        print(f"{len(copy.nodes)} nodes of cluster {copy.cluster.cluster_id}, {len(copy.topics)} topics, are in {arguments.file}")
        return 0
    copy = _read(arguments.file)
    with _open(session):
        count = restore(session, copy)
    print(f"{count} of {len(copy.nodes)} nodes, {len(copy.topics)} topics, are at {arguments.zookeeper} again")
    print("offsets are those of the copy: groups that were stopped read from there, and handle later records a second time")
    if waiting := len(copy.replicated()):
        print(
            f"{waiting} partitions have several replicas and no leader: restart every broker, then run "
            "`headrace partition recover --all`, which shows whether a record is lost"
        )
    return 0


def _secure(session: Session, *, is_opening: bool, is_dry: bool) -> int:
    security = of_environment()
    if security is None or not security.sets_rights:
        raise UsageError(
            f"ZooKeeper knows clients by their certificates: name a file with zookeeper.ssl.client.enable=true and "
            f"zookeeper.set.acl=true with --zookeeper-config, or {VARIABLE}. `headrace security init` writes one for each role"
        )
    count = 0
    with _open(session):
        for change in planned(session, security, is_opening=is_opening):
            count += 1
            if is_dry:
                print(f"{change.path}  {in_words(change.present)}  ->  {in_words(change.wanted)}")
            else:
                carry_out(session, change)
    print(f"{count} nodes {'would get' if is_dry else 'have got'} rights{' for everyone' if is_opening else ''}")
    return 0


def _rebuild(folder: Path, file: Path) -> int:
    try:
        broker_id = int(json.loads((folder / "broker.json").read_text())["broker_id"])
        cluster_id = str(json.loads((folder / "cluster.json").read_text())["cluster_id"])
        held: dict[str, dict[int, HeldFolder]] = {}
        for path in folder.iterdir():
            found = _PARTITION.fullmatch(path.name)
            if found is not None and path.is_dir():
                one = HeldFolder(topic_id=topic_note.read(path), is_replica=(path / replica_note.NAME).exists())
                held.setdefault(found[1], {})[int(found[2])] = one
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{folder} is not data folder of a broker ({type(error).__name__}: {error})") from None
    kept = folder / "tree.json"
    before = _read(file) if file.exists() else _read(kept) if kept.exists() else None
    try:
        copy = with_folders(before, cluster_id, broker_id, held)
    except ValueError as error:
        raise UsageError(f"{folder}: {error}") from None
    replace_file(file, copy.to_json().encode(), mode=0o600)
    new = ", ".join(sorted(set(copy.topics) - set(before.topics if before is not None else ()))) or "none"
    print(f"{file} has {len(copy.topics)} topics; new, with settings unknown and `retention.ms=-1`: {new}")
    return 0


def _read(file: Path) -> Backup:
    try:
        return Backup.of_json(file.read_text())
    except FileNotFoundError:
        raise UsageError(f"there is no file {file}") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} is not a copy that `headrace zookeeper export` wrote: {error}") from None


@contextmanager
def _open(session: Session) -> Iterator[None]:
    session.start(TIMEOUT_MS)
    try:
        yield
    finally:
        session.close()
