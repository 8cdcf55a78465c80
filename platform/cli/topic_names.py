"""Checks topic names that the user typed: does the topic exist, and if not, which name is similar?

Every command that needs an existing topic uses this module, so all give the same message with exit code 2.
"""

import difflib
from collections.abc import Iterable

from ..client.connection.cluster import Cluster
from ..client.errors import ClientError
from ..runtime.layout import QUARANTINE_SUFFIX, is_internal
from ..wire.topic_name import LONGEST, fault_of
from .errors import UsageError

MOST_SUGGESTED = 3
LEAST_ALIKE = 0.6
"""difflib's ratio. Two swapped letters, or one missing letter, in a short name are well above it."""


def did_you_mean(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names most similar to `name`, the best first. Ignores case; suggests an internal topic only for an
    internal name.
    """
    folded: dict[str, str] = {}
    for one in sorted(known, reverse=True):
        if not is_internal(one) or is_internal(name):
            folded[one.lower()] = one
    close = difflib.get_close_matches(name.lower(), folded, n=MOST_SUGGESTED, cutoff=LEAST_ALIKE)
    return [folded[one] for one in close]


def unknown_topic(name: str, where: str, known: Iterable[str], advice: str) -> UsageError:
    """Return the error for a topic that is missing in `where`."""
    close = did_you_mean(name, known)
    guess = f" Did you mean {' or '.join(repr(one) for one in close)}?" if close else ""
    return UsageError(f"there is no topic {name!r} {where}.{guess} {advice}")


def topics_of(bootstrap: str) -> list[str]:
    """Return the names of a cluster's topics. Raises the client's errors, which name the address."""
    cluster = Cluster(bootstrap, client_id="headrace-cli", request_timeout_ms=10_000)
    try:
        return cluster.topics()
    finally:
        cluster.close()


def topics_if_reachable(bootstrap: str) -> list[str] | None:
    """Return the names of a cluster's topics, or None if no broker answers: for advice, which must not fail itself."""
    try:
        return topics_of(bootstrap)
    except ClientError:
        return None


def check_known(
    name: str, known: Iterable[str], where: str, advice: str = "`headrace topic list` shows those there are."
) -> None:
    """Return if `name` is among the known names. Raises UsageError."""
    names = set(known)
    if name not in names:
        raise unknown_topic(name, where, names, advice)


def check_usable(name: str) -> None:
    """Return if events may be logged to a topic with this name, which need not exist. Raises UsageError."""
    if (fault := fault_of(name)) is not None:
        raise UsageError(f"{fault}: choose another name")
    if is_internal(name):
        raise UsageError(
            f"topic {name!r} is the platform's own (names that begin with '_' or end in {QUARANTINE_SUFFIX!r} are): its events "
            "would be neither mirrored, nor audited, nor loaded; choose another name"
        )
    if len(name) + len(QUARANTINE_SUFFIX) > LONGEST:
        raise UsageError(
            f"topic name of {len(name)} characters: a topic of events may have {LONGEST - len(QUARANTINE_SUFFIX)}, "
            f"so that NAME{QUARANTINE_SUFFIX} is a name too"
        )
