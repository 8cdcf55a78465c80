"""What a subject allows: the modes of Confluent's API. Pure."""

from enum import StrEnum


class Mode(StrEnum):
    """A mode holds for one subject, or for every subject that has none of its own."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    """Schemas, levels and deletions are refused; reading, looking up and comparing go on."""
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    """An older word for READONLY: Confluent deprecates it, and no longer lets it overrule a subject's own mode."""
    IMPORT = "IMPORT"
    """The caller chooses id and version, as he does who restores a registry; nothing is compared or normalised."""

    @property
    def is_read_only(self) -> bool:
        return self in (Mode.READONLY, Mode.READONLY_OVERRIDE)


DEFAULT_MODE = Mode.READWRITE
