"""Everything that a registry holds, read from it and written into another one: same ids, versions, references and levels.

Writing uses the API's mode IMPORT, one subject after the other, and restores the subject's mode. A registry refuses to give an id
a second meaning, so an import beside other schemas either keeps every id or says which one is taken.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from ..errors import RegistryError
from ..model.compatibility import CompatibilityLevel
from ..model.reference import Reference
from .registry_client import NO_SUBJECT, RegistryClient
from .schema_set import SchemaSet, SetVersion

PAGE = 500
NO_SETTING = (40401, 40408, 40409)
IMPORT = "IMPORT"


def exported(client: RegistryClient, *, is_deleted_too: bool = True) -> SchemaSet:
    """Return everything that the registry holds. Raises RegistryError."""
    found = SchemaSet(levels={None: CompatibilityLevel(client.ask("GET", "/config")["compatibilityLevel"])})
    for words in _schemas(client, is_deleted_too=is_deleted_too):
        version = SetVersion(
            version=int(words["version"]),
            schema_id=int(words["id"]),
            schema=str(words["schema"]),
            references=tuple(Reference.of(one) for one in words.get("references") or ()),
            schema_type=words.get("schemaType") or "AVRO",
            is_deleted=bool(words.get("deleted")),
        )
        found.subjects.setdefault(str(words["subject"]), []).append(version)
    for subject, versions in found.subjects.items():
        versions.sort(key=lambda one: one.version)
        level = _own(client, f"/config/{_segment(subject)}", "compatibilityLevel")
        if level is not None:
            found.levels[subject] = CompatibilityLevel(level)
    return found


def of_subject(client: RegistryClient, subject: str) -> SchemaSet:
    """Return one subject with everything that it references: what a check needs. Raises RegistryError."""
    found = SchemaSet()
    level = client.ask("GET", f"/config/{_segment(subject)}?defaultToGlobal=true")["compatibilityLevel"]
    found.levels[subject] = CompatibilityLevel(level)
    try:
        waiting = [(subject, number) for number in client.versions(subject)]
    except RegistryError as error:
        if error.error_code not in NO_SUBJECT:
            raise
        waiting = []
    seen = set(waiting)
    while waiting:
        name, number = waiting.pop()
        words = client.ask("GET", f"/subjects/{_segment(name)}/versions/{number}?deleted=true")
        references = tuple(Reference.of(one) for one in words.get("references") or ())
        version = SetVersion(
            version=number,
            schema_id=int(words["id"]),
            schema=str(words["schema"]),
            references=references,
            schema_type=words.get("schemaType") or "AVRO",
        )
        found.subjects.setdefault(name, []).append(version)
        fresh = [(one.subject, one.version) for one in references if (one.subject, one.version) not in seen]
        seen.update(fresh)
        waiting.extend(fresh)
    for versions in found.subjects.values():
        versions.sort(key=lambda one: one.version)
    return found


def imported(client: RegistryClient, schemas: SchemaSet) -> int:
    """Write the set into the registry; return how many versions it holds of it now. Importing again changes nothing.

    Raises RegistryError at the first thing that is refused, with its subject and version; what was written before stays.
    """
    count = 0
    for subject, version in in_order(schemas):
        if version.schema_id is None:
            raise RegistryError(f"{subject} version {version.version} has no id: only an export has them, not a folder")
        _one(client, subject, version)
        count += 1
    # After every version is there: a reference may lead to a deleted version.
    for subject, versions in sorted(schemas.subjects.items()):
        for version in versions:
            if version.is_deleted:
                _deleted(client, subject, version.version)
    for name, level in schemas.levels.items():
        path = "/config" if name is None else f"/config/{_segment(name)}"
        client.ask("PUT", path, {"compatibility": level})
    return count


def in_order(schemas: SchemaSet) -> Iterator[tuple[str, SetVersion]]:
    """Yield every version after those that it references, else by id. Raises RegistryError for a ring."""
    waiting = sorted(
        ((subject, one) for subject, versions in schemas.subjects.items() for one in versions),
        key=lambda pair: (pair[1].schema_id or 0, pair[0], pair[1].version),
    )
    here = {(subject, one.version) for subject, one in waiting}
    done: set[tuple[str, int]] = set()
    while waiting:
        rest: list[tuple[str, SetVersion]] = []
        for subject, one in waiting:
            needs = {(reference.subject, reference.version) for reference in one.references} & here
            earlier = any(later == subject and other.version < one.version for later, other in rest)
            if needs <= done and not earlier:
                yield subject, one
                done.add((subject, one.version))
            else:
                rest.append((subject, one))
        if len(rest) == len(waiting):
            raise RegistryError(f"{rest[0][0]} version {rest[0][1].version} references itself over others: no order is possible")
        waiting = rest


def _one(client: RegistryClient, subject: str, version: SetVersion) -> None:
    path = f"/mode/{_segment(subject)}"
    before = _own(client, path, "mode")
    body: dict[str, Any] = {"schema": version.schema, "id": version.schema_id, "version": version.version}
    body["schemaType"] = version.schema_type
    if version.references:
        body["references"] = [one.words() for one in version.references]
    if before != IMPORT:
        client.ask("PUT", f"{path}?force=true", {"mode": IMPORT})
    try:
        client.ask("POST", f"/subjects/{_segment(subject)}/versions", body)
    except RegistryError as error:
        raise RegistryError(f"{subject} version {version.version}: {error}", error_code=error.error_code) from error
    finally:
        if before is None:
            client.ask("DELETE", path)
        elif before != IMPORT:
            client.ask("PUT", path, {"mode": before})


def _deleted(client: RegistryClient, subject: str, version: int) -> None:
    try:
        client.ask("DELETE", f"/subjects/{_segment(subject)}/versions/{version}")
    except RegistryError as error:
        if error.error_code not in (40404, 40406):
            raise


def _schemas(client: RegistryClient, *, is_deleted_too: bool) -> Iterator[Any]:
    offset = 0
    while True:
        flag = "true" if is_deleted_too else "false"
        page = client.ask("GET", f"/schemas?deleted={flag}&offset={offset}&limit={PAGE}")
        yield from page
        if len(page) < PAGE:
            return
        offset += len(page)


def _own(client: RegistryClient, path: str, name: str) -> str | None:
    try:
        return str(client.ask("GET", path)[name])
    except RegistryError as error:
        if error.error_code in NO_SETTING:
            return None
        raise


def _segment(word: str) -> str:
    return quote(word, safe="")
