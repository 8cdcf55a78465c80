"""`headrace zookeeper export` and `import`: a copy of a datacenter's tree, for an ensemble that has lost all its disks."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..coordination.backup import Backup, export, restore
from ..coordination.session import Session
from ..runtime.layout import Layout
from ..runtime.whole_file import replace_file
from .errors import AskedWrongly

HELP = """Copy what ZooKeeper knows of a datacenter into a file, and back into an ensemble that has lost it: topics with their
settings and brokers, committed offsets, what audit and mirrors have noted. The records are in the brokers' folders, not here.

example: headrace zookeeper export --zookeeper 127.0.0.1:2181/live tree.json"""

TIMEOUT_MS = 20_000


def configure(parser: argparse.ArgumentParser) -> None:
    zookeeper = Layout.from_environment().live_zookeeper
    actions = parser.add_subparsers(dest="action", required=True, metavar="export|import")
    for name, what in (
        ("export", "write the tree to a file; run it daily, beside the brokers' own backups"),
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


def run(arguments: argparse.Namespace) -> int:
    session = Session(arguments.zookeeper, name="headrace-zookeeper")
    if arguments.action == "export":
        with _open(session):
            copy = export(session)
        replace_file(arguments.file, copy.to_json().encode())
        print(f"{len(copy.nodes)} nodes of cluster {copy.cluster.cluster_id}, {len(copy.topics)} topics, are in {arguments.file}")
        return 0
    copy = _read(arguments.file)
    with _open(session):
        count = restore(session, copy)
    print(f"{count} of {len(copy.nodes)} nodes, {len(copy.topics)} topics, are at {arguments.zookeeper} again")
    print("offsets are those of the copy: groups that were stopped read on from there, and handle what they did since once more")
    return 0


def _read(file: Path) -> Backup:
    try:
        return Backup.of_json(file.read_text())
    except FileNotFoundError:
        raise AskedWrongly(f"there is no file {file}") from None
    except (OSError, ValueError) as error:
        raise AskedWrongly(f"{file} is no copy that `headrace zookeeper export` wrote: {error}") from None


@contextmanager
def _open(session: Session) -> Iterator[None]:
    session.start(TIMEOUT_MS)
    try:
        yield
    finally:
        session.close()
