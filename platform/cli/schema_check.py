"""`headrace schema check`: schema files of a repository against what is registered, as a step of CI; no platform need run."""

import argparse
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ..runtime.layout import Layout
from ..schema_registry.client import RegistryClient, RegistryError, schema_set, transfer
from ..schema_registry.client.schema_set import SchemaSet
from ..schema_registry.errors import InvalidSchema
from ..schema_registry.model.advice import sentences
from ..schema_registry.model.column_names import clash_of_schema
from ..schema_registry.model.compatibility import CompatibilityLevel, Version, breaches
from ..schema_registry.model.differences import differences
from .schema_users import Users

CHECK = """Check schema files before they are registered, for example as a step of CI.

FILE or FOLDER: `clicks.avsc` is for subject clicks-value; a name that ends in -value or -key is the subject itself.
Compared with the registry, or with --baseline: a folder of .avsc files, or a file of `headrace schema export`; then nothing
need run.
Exit: 0 every file may be registered, 1 one may not, or it breaks a column of the warehouse or has a name that none can have, 2
asked wrongly.

example: headrace schema check schemas/ --baseline registry.json
         headrace schema check clicks.avsc --level FULL --json"""


@dataclass(slots=True, kw_only=True)
class Checked:
    """What is to be said of one file."""

    file: str
    subject: str
    level: str
    changes: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Why it may not be registered."""
    warnings: list[str] = field(default_factory=list)
    """Who would break that the level does not protect, and what would stay empty."""
    is_new: bool = False

    @property
    def is_good(self) -> bool:
        return not self.faults


def configure(check: argparse.ArgumentParser) -> None:
    layout = Layout.from_environment()
    check.add_argument("files", nargs="+", type=Path, metavar="FILE|FOLDER")
    check.add_argument("--baseline", type=Path, metavar="FOLDER|EXPORT", help="compare with this, and ask no registry")
    check.add_argument("--level", choices=list(CompatibilityLevel), help="the level to keep (default: the baseline's)")
    check.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        help=f"name the consumer groups of this cluster that read the topic (this platform's: {layout.live_bootstrap})",
    )
    check.add_argument("--warehouse", action="store_true", help="also compare with the tables of this platform's warehouse")


def run(arguments: argparse.Namespace) -> int:
    paths = schema_set.schema_files(arguments.files)
    if not paths:
        raise RegistryError("there is no .avsc file in what was named")
    proposed = {schema_set.subject_of(path): path for path in paths}
    if len(proposed) < len(paths):
        raise RegistryError("two files are for the same subject: " + ", ".join(sorted(map(str, paths))))
    baseline = None if arguments.baseline is None else _baseline(arguments.baseline)
    client = None if baseline else RegistryClient(arguments.registry)
    users = Users(arguments.bootstrap, asks_warehouse=arguments.warehouse)
    told = []
    try:
        for subject, path in sorted(proposed.items()):
            known = transfer.of_subject(client, subject) if client else baseline
            assert known is not None
            told.append(checked(subject, path, with_siblings(known, proposed), arguments.level, users))
    finally:
        users.close()
    _print(told, is_json=arguments.json)
    return 0 if all(one.is_good for one in told) else 1


def _baseline(path: Path) -> SchemaSet:
    return schema_set.of_folder(path) if path.is_dir() else schema_set.of_file(path)


def with_siblings(known: SchemaSet, proposed: dict[str, Path]) -> SchemaSet:
    """Return the baseline with each other file's schema as its subject's next version: a reference may lead to it."""
    subjects = {subject: list(versions) for subject, versions in known.subjects.items()}
    for subject, path in proposed.items():
        held = subjects.setdefault(subject, [])
        held.append(schema_set.file_version(path, max((one.version for one in held), default=0) + 1))
    return SchemaSet(subjects=subjects, levels=known.levels)


def checked(subject: str, path: Path, schemas: SchemaSet, level: str | None, users: Users) -> Checked:
    """Return what is to be said of the newest version of the subject, which is the file's."""
    *before, new = schemas.subjects[subject]
    kept = CompatibilityLevel(level) if level else schemas.level(subject)
    told = Checked(file=str(path), subject=subject, level=kept)
    present = [one for one in before if not one.is_deleted and one.schema_type == "AVRO"]
    try:
        schema = schemas.parsed(new)
        parsed = [(one, schemas.parsed(one)) for one in present]
    except InvalidSchema as error:
        told.faults.append(str(error))
        return told
    told.is_new = not parsed
    if not subject.endswith("-key") and (fault := clash_of_schema(schema.self_contained)):
        told.faults.append(f"a load of the topic quarantines every event: {fault}")
    # Found again without being newest: registering it gives its old id and changes nothing.
    if any((one.text, one.references) == (schema.text, schema.references) for _, one in parsed):
        return told
    if parsed:
        told.changes = [str(one) for one in differences(parsed[-1][1].type, schema.type)]
    versions = [Version(version=one.version, type=old.type) for one, old in parsed]
    broken = breaches(schema.type, versions, kept)
    told.faults += sentences(broken, subject=subject)
    said = {str(one) for one in broken}
    every = breaches(schema.type, versions, CompatibilityLevel.FULL_TRANSITIVE)
    late = [one for one in every if str(one) not in said and not one.is_new_reader and one.version == versions[-1].version]
    told.warnings += [f"not protected by {kept}: {one}" for one in sentences(late, subject=subject)]
    if broken or late:
        told.warnings += users.readers(subject)
    columns = users.columns(subject, [old.self_contained for _, old in parsed], schema.self_contained)
    told.faults += columns.broken
    told.warnings += columns.emptied
    return told


def _print(told: list[Checked], *, is_json: bool) -> None:
    if is_json:
        print(json.dumps([{**asdict(one), "is_good": one.is_good} for one in told]))
        return
    for one in told:
        state = "new" if one.is_new else "changed" if one.changes else "unchanged"
        print(f"{'ok    ' if one.is_good else 'BROKEN'}  {one.file}  {one.subject}  {one.level}  {state}")
        for line in one.changes:
            print(f"          {line}")
        for line in one.faults:
            print(f"        ! {line}")
        for line in one.warnings:
            print(f"        ~ {line}")
