"""The values of the OpenAPI document: requests and responses, query parameters, the meaning of each error code.

Data only. `openapi.py` joins it to the endpoints.
"""

from typing import Any

from ...model.compatibility import CompatibilityLevel
from ...model.mode import Mode
from ...model.opaque import OPAQUE_TYPES, SCHEMA_TYPES
from ..mode_rules import ID_LIMIT
from ..registry import SUBJECT_LIMIT

Schema = dict[str, Any]

CODES: dict[int, str] = {
    400: "the path, the query or the body cannot be read, or a value in the body has another type",
    40401: "no such subject",
    40402: "no such version",
    40403: "no such schema",
    40404: "the subject is soft-deleted already",
    40405: "the subject must be soft-deleted first",
    40406: "the version is soft-deleted already",
    40407: "the version must be soft-deleted first",
    40408: "the subject has no compatibility level of its own",
    40409: "the subject has no mode of its own",
    406: "no media type is accepted that is spoken here",
    409: "the schema is not compatible with an earlier version",
    415: "the body has a media type that is not read here",
    422: "a query parameter is not a number, or neither true nor false",
    42201: "the schema or a reference is not valid",
    42202: "the version is not a number from 1, -1 or latest",
    42203: "no such compatibility level",
    42204: "no such mode",
    42205: "the mode does not permit it, or the setting is not kept here",
    42206: "another schema references this version",
    42208: "no subject may have this name",
    42209: "the body or the schema is too long",
    42210: "rule sets and metadata are not kept here",
    50001: "the schemas topic cannot be used now; nothing was changed",
    50002: "whether the change was kept is not known; asking again is safe",
    50003: "the write could not be sent to the leading registry; asking again is safe",
    50004: "no registry leads now; nothing was changed",
}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def listed(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def object_of(required: dict[str, Schema], optional: dict[str, Schema] | None = None, **more: Any) -> Schema:
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required), **more}


SUBJECT: Schema = {"type": "string", "minLength": 1, "maxLength": SUBJECT_LIMIT}
NUMBER: Schema = {"type": "integer", "minimum": 1, "maximum": ID_LIMIT}
COUNT: Schema = {"type": "integer", "minimum": 0}
TEXT: Schema = {"type": "string"}
OPTIONAL_NUMBER: Schema = {"type": ["integer", "null"], "minimum": -1, "maximum": ID_LIMIT}
LEVEL: Schema = {"type": "string", "enum": [level.value for level in CompatibilityLevel]}
MODE: Schema = {"type": "string", "enum": [mode.value for mode in Mode]}
MAYBE_MODE: Schema = {"type": ["string", "null"], "enum": [*(mode.value for mode in Mode), None]}
AVRO_JSON: Schema = {
    "description": "an Avro schema: a name, an object or a union's array",
    "type": ["string", "object", "array", "boolean"],
}
KIND: Schema = {"type": "string", "enum": list(OPAQUE_TYPES), "description": "absent for Avro"}
NOT_KEPT: Schema = {"type": "null", "description": "not kept here: leave it out"}
STATE_FACTS: dict[str, Schema] = {
    "topic": TEXT,
    "bootstrap": TEXT,
    "is_caught_up": {"type": "boolean"},
    "next_offset": {"type": "integer", "minimum": -1},
    "trouble": {"type": ["string", "null"]},
    "mode": {"type": "string", "enum": ["READONLY", "READWRITE"]},
    "subjects": COUNT,
    "schemas": COUNT,
    "highest_id": COUNT,
}
LEADER_FACTS: dict[str, Schema] = {
    "leader": {"type": ["string", "null"]},
    "is_leader": {"type": "boolean"},
    "leader_epoch": {"type": ["integer", "null"]},
    "leader_trouble": {"type": ["string", "null"]},
}
"""Where one of several registries is elected."""

SCHEMAS: dict[str, Schema] = {
    "Error": object_of({"error_code": {"type": "integer"}, "message": {"type": "string", "minLength": 1}}),
    "Reference": object_of(
        {"name": {"type": "string", "minLength": 1}, "subject": {"type": "string", "minLength": 1}, "version": NUMBER}
    ),
    "SchemaRequest": object_of(
        {
            "schema": {
                "type": "string",
                "minLength": 1,
                "format": "avro-schema",
                "description": "the schema as text; an Avro schema's is JSON",
            }
        },
        {
            "schemaType": {"type": ["string", "null"], "enum": [*SCHEMA_TYPES, None]},
            "references": {"type": ["array", "null"], "items": ref("Reference")},
            "metadata": NOT_KEPT,
            "ruleSet": NOT_KEPT,
        },
    ),
    "RegisterRequest": {
        "allOf": [ref("SchemaRequest")],
        "type": "object",
        "properties": {
            "id": {**OPTIONAL_NUMBER, "description": "in mode IMPORT the id to take; otherwise leave it out"},
            "version": {**OPTIONAL_NUMBER, "description": "the version to make; 0, -1 and nothing mean the next"},
        },
    },
    "LevelRequest": object_of({"compatibility": LEVEL}, additionalProperties=NOT_KEPT),
    "ModeRequest": object_of({"mode": MAYBE_MODE}),
    "Registered": object_of({"id": NUMBER}),
    "Schema": object_of({"schema": TEXT}, {"schemaType": KIND, "references": listed(ref("Reference")), "maxId": COUNT}),
    "Version": object_of(
        {"subject": TEXT, "version": NUMBER, "id": NUMBER, "schema": TEXT},
        {"schemaType": KIND, "references": listed(ref("Reference")), "deleted": {"type": "boolean"}},
    ),
    "SubjectVersion": object_of({"subject": TEXT, "version": NUMBER}),
    "Verdict": object_of({"is_compatible": {"type": "boolean"}}, {"messages": listed(TEXT)}),
    "LevelSet": object_of({"compatibility": LEVEL}),
    "Level": object_of({"compatibilityLevel": LEVEL}),
    "Mode": object_of({"mode": MODE}),
    "MaybeMode": object_of({"mode": MAYBE_MODE}),
    "ClusterId": object_of(
        {
            "id": TEXT,
            "scope": object_of(
                {
                    "path": listed(TEXT),
                    "clusters": object_of({"kafka-cluster": TEXT, "schema-registry-cluster": TEXT}),
                }
            ),
        }
    ),
    "ServerVersion": object_of({"version": TEXT, "commitId": TEXT}),
    "Health": object_of({"status": {"type": "string", "enum": ["healthy", "degraded"]}, **STATE_FACTS}, LEADER_FACTS),
    "Readiness": object_of({"ready": {"type": "boolean"}, **STATE_FACTS}, LEADER_FACTS),
}
"""Every response lists its fields exactly; later versions may add more."""

_INT_32: Schema = {"type": "integer", "minimum": -ID_LIMIT - 1, "maximum": ID_LIMIT, "default": -1}
_FLAG: Schema = {"type": "boolean", "default": False}

QUERY: dict[str, tuple[str, Schema]] = {
    "offset": ("how many rows to leave out first", {"type": "integer", "minimum": 0, "maximum": ID_LIMIT, "default": 0}),
    "limit": ("how many rows at most; a negative number means all", _INT_32),
    "subjectPrefix": ("only subjects that begin so; `:*:` before it is left out of account", TEXT),
    "contextPrefix": ("only contexts that begin so", TEXT),
    "deleted": ("soft-deleted ones, too", _FLAG),
    "deletedOnly": ("soft-deleted ones only", _FLAG),
    "latestOnly": ("the newest version of each subject only", _FLAG),
    "permanent": ("delete permanently what is soft-deleted", _FLAG),
    "normalize": ("sort attributes that Avro does not know before comparing", _FLAG),
    "verbose": ("return the reasons, too", _FLAG),
    "fetchMaxId": ("return the highest id, too", _FLAG),
    "defaultToGlobal": ("if the subject has none of its own, return the global one", _FLAG),
    "force": ("begin IMPORT although versions are present", _FLAG),
    "recursive": ("take every subject's mode back, too", _FLAG),
    "format": ("`resolved` writes referenced types in full", TEXT),
    "subject": ("only this subject", TEXT),
    "key": ("the metadata's key", listed(TEXT)),
    "value": ("the metadata's value", listed(TEXT)),
}

PATH: dict[str, tuple[str, Schema]] = {
    "subject": ("the subject, percent-encoded", SUBJECT),
    "version": ("a number from 1, -1 or latest", {"type": "string", "pattern": "^(latest|-1|[1-9][0-9]{0,8})$"}),
    "id": ("the schema's id", NUMBER),
}
