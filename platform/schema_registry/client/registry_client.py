"""Requests to a schema registry: ids for schemas, schemas for ids. Works with Confluent's and Karapace's too.

The registry is asked first; its answer stays in memory permanently. If the registry does not answer, the folder is used. After a
failure, calls use the folder directly for `RETRY_AFTER_MS`, so that an outage does not cost a timeout for each call.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ...runtime.clock import Clock, SystemClock
from ..errors import NotAvro, RegistryError, RegistryUnavailable, UnknownSchemaId
from ..model.reference import CompatibilityAnswer, Reference, RegisteredSchema
from ..model.self_contained import self_contained
from .cache_folder import DEFAULT, CacheFolder, Folder
from .http_calls import RegistryAddress
from .lru_cache import LruCache

RETRY_AFTER_MS = 1_000
UNKNOWN_AFTER_MS = 5_000
"""How long an unknown id is treated as unknown: a stream of foreign payloads must not become a stream of requests."""
MEMORY_ENTRIES = 1_000
NO_SUBJECT = (40401, 40402, 40404)
"""Codes of a subject without a version."""
REFERENCES_LIMIT = 256
"""The most references of one schema, indirect ones included."""


class RegistryClient:
    """A registry's client. Threads may share one."""

    def __init__(
        self,
        url: str,
        *,
        timeout_ms: int = 5_000,
        cache_folder: Folder = DEFAULT,
        memory_entries: int = MEMORY_ENTRIES,
        clock: Clock | None = None,
    ) -> None:
        """`cache_folder`: where schemas are kept for an outage; the default is `default_folder()`, None keeps none."""
        self.url = url
        self._address = RegistryAddress(url, timeout_ms)
        self._clock = clock or SystemClock()
        self._folder = CacheFolder(cache_folder, self._address.url)
        self._ids: LruCache[str, int] = LruCache(memory_entries)
        self._schemas: LruCache[int, str] = LruCache(memory_entries)
        self._unknown: LruCache[int, int] = LruCache(memory_entries)
        self._down_until_ms = -1

    def register(
        self, subject: str, schema: str | dict[str, Any], references: Sequence[Reference | Mapping[str, Any]] = ()
    ) -> int:
        """Return the id of `schema` under `subject`; register it if it is not there.

        Raises `InvalidSchema`, `IncompatibleSchema`, `RegistryUnavailable` (if this schema was never registered from here).
        """
        text = schema if isinstance(schema, str) else json.dumps(schema)
        named = [Reference.of(reference).words() for reference in references]
        key = "register-" + hashlib.sha256(json.dumps([subject, text, named]).encode()).hexdigest()[:32]
        known = self._ids.get(key)
        if known is not None:
            return known
        body = {"schema": text, "schemaType": "AVRO", **({"references": named} if named else {})}
        try:
            schema_id = _int_of(self._ask("POST", f"/subjects/{_segment(subject)}/versions", body), "id")
        except RegistryUnavailable:
            kept = self._folder.get(key)
            if not isinstance(kept, int):
                raise
            schema_id = kept
        else:
            # Not eternal: some registries give an id again after a permanent deletion.
            self._folder.put(key, schema_id, is_eternal=False)
        self._ids.put(key, schema_id)
        return schema_id

    def schema(self, schema_id: int) -> str:
        """Return the schema's text, with the types it references written in full: a decoder needs nothing else.

        Raises `UnknownSchemaId`, and `RegistryUnavailable` if the registry does not answer and this id was never read from here.
        """
        known = self._schemas.get(schema_id)
        if known is not None:
            return known
        unknown_until_ms = self._unknown.get(schema_id)
        if unknown_until_ms is not None and self._clock.monotonic_ms() < unknown_until_ms:
            raise _unknown(schema_id, self.url)
        name = f"schema-{schema_id}"
        try:
            words = self._ask("GET", f"/schemas/ids/{schema_id}")
            kind = words.get("schemaType") if isinstance(words, dict) else None
            if kind not in (None, "AVRO"):
                raise NotAvro(f"schema id {schema_id} is of type {kind}: only Avro is decoded here", schema_id=schema_id)
            text = self._with_references(words)
        except NotAvro:
            raise
        except RegistryUnavailable:
            kept = self._folder.get(name)
            if not isinstance(kept, str):
                raise
            text = kept
        except RegistryError as error:
            if error.error_code != 40403:
                raise
            self._unknown.put(schema_id, self._clock.monotonic_ms() + UNKNOWN_AFTER_MS)
            raise _unknown(schema_id, self.url) from error
        else:
            self._folder.put(name, text)
        self._schemas.put(schema_id, text)
        return text

    def schemas_of(self, subject: str) -> dict[int, str]:
        """Return id → schema of every Avro version of the subject, oldest first; empty if there is no such subject.

        While the registry does not answer: as they were when they were last read from here. Raises `RegistryUnavailable` if they
        never were, or one of them is not kept.
        """
        name = "subject-" + hashlib.sha256(subject.encode()).hexdigest()[:32]
        try:
            ids = [self.version(subject, number).schema_id for number in self.versions(subject)]
        except RegistryUnavailable:
            kept = self._folder.get(name)
            if not isinstance(kept, list):
                raise
            ids = [int(schema_id) for schema_id in kept]
        except RegistryError as error:
            if error.error_code not in NO_SUBJECT:
                raise
            ids = []
        else:
            self._folder.put(name, ids, is_eternal=False)
        found = {}
        for schema_id in ids:
            try:
                found[schema_id] = self.schema(schema_id)
            except NotAvro:
                continue
        return found

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the subject's newest version. Never cached, because it changes."""
        return self.version(subject, "latest")

    def version(self, subject: str, version: int | str) -> RegisteredSchema:
        """Return one version of a subject (a number from 1, or "latest")."""
        return _registered(self._ask("GET", f"/subjects/{_segment(subject)}/versions/{_segment(str(version))}"))

    def subjects(self) -> list[str]:
        """Return all subjects, sorted."""
        return sorted(str(name) for name in self._ask("GET", "/subjects"))

    def versions(self, subject: str) -> list[int]:
        """Return the subject's version numbers, ascending."""
        return sorted(int(number) for number in self._ask("GET", f"/subjects/{_segment(subject)}/versions"))

    def compatible(
        self,
        subject: str,
        schema: str | dict[str, Any],
        references: Sequence[Reference | Mapping[str, Any]] = (),
        *,
        version: int | str = "latest",
    ) -> CompatibilityAnswer:
        """Return whether `schema` keeps the subject's level against `version`; if not, with each path and reason."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "schemaType": "AVRO", "references": [Reference.of(one).words() for one in references]}
        path = f"/compatibility/subjects/{_segment(subject)}/versions/{_segment(str(version))}?verbose=true"
        words = self._ask("POST", path, body)
        if not isinstance(words, dict):
            raise RegistryError(f"{self.url}: answered {words!r} where an object belongs: is this address a schema registry's?")
        messages = tuple(str(line) for line in words.get("messages") or ())
        return CompatibilityAnswer(is_compatible=bool(words.get("is_compatible")), messages=messages)

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Set the level of one subject, or the global level."""
        path = "/config" if subject is None else f"/config/{_segment(subject)}"
        self._ask("PUT", path, {"compatibility": level})

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Return the JSON of a request that has no method here. Raises `RegistryError`."""
        return self._ask(method, path, body)

    def _with_references(self, words: Any) -> str:
        """Return the self-contained text of a schema's JSON; read the referenced versions."""
        if not isinstance(words, dict) or not isinstance(words.get("schema"), str):
            raise RegistryError(f"{self.url}: answered {words!r} where a schema belongs: is this address a schema registry's?")
        waiting = [Reference.of(one) for one in words.get("references") or ()]
        seen: dict[Reference, str] = {}
        while waiting:
            reference = waiting.pop()
            if reference in seen:
                continue
            if len(seen) >= REFERENCES_LIMIT:
                raise RegistryError(f"a schema references more than {REFERENCES_LIMIT} others: flatten it")
            path = f"/subjects/{_segment(reference.subject)}/versions/{reference.version}?deleted=true"
            found = _registered(self._ask("GET", path))
            seen[reference] = found.schema
            waiting.extend(found.references)
        return self_contained(words["schema"], list(seen.values()))

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        if self._clock.monotonic_ms() < self._down_until_ms:
            raise RegistryUnavailable(
                f"{method} {self.url}{path}: the registry did not answer a moment ago: try again in a second"
            )
        try:
            return self._address.call(method, path, body)
        except RegistryUnavailable:
            self._down_until_ms = self._clock.monotonic_ms() + RETRY_AFTER_MS
            raise


def _segment(word: str) -> str:
    return quote(word, safe="")


def _unknown(schema_id: int, url: str) -> UnknownSchemaId:
    return UnknownSchemaId(
        f"schema id {schema_id} is unknown to {url}: the payload was framed with another registry's id", schema_id=schema_id
    )


def _int_of(words: Any, name: str) -> int:
    value = words.get(name) if isinstance(words, dict) else None
    if not isinstance(value, int) or isinstance(value, bool):
        raise RegistryError(
            f"the registry answered {words!r} without a whole number {name!r}: is this address a schema registry's?"
        )
    return value


def _registered(words: Any) -> RegisteredSchema:
    if not isinstance(words, dict) or not isinstance(words.get("schema"), str):
        raise RegistryError(f"the registry answered {words!r} where a version belongs: is this address a schema registry's?")
    return RegisteredSchema(
        subject=str(words.get("subject", "")),
        version=_int_of(words, "version"),
        schema_id=_int_of(words, "id"),
        schema=words["schema"],
        references=tuple(Reference.of(one) for one in words.get("references") or ()),
    )
