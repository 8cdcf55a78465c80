"""Schemas with their references looked up in the state, and what the versions of a subject say against a new one."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from ...runtime.logs import get_logger
from ..errors import InvalidSchema
from ..model.compatibility import CompatibilityLevel, Version, breaches
from ..model.opaque import AVRO, OpaqueSchema, opaque_schema
from ..model.reference import Reference
from ..model.schema import Schema, parse_schema
from ..model.self_contained import self_contained
from . import refusals
from .records import RegistryRecord
from .state import Content, RegistryState, StoredVersion

log = get_logger(__name__)

AnySchema = Schema | OpaqueSchema
Compared = tuple[CompatibilityLevel, tuple[tuple[int, int], ...]]
"""The level, and the number and id of each version that was compared."""
WORKERS = 2
"""So many threads parse and compare at once: each holds the interpreter, which the reads beside them need."""
REFERENCED_LIMIT = 8 << 20
"""The most characters of all schemas, indirect ones included, that one schema references."""


class Store(Protocol):
    """The source of the state and the destination of records."""

    @property
    def state(self) -> RegistryState: ...

    @property
    def state_lock(self) -> threading.RLock: ...

    def check_readable(self) -> None:
        """Return if the state has held the whole topic once. Raises 50001 before that: half a state gives wrong answers."""
        ...

    def catch_up(self) -> None:
        """Return when the state holds everything that the topic holds now. Raises a 500xx `RegistryError`."""
        ...

    def write(self, records: Sequence[RegistryRecord], epoch: int | None, /) -> str | None:
        """Return None if all records were read back and applied, else why one was refused. Raises a 500xx `RegistryError`."""
        ...


class StoredSchemas:
    """The schemas of one state. Threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._at_work = threading.BoundedSemaphore(WORKERS)

    @contextmanager
    def reading(self) -> Iterator[RegistryState]:
        """Yield the state, which does not change while it is held."""
        self._store.check_readable()
        with self._store.state_lock:
            yield self._store.state

    def parse(
        self, text: str, references: Sequence[Reference], schema_type: str = AVRO, *, is_normalized: bool = False
    ) -> AnySchema:
        """Return the schema, with its references looked up. Raises `InvalidSchema`."""
        texts = self._referenced(references)
        if sum(map(len, texts)) > REFERENCED_LIMIT:
            raise InvalidSchema(f"the references hold more than {REFERENCED_LIMIT} characters: use fewer", error_code=42209)
        with self._at_work:
            if schema_type != AVRO:
                return opaque_schema(text, references, schema_type, is_normalized=is_normalized)
            return parse_schema(text, references, texts, is_normalized=is_normalized)

    def resolved(self, content: Content) -> str:
        """Return a stored Avro schema's text with its references written in full. The text was checked when it came."""
        text, references, _ = content
        return self_contained(text, self._referenced(references))

    def _referenced(self, references: Sequence[Reference]) -> list[str]:
        with self.reading() as state:
            texts = state.referenced(references)
        if isinstance(texts, Reference):
            raise InvalidSchema(
                f"the reference {texts.name!r} leads to version {texts.version} of {texts.subject!r}, which is not there"
            )
        return texts

    def _stored_schema(self, stored: StoredVersion, content: Content) -> AnySchema | None:
        """Return a stored version's schema; None if it cannot be parsed: then it is left out of comparisons."""
        text, references, kind = content
        try:
            if kind != AVRO:
                return OpaqueSchema(text=text, references=references, schema_type=kind)
            return parse_schema(text, references, self._referenced(references), is_stored=True)
        except InvalidSchema as error:
            log.warning("stored_schema_unreadable", subject=stored.subject, version=stored.version, why=str(error)[:200])
            return None

    def why_incompatible(
        self,
        subject: str,
        schema: AnySchema,
        level: CompatibilityLevel,
        *,
        against: StoredVersion | None = None,
        known: dict[Compared, list[str]] | None = None,
    ) -> list[str]:
        """Return why the schema may not follow the subject's versions (or only `against`) under the level.

        `known` remembers the answer for these versions; the same schema is asked for each time.
        """
        if level is CompatibilityLevel.NONE:
            return []
        with self.reading() as state:
            compared = state.versions(subject) if against is None else [against]
            if not compared:
                return []
            if not isinstance(schema, Schema):
                raise refusals.only_none(subject, schema.schema_type, level)
            contents = [(stored, state.content(stored.schema_id)) for stored in compared]
        name = level, tuple((stored.version, stored.schema_id) for stored, _ in contents)
        if known is not None and name in known:
            return known[name]
        with self._at_work:
            reasons = self._reasons(schema, level, contents)
        if known is not None:
            known[name] = reasons
        return reasons

    def _reasons(
        self, schema: Schema, level: CompatibilityLevel, contents: Sequence[tuple[StoredVersion, Content | None]]
    ) -> list[str]:
        parsed: list[tuple[int, AnySchema]] = []
        for stored, content in reversed(contents):
            old = None if content is None else self._stored_schema(stored, content)
            if old is not None:
                parsed.insert(0, (stored.version, old))
                if not level.is_transitive:
                    break
        others = [
            f"version {number} is of type {old.content[2]}, and only NONE allows another one"
            for number, old in parsed
            if not isinstance(old, Schema)
        ]
        versions = [Version(version=number, type=old.type) for number, old in parsed if isinstance(old, Schema)]
        return [*others, *(str(breach) for breach in breaches(schema.type, versions, level))]
