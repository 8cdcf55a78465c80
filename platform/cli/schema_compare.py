"""`headrace schema diff|why`: what changed between two versions, and in words which reader breaks on which field."""

import argparse
import json
from pathlib import Path

from ..schema_registry.client import RegistryClient, RegistryError, comparing, schema_set, transfer
from ..schema_registry.client.schema_set import SchemaSet, SetVersion
from ..schema_registry.model.advice import field_of
from ..schema_registry.model.compatibility import CompatibilityLevel, LevelBreach

DIFF = """Print what changed from one version of a subject to another one, or to a file.

OLD, NEW: a version's number, `latest`, or a file. Default: the version before the newest, and the newest.
Exit: 0 they are the same, 1 they differ.

example: headrace schema diff clicks-value
         headrace schema diff clicks-value 2 clicks.avsc"""
WHY = """Say in words which reader would break on which field, and the remedy: both directions, against every version.

Exit: 0 no reader breaks, 1 the level forbids it or would, 2 asked wrongly.

example: headrace schema why clicks-value clicks.avsc
         headrace schema why clicks-value 4"""


def configure_diff(diff: argparse.ArgumentParser) -> None:
    diff.add_argument("subject", metavar="SUBJECT")
    diff.add_argument("old", nargs="?", metavar="OLD")
    diff.add_argument("new", nargs="?", default="latest", metavar="NEW")
    _add_baseline(diff)


def configure_why(why: argparse.ArgumentParser) -> None:
    why.add_argument("subject", metavar="SUBJECT")
    why.add_argument(
        "new", metavar="FILE|VERSION", help="the schema that is to follow; a version is compared with those before it"
    )
    why.add_argument("--level", choices=list(CompatibilityLevel), help="which breaks are faults (default: the subject's level)")
    _add_baseline(why)


def _add_baseline(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--baseline", type=Path, metavar="FOLDER|EXPORT", help="look here, and ask no registry")


def run_diff(arguments: argparse.Namespace) -> int:
    schemas = _schemas(arguments)
    present = schemas.present(arguments.subject)
    old = arguments.old or (str(present[-2].version) if len(present) > 1 else "latest")
    one, other = (_chosen(schemas, arguments.subject, word) for word in (old, arguments.new))
    found = comparing.changes(schemas, one, other)
    if arguments.json:
        print(json.dumps([{"field": change.field, "change": change.what} for change in found]))
    else:
        print("\n".join(map(str, found)) or "no difference in names, types and defaults")
    return 1 if found else 0


def run_why(arguments: argparse.Namespace) -> int:
    schemas = _schemas(arguments)
    new = _chosen(schemas, arguments.subject, arguments.new)
    before = [one for one in schemas.present(arguments.subject) if new.version == 0 or one.version < new.version]
    if not before:
        raise RegistryError(f"{arguments.subject} has no version before: the first version breaks no reader")
    level = CompatibilityLevel(arguments.level) if arguments.level else schemas.level(arguments.subject)
    every = comparing.breaks(schemas, arguments.subject, before, new, level)
    forbidden = any(one.is_forbidden for one in every)
    if arguments.json:
        print(json.dumps([_words(one.breach, is_forbidden=one.is_forbidden) for one in every]))
    elif not every:
        print("no reader breaks: every version and the new schema read each other's events")
    else:
        for one in every:
            print(f"{'! ' if one.is_forbidden else '~ '}{one.words}")
        print(f"! breaks level {level}; ~ breaks a reader that {level} does not protect")
    return 1 if forbidden else 0


def _words(one: LevelBreach, *, is_forbidden: bool) -> dict[str, object]:
    return {
        "version": one.version,
        "reader": "new schema" if one.is_new_reader else f"version {one.version}",
        "writer": f"version {one.version}" if one.is_new_reader else "new schema",
        "field": field_of(one.fault.path),
        "path": one.fault.path,
        "kind": one.fault.kind,
        "reason": one.fault.reason,
        "is_forbidden": is_forbidden,
    }


def _schemas(arguments: argparse.Namespace) -> SchemaSet:
    path = arguments.baseline
    if path is None:
        return transfer.of_subject(RegistryClient(arguments.registry), arguments.subject)
    return schema_set.of_folder(path) if path.is_dir() else schema_set.of_file(path)


def _chosen(schemas: SchemaSet, subject: str, word: str) -> SetVersion:
    """Return a version by number or `latest`, or a file's schema as version 0. Raises RegistryError."""
    if not (word == "latest" or word.isdigit()):
        return schema_set.file_version(Path(word), 0)
    present = schemas.present(subject)
    found = [one for one in present if word == "latest" or one.version == int(word)]
    if not found:
        has = ", ".join(str(one.version) for one in present) or "none"
        raise RegistryError(f"{subject} has no version {word}: it has {has}", error_code=40402)
    return found[-1]
