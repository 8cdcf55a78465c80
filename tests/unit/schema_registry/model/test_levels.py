"""The seven levels: which versions a new schema is compared with, and in which direction."""

import pytest

from headrace.schema_registry.model.compatibility import CompatibilityLevel, Version, breaches
from tests.support.avro_schemas import field, parsed, record

V1 = record(field("a", "int"))
V2 = record(field("a", "int"), field("b", "int", 0))
V3 = record(field("a", "int"), field("b", "int"))

VERSIONS = [Version(version=1, type=parsed(V1)), Version(version=2, type=parsed(V2))]

NEW_REQUIRED = record(field("a", "int"), field("b", "int"), field("c", "string"))
DROPS_A = record(field("b", "int", 0))
B_REQUIRED = V3
ADDS_OPTIONAL = record(field("a", "int"), field("b", "int", 0), field("c", "string", ""))

GOLDEN = [
    # (new schema, the levels that allow it after V1, V2)
    ("adds a required field", NEW_REQUIRED, {"NONE", "FORWARD", "FORWARD_TRANSITIVE"}),
    ("drops a required field", DROPS_A, {"NONE", "BACKWARD", "BACKWARD_TRANSITIVE"}),
    ("takes a default away", B_REQUIRED, {"NONE", "BACKWARD", "FORWARD", "FULL", "FORWARD_TRANSITIVE"}),
    ("adds an optional field", ADDS_OPTIONAL, {level.value for level in CompatibilityLevel}),
    ("is something else", record(field("a", "string")), {"NONE"}),
]


@pytest.mark.parametrize("level", list(CompatibilityLevel))
@pytest.mark.parametrize(("new", "allowed"), [pytest.param(new, allowed, id=what) for what, new, allowed in GOLDEN])
def test_a_level_allows_exactly_what_it_promises(new: dict[str, object], allowed: set[str], level: CompatibilityLevel) -> None:
    assert (not breaches(parsed(new), VERSIONS, level)) == (level.value in allowed)


def test_a_breach_names_the_version_the_direction_and_the_place() -> None:
    words = [str(one) for one in breaches(parsed(NEW_REQUIRED), VERSIONS, CompatibilityLevel.BACKWARD_TRANSITIVE)]
    assert len(words) == 3
    assert words[0].startswith("the new schema cannot read version 2: at /fields/c:")
    assert any("version 1: at /fields/b:" in one for one in words)
    forward = breaches(parsed(DROPS_A), VERSIONS, CompatibilityLevel.FORWARD)
    assert str(forward[0]).startswith("data of the new schema cannot be read with version 2: at /fields/a:")


def test_the_first_version_is_allowed_under_every_level() -> None:
    assert all(breaches(parsed(V1), [], level) == [] for level in CompatibilityLevel)
