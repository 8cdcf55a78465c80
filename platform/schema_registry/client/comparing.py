"""What changed between two versions of a subject, and who breaks on it. Asks nothing: works on a `SchemaSet`."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..model.advice import sentence
from ..model.compatibility import CompatibilityLevel, LevelBreach, Version, breaches
from ..model.differences import Difference, differences
from .schema_set import SchemaSet, SetVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """One reader that cannot read what one writer writes."""

    breach: LevelBreach
    words: str
    is_forbidden: bool
    """Whether the subject's level protects this reader."""


def changes(schemas: SchemaSet, old: SetVersion, new: SetVersion) -> list[Difference]:
    """Return what changed. Raises InvalidSchema."""
    return differences(schemas.parsed(old).type, schemas.parsed(new).type)


def breaks(
    schemas: SchemaSet, subject: str, before: Sequence[SetVersion], new: SetVersion, level: CompatibilityLevel
) -> list[Break]:
    """Return every break between `new` and the versions before it, in both directions. Raises InvalidSchema."""
    versions = [Version(version=one.version, type=schemas.parsed(one).type) for one in before]
    schema = schemas.parsed(new)
    forbidden = {str(one) for one in breaches(schema.type, versions, level)}
    return [
        Break(breach=one, words=sentence(one, subject=subject), is_forbidden=str(one) in forbidden)
        for one in breaches(schema.type, versions, CompatibilityLevel.FULL_TRANSITIVE)
    ]
