"""How a part that this machine does not have says so."""

import shutil


class Unavailable(Exception):
    """Not installed here. The text says what is missing and how to get it; the result lists it as skipped, by name."""


def program_path(program: str, *, otherwise: str) -> str:
    """Return the path of an installed program. Raises Unavailable with the text `otherwise`."""
    found = shutil.which(program)
    if found is None:
        raise Unavailable(otherwise)
    return found
