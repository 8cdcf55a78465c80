"""The names of segment files: the base offset in twenty digits. Pure."""

SUFFIX = ".log"
DELETED_SUFFIX = ".log.deleted"
"""The file is no longer part of the log and will be erased."""


def file_name(base_offset: int) -> str:
    """Return `00000000000000000042.log` for 42."""
    return f"{base_offset:020d}{SUFFIX}"


def base_offset_of(name: str) -> int | None:
    """Return the base offset in a segment's file name, None for the name of any other file."""
    digits = name.removesuffix(SUFFIX)
    return int(digits) if name.endswith(SUFFIX) and len(digits) == 20 and digits.isascii() and digits.isdigit() else None
