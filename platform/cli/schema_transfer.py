"""`headrace schema export|import`: everything that a registry holds, to a file and into another registry, with equal ids."""

import argparse
import json
import sys
from pathlib import Path

from ..runtime.whole_file import replace_file
from ..schema_registry.client import RegistryClient, schema_set, transfer

EXPORT = """Write every subject, version, id, reference and level to a file (deleted versions too: their ids stay taken).

example: headrace schema export registry.json"""
IMPORT = """Write an export into a registry with the same ids and versions, by the API's mode IMPORT.

Importing again changes nothing. An id that has another schema there is refused, with its subject and version; what was
written before stays.

example: headrace schema import registry.json --registry http://127.0.0.1:8081"""


def configure_export(export: argparse.ArgumentParser) -> None:
    export.add_argument("file", metavar="FILE", help="- writes standard output")
    export.add_argument("--without-deleted", action="store_true", help="leave soft-deleted versions out")


def configure_import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="- reads standard input")
    parser.add_argument("--dry-run", action="store_true", help="only check the file and say what would be written")


def run_export(arguments: argparse.Namespace) -> int:
    found = transfer.exported(RegistryClient(arguments.registry), is_deleted_too=not arguments.without_deleted)
    text = json.dumps(schema_set.words(found), indent=2) + "\n"
    if arguments.file == "-":
        sys.stdout.write(text)
        return 0
    replace_file(Path(arguments.file), text.encode(), is_durable=True)
    _print_summary(arguments, found, sum(map(len, found.subjects.values())), "exported")
    return 0


def run_import(arguments: argparse.Namespace) -> int:
    if arguments.file == "-":
        found = schema_set.of_words(json.load(sys.stdin), origin="standard input")
    else:
        found = schema_set.of_file(Path(arguments.file))
    count = len(list(transfer.in_order(found)))
    if not arguments.dry_run:
        count = transfer.imported(RegistryClient(arguments.registry), found)
    _print_summary(arguments, found, count, "would be imported" if arguments.dry_run else "imported")
    return 0


def _print_summary(arguments: argparse.Namespace, found: schema_set.SchemaSet, count: int, done: str) -> None:
    if arguments.json:
        print(json.dumps({"subjects": len(found.subjects), "versions": count, "file": arguments.file}))
    else:
        print(f"{count} versions of {len(found.subjects)} subjects {done}")
