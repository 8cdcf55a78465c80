"""Every refusal of the REST API: Confluent's codes, one function each, with a message that gives advice. Pure."""

from ..errors import RegistryError


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(f"Subject '{subject}' not found: GET /subjects lists them", error_code=40401)


def version_not_found(version: object) -> RegistryError:
    return RegistryError(f"Version {version} not found", error_code=40402)


def schema_not_found(what: str) -> RegistryError:
    return RegistryError(f"Schema {what} not found", error_code=40403)


def subject_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(f"Subject '{subject}' was soft deleted: set permanent=true to delete it permanently", error_code=40404)


def subject_not_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(f"Subject '{subject}' was not deleted first: delete it without permanent=true before", error_code=40405)


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        f"Subject '{subject}' version {version} was soft deleted: set permanent=true to delete it permanently", error_code=40406
    )


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        f"Subject '{subject}' version {version} was not deleted first: delete it without permanent=true before", error_code=40407
    )


def no_level(subject: str) -> RegistryError:
    return RegistryError(f"Subject '{subject}' has no compatibility level of its own: add defaultToGlobal=true", error_code=40408)


def no_mode(subject: str) -> RegistryError:
    return RegistryError(f"Subject '{subject}' has no mode of its own: add defaultToGlobal=true", error_code=40409)


def no_mode_to_delete(subject: str) -> RegistryError:
    """Return the refusal of a deletion: Confluent answers it with 40401, and reading with 40409."""
    return RegistryError(f"Subject '{subject}' has no mode of its own: there is nothing to take back", error_code=40401)


def invalid_version(word: object) -> RegistryError:
    return RegistryError(f'{word!r} is not a version: give a number from 1, -1 or "latest"', error_code=42202)


def invalid_level(word: object) -> RegistryError:
    return RegistryError(
        f"{word!r} is not a compatibility level: NONE, BACKWARD, FORWARD, FULL, or one of the last three with _TRANSITIVE",
        error_code=42203,
    )


def invalid_mode(word: object) -> RegistryError:
    return RegistryError(
        f"{word!r} is not a mode that is kept here: READWRITE, READONLY, READONLY_OVERRIDE, IMPORT", error_code=42204
    )


def not_permitted(what: str) -> RegistryError:
    return RegistryError(what, error_code=42205)


def only_none(subject: str, schema_type: str, level: str) -> RegistryError:
    return not_permitted(
        f"this registry does not compare schemas of type {schema_type}, and subject '{subject}' has level {level}: a second "
        f"version needs level NONE. PUT /config/{subject} with NONE first, or use AVRO"
    )


def still_referenced(subject: str, version: int, by: list[str]) -> RegistryError:
    return RegistryError(f"{subject} version {version} is referenced by {', '.join(by)}: delete those first", error_code=42206)


def invalid_subject(subject: str, why: str) -> RegistryError:
    return RegistryError(f"{subject!r} is not a subject's name: {why}", error_code=42208)


class NoLeader(RegistryError):
    """No leader is known now; there will be one soon."""


def no_leader(why: str) -> NoLeader:
    return NoLeader(f"No registry leads now ({why}): nothing was changed, try again", error_code=50004)


def forwarding_failed(why: str) -> RegistryError:
    return RegistryError(f"The write could not be sent to the leader: {why}: asking for it again is safe", error_code=50003)


def store_failed(why: str) -> RegistryError:
    return RegistryError(f"The schemas topic cannot be used now: {why}: nothing was changed, try again", error_code=50001)


def store_timed_out(why: str) -> RegistryError:
    return RegistryError(f"{why}: the change may or may not be kept; asking for it again is safe", error_code=50002)
