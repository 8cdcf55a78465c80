"""`headrace schema register|get|list|check|diff|why|export|import`: requests to the schema registry, by hand and in scripts."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from ..runtime.layout import Layout
from ..schema_registry.client import CompatibilityAnswer, Reference, RegisteredSchema, RegistryClient, RegistryError
from . import schema_check, schema_compare, schema_transfer

HELP = """Register, get, list, check, compare and move schemas.

example: headrace schema register clicks-value clicks.avsc
         headrace schema get clicks-value 2
         headrace schema check schemas/ --baseline registry.json"""

OTHERS: tuple[tuple[str, str, str, Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int]], ...] = (
    ("check", "check schema files before they are registered", schema_check.CHECK, schema_check.configure, schema_check.run),
    ("diff", "print what changed", schema_compare.DIFF, schema_compare.configure_diff, schema_compare.run_diff),
    ("why", "say which reader breaks on what", schema_compare.WHY, schema_compare.configure_why, schema_compare.run_why),
    ("export", "write all to a file", schema_transfer.EXPORT, schema_transfer.configure_export, schema_transfer.run_export),
    ("import", "write an export", schema_transfer.IMPORT, schema_transfer.configure_import, schema_transfer.run_import),
)
"""Name, help, description, what adds its arguments, what carries it out."""


def configure(parser: argparse.ArgumentParser) -> None:
    url = Layout.from_environment().registry_url
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--registry", default=url, help=f"the registry's address (default {url})")
    common.add_argument("--json", action="store_true", help="print JSON")
    actions = parser.add_subparsers(dest="action", required=True, metavar="register|get|list|check|diff|why|export|import")
    register = actions.add_parser("register", parents=[common], help="register a schema and print its id")
    register.add_argument("subject", metavar="SUBJECT", help="for a topic's values: TOPIC-value")
    register.add_argument("file", metavar="FILE", help="an Avro schema (.avsc); - reads standard input")
    register.add_argument(
        "--references",
        nargs="+",
        default=[],
        metavar="NAME=SUBJECT:VERSION",
        help="types that other subjects define, e.g. shop.Money=money-value:1",
    )
    register.add_argument("--dry-run", action="store_true", help="only print whether it is compatible with the newest version")
    get = actions.add_parser("get", parents=[common], help="print one schema")
    get.add_argument("subject", nargs="?", metavar="SUBJECT")
    get.add_argument("version", nargs="?", default="latest", metavar="VERSION", help="a number from 1 (default: the newest)")
    get.add_argument("--id", type=int, help="the schema of this id, with its references written in full")
    actions.add_parser("list", parents=[common], help="print the subjects with their newest versions")
    for name, help_words, text, add, _ in OTHERS:
        parent = actions.add_parser(
            name, parents=[common], help=help_words, description=text, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        add(parent)


def run(arguments: argparse.Namespace) -> int:
    other = next((act for name, *_, act in OTHERS if name == arguments.action), None)
    if other is not None:
        return other(arguments)
    client = RegistryClient(arguments.registry)
    match arguments.action:
        case "register":
            return _register(client, arguments)
        case "get":
            return _get(client, arguments)
        case _:
            return _list(client, is_json=arguments.json)


def _register(client: RegistryClient, arguments: argparse.Namespace) -> int:
    try:
        references = [_reference(word) for word in arguments.references]
        text = sys.stdin.read() if arguments.file == "-" else Path(arguments.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        print(f"headrace schema: {arguments.file} cannot be read: {error}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"headrace schema: {error}", file=sys.stderr)
        return 2
    if arguments.dry_run:
        return _print_compatibility(client.compatible(arguments.subject, text, references), is_json=arguments.json)
    schema_id = client.register(arguments.subject, text, references)
    print(json.dumps({"subject": arguments.subject, "id": schema_id}) if arguments.json else schema_id)
    return 0


def _print_compatibility(answer: CompatibilityAnswer, *, is_json: bool) -> int:
    if is_json:
        print(json.dumps({"is_compatible": answer.is_compatible, "messages": list(answer.messages)}))
    else:
        print("compatible" if answer.is_compatible else "\n".join(["not compatible:", *answer.messages]))
    return 0 if answer.is_compatible else 1


def _get(client: RegistryClient, arguments: argparse.Namespace) -> int:
    if (arguments.id is None) == (arguments.subject is None):
        print("headrace schema get: give a SUBJECT, or --id N", file=sys.stderr)
        return 2
    if arguments.id is not None:
        text = client.schema(arguments.id)
        print(json.dumps({"id": arguments.id, "schema": text}) if arguments.json else _pretty(text))
        return 0
    found = client.version(arguments.subject, arguments.version)
    print(json.dumps(_words(found)) if arguments.json else _pretty(found.schema))
    return 0


def _list(client: RegistryClient, *, is_json: bool) -> int:
    rows = []
    for subject in client.subjects():
        try:
            rows.append(client.latest(subject))
        except RegistryError as error:
            # The schema was deleted between the two requests.
            if error.error_code not in (40401, 40402):
                raise
    if is_json:
        print(json.dumps([_words(row) for row in rows]))
        return 0
    width = max([len("SUBJECT"), *(len(row.subject) for row in rows)])
    print(f"{'SUBJECT':<{width}}  VERSION  ID")
    for row in rows:
        print(f"{row.subject:<{width}}  {row.version:>7}  {row.schema_id}")
    return 0


def _words(found: RegisteredSchema) -> dict[str, object]:
    references = [reference.words() for reference in found.references]
    return {
        "subject": found.subject,
        "version": found.version,
        "id": found.schema_id,
        "schema": found.schema,
        "references": references,
    }


def _pretty(text: str) -> str:
    return json.dumps(json.loads(text), indent=2, ensure_ascii=False)


def _reference(word: str) -> Reference:
    """Return the reference written as NAME=SUBJECT:VERSION. Raises ValueError."""
    name, equals, rest = word.partition("=")
    subject, colon, version = rest.rpartition(":")
    if not (equals and colon and name and subject and version.isdigit() and int(version) > 0):
        raise ValueError(f"{word!r} is not a reference: give NAME=SUBJECT:VERSION, for example shop.Money=money-value:1")
    return Reference(name=name, subject=subject, version=int(version))
