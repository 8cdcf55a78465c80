"""The registry's operations: each decides on the state, writes to the topic, and answers from what was read back.

Knows nothing of HTTP. Writes are committed in groups (`group_commit`). Each is decided on a state that has read everything the
topic held when the write began, and is answered only after the reader has passed it. The gate says whether this process may write
(`write_gate`). If two do, the topic's order decides, and the loser decides again (`RegistryState.apply`).
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from ..errors import IncompatibleSchema, InvalidSchema
from ..model.compatibility import CompatibilityLevel
from ..model.mode import Mode
from ..model.opaque import AVRO
from ..model.reference import Reference
from . import mode_rules, refusals
from .group_commit import GroupCommit, IdsOfGroup
from .records import LevelRecord, ModeRecord, RegistryRecord, SchemaRecord, SubjectDeleted, VersionRemoved
from .state import RegistryState, StoredVersion
from .stored_schemas import AnySchema, Compared, Store, StoredSchemas
from .write_gate import OpenGate, WriteGate

T = TypeVar("T")

SUBJECT_LIMIT = 249
"""The longest subject, in characters: a topic's name and its suffix fit."""


class SchemaRegistry(StoredSchemas):
    """The registry's operations. Threads may share one."""

    def __init__(self, store: Store, *, gate: WriteGate | None = None, write_wait_ms: int = 15_000) -> None:
        super().__init__(store)
        self._gate = gate or OpenGate()
        self._writes = GroupCommit(store, self._gate, wait_ms=write_wait_ms)

    @property
    def gate(self) -> WriteGate:
        return self._gate

    def mode(self, subject: str | None) -> Mode:
        """Return the mode that applies to a subject (None: globally) in this process."""
        with self.reading() as state:
            return Mode.READONLY if self._gate.is_read_only else state.mode(subject)

    # --- schemas -------------------------------------------------------------------------------------------------------------

    def register(
        self,
        subject: str,
        text: str,
        references: Sequence[Reference],
        schema_type: str = AVRO,
        *,
        is_normalized: bool = False,
        version: int | None = None,
        wanted_id: int | None = None,
    ) -> int:
        """Return the id of the schema under the subject; create a new version if it is not there.

        Raises `InvalidSchema`, `IncompatibleSchema`, 42208 for the subject's name, 42205 if its mode does not allow it.
        """
        check_subject(subject)
        with self.reading() as state:
            is_import = state.mode(subject) is Mode.IMPORT
        schema = self.parse(text, references, schema_type, is_normalized=is_normalized and not is_import)
        found = self._asked_for(subject, schema, wanted_id, version)
        if found is not None:
            return found.schema_id
        compared: dict[Compared, list[str]] = {}
        with self.reading() as state:
            level = state.level(subject)
        if wanted_id is None and not is_import:
            # The long part, before other writes have to wait for it. It is decided again only if the versions changed.
            self.why_incompatible(subject, schema, level, known=compared)

        def decide(ids: IdsOfGroup) -> tuple[list[RegistryRecord], int]:
            found = self._asked_for(subject, schema, wanted_id, version)
            if found is not None:
                return [], found.schema_id
            with self.reading() as state:
                mode_rules.check_registering(state, subject, wanted_id)
                if wanted_id is not None:
                    return [mode_rules.imported(state, subject, schema.content, wanted_id, version)], wanted_id
                number = state.next_version(subject)
                level = state.level(subject)
            if version is not None and version != number:
                raise InvalidSchema(f"the next version of {subject!r} is {number}, not {version}: leave the version out")
            reasons = self.why_incompatible(subject, schema, level, known=compared)
            if reasons:
                raise IncompatibleSchema(
                    f"Schema being registered is incompatible with an earlier schema for subject '{subject}' under {level}: "
                    + "; ".join(reasons)
                )
            with self.reading() as state:
                schema_id = ids.id_of(state, schema.content)
            record = SchemaRecord(
                subject=subject,
                version=number,
                schema_id=schema_id,
                schema=schema.text,
                references=schema.references,
                schema_type=schema.content[2],
            )
            return [record], schema_id

        # An id that the caller chose may be another one's content in the same group: decided alone.
        return self._writes.change(decide, None if is_import or wanted_id is not None else subject)

    def find(self, subject: str, schema: AnySchema, *, is_deleted_too: bool = False) -> StoredVersion | None:
        """Return the newest version of the subject that has exactly this schema."""
        return next(reversed(self._having(subject, schema, is_deleted_too=is_deleted_too)), None)

    def _having(self, subject: str, schema: AnySchema, *, is_deleted_too: bool = False) -> list[StoredVersion]:
        # Compared by content: an imported schema may have several ids.
        with self.reading() as state:
            versions = state.versions(subject, is_deleted_too=is_deleted_too)
            return [stored for stored in versions if state.content(stored.schema_id) == schema.content]

    def _asked_for(self, subject: str, schema: AnySchema, wanted_id: int | None, version: int | None) -> StoredVersion | None:
        """Return the existing version that a registration asks for; its id and number equal the chosen ones, if any are
        chosen.
        """
        found = self._having(subject, schema)
        if wanted_id is not None:
            found = [one for one in found if one.schema_id == wanted_id and version in (None, one.version)]
        return found[-1] if found else None

    def version(self, subject: str, word: str | int, *, is_deleted_too: bool = False) -> StoredVersion:
        """Return one version: a number from 1, "-1" or "latest". Raises 40401, 40402, 42202."""
        number = version_number(word)
        with self.reading() as state:
            versions = state.versions(subject, is_deleted_too=is_deleted_too)
        if not versions:
            raise refusals.subject_not_found(subject)
        found = versions[-1] if number is None else next((one for one in versions if one.version == number), None)
        if found is None:
            raise refusals.version_not_found(number)
        return found

    # --- deletions -----------------------------------------------------------------------------------------------------------

    def delete_subject(self, subject: str, *, is_permanent: bool) -> list[int]:
        """Delete the subject's versions and return their numbers."""

        def decide() -> tuple[list[RegistryRecord], list[int]]:
            with self.reading() as state:
                everything, present = state.versions(subject, is_deleted_too=True), state.versions(subject)
                left = self._settings_of(state, subject)
                if not everything:
                    raise refusals.subject_not_found(subject)
                if not is_permanent and not present:
                    raise refusals.subject_soft_deleted(subject)
                if is_permanent and present:
                    raise refusals.subject_not_soft_deleted(subject)
                mode_rules.check_writable(state, subject)
                chosen = everything if is_permanent else present
                for stored in chosen:
                    self._refuse_referenced(state, stored)
            numbers = [stored.version for stored in chosen]
            if not is_permanent:
                records: list[RegistryRecord] = [SubjectDeleted(subject=subject, version=numbers[-1])]
                # A later subject with this name begins with the global level; the mode stays until all versions are permanently
                # deleted.
                return [*records, *(one for one in left if isinstance(one, LevelRecord))], numbers
            return [*(VersionRemoved(subject=subject, version=number) for number in numbers), *left], numbers

        return self._change(decide)

    def delete_version(self, subject: str, word: str | int, *, is_permanent: bool) -> int:
        """Delete one version and return its number."""

        def decide() -> tuple[list[RegistryRecord], int]:
            # "latest" is the newest version that can be deleted this way: a present one, unless the deletion is permanent.
            is_latest = version_number(word) is None
            stored = self.version(subject, word, is_deleted_too=is_permanent or not is_latest)
            if not is_permanent and stored.is_deleted:
                raise refusals.version_soft_deleted(subject, stored.version)
            if is_permanent and not stored.is_deleted:
                raise refusals.version_not_soft_deleted(subject, stored.version)
            with self.reading() as state:
                mode_rules.check_writable(state, subject)
                self._refuse_referenced(state, stored)
                content = state.content(stored.schema_id)
                is_last = len(state.versions(subject, is_deleted_too=True)) == 1
                left = self._settings_of(state, subject) if is_last else []
            if is_permanent or content is None:
                return [VersionRemoved(subject=subject, version=stored.version), *left], stored.version
            record = SchemaRecord(
                subject=subject,
                version=stored.version,
                schema_id=stored.schema_id,
                schema=content[0],
                references=content[1],
                schema_type=content[2],
                is_deleted=True,
            )
            return [record], stored.version

        return self._change(decide)

    @staticmethod
    def _settings_of(state: RegistryState, subject: str) -> list[RegistryRecord]:
        """Return the records that remove the subject's settings: they are deleted with its last version."""
        level: list[RegistryRecord] = [LevelRecord(subject=subject, level=None)] if state.own_level(subject) else []
        return [*level, *([ModeRecord(subject=subject, mode=None)] if state.own_mode(subject) else [])]

    @staticmethod
    def _refuse_referenced(state: RegistryState, stored: StoredVersion) -> None:
        by = [f"{one.subject} version {one.version}" for one in state.referring(stored.subject, stored.version)]
        if by:
            raise refusals.still_referenced(stored.subject, stored.version, by)

    # --- levels --------------------------------------------------------------------------------------------------------------

    def set_level(self, subject: str | None, word: object) -> CompatibilityLevel:
        """Set the level of a subject, or the global one."""
        try:
            # str(None) is a level's name, so a value that is not text is refused first.
            level = CompatibilityLevel(word.upper() if isinstance(word, str) else "")
        except ValueError as error:
            raise refusals.invalid_level(word) from error
        if subject is not None:
            check_subject(subject)

        def decide() -> tuple[list[RegistryRecord], CompatibilityLevel]:
            with self.reading() as state:
                mode_rules.check_writable(state, subject)
                if subject is not None:
                    mode_rules.check_comparable(state, subject, level)
            return [LevelRecord(subject=subject, level=level)], level

        return self._change(decide)

    def unset_level(self, subject: str | None) -> CompatibilityLevel:
        """Remove a level and return its old value."""

        def decide() -> tuple[list[RegistryRecord], CompatibilityLevel]:
            with self.reading() as state:
                level = state.own_level(subject)
                if level is None:
                    raise refusals.no_level(str(subject))
                mode_rules.check_writable(state, subject)
            return [LevelRecord(subject=subject, level=None)], level

        return self._change(decide)

    # --- modes ---------------------------------------------------------------------------------------------------------------

    def set_mode(self, subject: str | None, word: object, *, is_forced: bool = False) -> Mode | None:
        """Set the mode of a subject, or the global one; None removes it.

        Raises 42204, 42208. For IMPORT without `is_forced`: 42205 while versions are present, 42206 while one is referenced.
        """
        mode = mode_rules.mode_of(word)
        if subject is not None:
            check_subject(subject)

        def decide() -> tuple[list[RegistryRecord], Mode | None]:
            with self.reading() as state:
                begins_import = mode is Mode.IMPORT and state.mode(subject) is not Mode.IMPORT and not is_forced
                removed = mode_rules.cleared_for_import(state, subject) if begins_import else []
            return [*removed, ModeRecord(subject=subject, mode=mode)], mode

        return self._change(decide)

    def unset_mode(self, subject: str | None, *, is_recursive: bool = False) -> Mode | None:
        """Remove a mode and return its old value. `is_recursive`, for the global mode: remove every subject's as well.

        Raises 40401 for a subject without a mode, unless `is_recursive`: then None is returned.
        """

        def decide() -> tuple[list[RegistryRecord], Mode | None]:
            with self.reading() as state:
                own = state.own_mode(subject)
                before = state.mode(None) if subject is None else own
                named: list[str | None] = list(state.moded_subjects()) if is_recursive and subject is None else []
            if before is None and not is_recursive:
                raise refusals.no_mode_to_delete(str(subject))
            gone = [*([subject] if own else []), *named]
            return [ModeRecord(subject=one, mode=None) for one in gone], before

        return self._change(decide)

    def _change(self, decide: Callable[[], tuple[Sequence[RegistryRecord], T]]) -> T:
        """Write what `decide` returns and return its answer: decided alone."""
        return self._writes.change(lambda ids: decide())


def version_number(word: str | int) -> int | None:
    """Return the number in the word, None for the newest. Raises 42202."""
    text = str(word)
    if text in ("latest", "-1"):
        return None
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:12]) < 1 << 31:
        raise refusals.invalid_version(word)
    return int(text)


def check_subject(subject: str) -> None:
    """Raise 42208 for a name that no subject may have."""
    if not subject or len(subject) > SUBJECT_LIMIT:
        raise refusals.invalid_subject(subject[:40], f"give 1 to {SUBJECT_LIMIT} characters")
    if any(not letter.isprintable() for letter in subject):
        raise refusals.invalid_subject(subject, "it holds a character that cannot be printed")
    if subject in ("__GLOBAL", "__EMPTY"):
        raise refusals.invalid_subject(subject, "the name is reserved")
    if subject.startswith(":."):
        raise refusals.invalid_subject(subject, "contexts are not kept here: give a name without them")
