"""Which topic names are allowed. Pure. Source: Kafka's own rule (Topic.validate), so that names carry over to a real cluster."""

import re

LONGEST = 249
_ALLOWED = re.compile(r"[a-zA-Z0-9._-]+")


def fault_of(name: str) -> str | None:
    """Return what is wrong with a topic name, or None when it may be used."""
    if not name:
        return "a topic name may not be empty"
    if name in (".", ".."):
        return f"a topic name may not be {name!r}"
    if len(name) > LONGEST:
        return f"a topic name may have at most {LONGEST} characters, this one has {len(name)}"
    if _ALLOWED.fullmatch(name) is None:
        return f"topic name {name!r} may only have letters, digits, '.', '_' and '-'"
    return None
