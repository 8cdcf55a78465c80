"""The modes of Confluent's API: what a subject allows. Pure."""

from enum import StrEnum


class Mode(StrEnum):
    """A mode applies to one subject, or to every subject that has none of its own."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    """Changes of schemas, levels and deletions are refused; reads and compatibility checks are served."""
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    """An older word for READONLY: Confluent deprecates it, and it no longer overrides a subject's own mode."""
    IMPORT = "IMPORT"
    """The caller chooses id and version, for restoring a registry; nothing is compared or normalised."""

    @property
    def is_read_only(self) -> bool:
        return self in (Mode.READONLY, Mode.READONLY_OVERRIDE)


DEFAULT_MODE = Mode.READWRITE
