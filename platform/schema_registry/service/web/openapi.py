"""The OpenAPI document: every endpoint with its parameters, its responses and the error codes that it really returns.

One line for each operation. A test compares the table with the routes, and every response of the API's tests with the document.
"""

from dataclasses import dataclass
from typing import Any

from .... import __version__
from .http_exchange import BODY_TYPES, MEDIA_TYPES
from .openapi_parts import AVRO_JSON, CODES, NUMBER, PATH, QUERY, SCHEMAS, TEXT, Schema, listed, ref

PAGE = ("offset", "limit")
NO_VERSION = (40401, 40402, 42202)
BAD_SCHEMA = (415, 42201, 42209, 42210)
WRITES = (50002, 50003, 50004, 42205)
"""Errors of every change: the mode, and a topic that does not confirm a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The description of one endpoint."""

    name: str
    about: str
    answer: Schema
    query: tuple[str, ...] = ()
    body: str | None = None
    """The name of the body's schema."""
    codes: tuple[int, ...] = ()
    """Error codes besides those that every endpoint may return."""
    unready: bool = False
    """Whether the same response comes with 503."""


def _op(name: str, about: str, answer: Schema, *query: str, body: str | None = None, codes: tuple[int, ...] = ()) -> Operation:
    return Operation(name=name, about=about, answer=answer, query=query, body=body, codes=codes)


REQUEST = "SchemaRequest"
VERSION = ref("Version")
OPERATIONS: dict[tuple[str, str], Operation] = {
    ("GET", "/subjects"): _op(
        "listSubjects", "List subjects.", listed(TEXT), "subjectPrefix", "deleted", "deletedOnly", *PAGE, codes=(50001,)
    ),
    ("POST", "/subjects/{subject}"): _op(
        "lookUpSchema",
        "Return the version of the subject that has this schema.",
        VERSION,
        "normalize",
        "deleted",
        "format",
        body=REQUEST,
        codes=(40401, 40403, *BAD_SCHEMA, 50001),
    ),
    ("DELETE", "/subjects/{subject}"): _op(
        "deleteSubject",
        "Delete every version of the subject; return their numbers.",
        listed(NUMBER),
        "permanent",
        codes=(40401, 40404, 40405, 42206, *WRITES, 50001),
    ),
    ("GET", "/subjects/{subject}/metadata"): _op(
        "getLatestWithMetadata",
        "Return the newest version with this metadata. None is kept here, so none is found.",
        VERSION,
        "key",
        "value",
        "format",
        "deleted",
        codes=(40401, 40403, 50001),
    ),
    ("GET", "/subjects/{subject}/versions"): _op(
        "listVersions",
        "List the subject's versions.",
        listed(NUMBER),
        "deleted",
        "deletedOnly",
        *PAGE,
        codes=(40401, 50001),
    ),
    ("POST", "/subjects/{subject}/versions"): _op(
        "register",
        "Register a schema, or find it; return its id.",
        ref("Registered"),
        "normalize",
        "format",
        body="RegisterRequest",
        codes=(409, 42208, *BAD_SCHEMA, *WRITES, 50001),
    ),
    ("GET", "/subjects/{subject}/versions/{version}"): _op(
        "getVersion", "Return one version.", VERSION, "deleted", "format", codes=(*NO_VERSION, 50001)
    ),
    ("DELETE", "/subjects/{subject}/versions/{version}"): _op(
        "deleteVersion",
        "Delete one version; return its number.",
        NUMBER,
        "permanent",
        codes=(*NO_VERSION, 40406, 40407, 42206, *WRITES, 50001),
    ),
    ("GET", "/subjects/{subject}/versions/{version}/schema"): _op(
        "getVersionSchema", "Return one version's schema text.", AVRO_JSON, "deleted", "format", codes=(*NO_VERSION, 50001)
    ),
    ("GET", "/subjects/{subject}/versions/{version}/referencedby"): _op(
        "listReferencing",
        "List the ids of the schemas that reference this version.",
        listed(NUMBER),
        *PAGE,
        codes=(*NO_VERSION, 50001),
    ),
    ("POST", "/compatibility/subjects/{subject}/versions"): _op(
        "compareWithAll",
        "Return whether the schema could be registered.",
        ref("Verdict"),
        "normalize",
        "verbose",
        body=REQUEST,
        codes=(42205, 42208, *BAD_SCHEMA, 50001),
    ),
    ("POST", "/compatibility/subjects/{subject}/versions/{version}"): _op(
        "compareWithVersion",
        "Return whether the schema is compatible with one version, at the subject's level.",
        ref("Verdict"),
        "normalize",
        "verbose",
        body=REQUEST,
        codes=(42205, 42208, *NO_VERSION, *BAD_SCHEMA, 50001),
    ),
    ("GET", "/schemas"): _op(
        "listSchemas",
        "List versions of all subjects.",
        listed(VERSION),
        "subjectPrefix",
        "deleted",
        "latestOnly",
        *PAGE,
        codes=(50001,),
    ),
    ("GET", "/schemas/types"): _op("listTypes", "List the kinds of schema that are kept.", listed(TEXT)),
    ("GET", "/schemas/ids/{id}"): _op(
        "getSchema", "Return the schema of an id.", ref("Schema"), "subject", "format", "fetchMaxId", codes=(40403, 50001)
    ),
    ("GET", "/schemas/ids/{id}/schema"): _op(
        "getSchemaAlone", "Return the schema text of an id.", AVRO_JSON, "subject", "format", codes=(40403, 50001)
    ),
    ("GET", "/schemas/ids/{id}/subjects"): _op(
        "listSubjectsOfSchema",
        "List the subjects that have the schema.",
        listed(TEXT),
        "subject",
        "deleted",
        *PAGE,
        codes=(40403, 50001),
    ),
    ("GET", "/schemas/ids/{id}/versions"): _op(
        "listVersionsOfSchema",
        "List the versions that have the schema.",
        listed(ref("SubjectVersion")),
        "subject",
        "deleted",
        *PAGE,
        codes=(40403, 50001),
    ),
    ("GET", "/config"): _op("getLevel", "Return the global compatibility level.", ref("Level"), codes=(50001,)),
    ("PUT", "/config"): _op(
        "setLevel",
        "Set the global compatibility level.",
        ref("LevelSet"),
        body="LevelRequest",
        codes=(415, 42203, 42209, *WRITES, 50001),
    ),
    ("DELETE", "/config"): _op(
        "unsetLevel", "Remove the global level; return what it was.", ref("Level"), codes=(40408, *WRITES, 50001)
    ),
    ("GET", "/config/{subject}"): _op(
        "getSubjectLevel",
        "Return the subject's compatibility level.",
        ref("Level"),
        "defaultToGlobal",
        codes=(42208, 40408, 50001),
    ),
    ("PUT", "/config/{subject}"): _op(
        "setSubjectLevel",
        "Set the subject's compatibility level.",
        ref("LevelSet"),
        body="LevelRequest",
        codes=(415, 42203, 42208, 42209, *WRITES, 50001),
    ),
    ("DELETE", "/config/{subject}"): _op(
        "unsetSubjectLevel", "Remove the subject's level; return what it was.", ref("Level"), codes=(40408, *WRITES, 50001)
    ),
    ("GET", "/mode"): _op("getMode", "Return the global mode.", ref("Mode"), "defaultToGlobal", codes=(50001,)),
    ("PUT", "/mode"): _op(
        "setMode",
        "Set the global mode; null takes it back.",
        ref("MaybeMode"),
        "force",
        body="ModeRequest",
        codes=(415, 42204, 42206, 42209, *WRITES, 50001),
    ),
    ("DELETE", "/mode"): _op(
        "unsetMode", "Remove the global mode; return what it was.", ref("Mode"), "recursive", codes=(50001, 50002)
    ),
    ("GET", "/mode/{subject}"): _op(
        "getSubjectMode", "Return the subject's mode.", ref("Mode"), "defaultToGlobal", codes=(42208, 40409, 50001)
    ),
    ("PUT", "/mode/{subject}"): _op(
        "setSubjectMode",
        "Set the subject's mode; null takes it back.",
        ref("MaybeMode"),
        "force",
        body="ModeRequest",
        codes=(415, 42204, 42206, 42208, 42209, *WRITES, 50001),
    ),
    ("DELETE", "/mode/{subject}"): _op(
        "unsetSubjectMode",
        "Remove the subject's mode; return what it was.",
        ref("MaybeMode"),
        "recursive",
        codes=(42208, 40401, 50001, 50002),
    ),
    ("GET", "/contexts"): _op("listContexts", "List contexts: there is one.", listed(TEXT), "contextPrefix", *PAGE),
    ("GET", "/v1/metadata/id"): _op("getClusterId", "Return the id of the cluster.", ref("ClusterId"), codes=(50001,)),
    ("GET", "/v1/metadata/version"): _op("getVersionOfServer", "Return the registry's version.", ref("ServerVersion")),
    ("GET", "/"): _op("getRoot", "Do nothing: an answer shows that the registry runs.", {"type": "object"}),
    ("POST", "/"): _op("postRoot", "Do nothing.", {"type": "object"}),
    ("GET", "/healthz"): _op("getHealth", "Return the registry's state.", ref("Health")),
    ("GET", "/readyz"): Operation(
        name="getReadiness",
        about="Return whether the registry is ready: 503 while it is not.",
        answer=ref("Readiness"),
        unready=True,
    ),
    ("GET", "/openapi.json"): _op("getDocument", "Return this document.", {"type": "object"}),
}


_OF_SUBJECT = {"subject": "$request.path.subject"}
LINKS: list[tuple[dict[str, str], tuple[str, ...]]] = [
    ({"id": "$response.body#/id"}, ("getSchema", "getSchemaAlone", "listSubjectsOfSchema", "listVersionsOfSchema")),
    (_OF_SUBJECT, ("lookUpSchema", "listVersions", "getLatestWithMetadata", "deleteSubject", "compareWithAll")),
    (
        {**_OF_SUBJECT, "version": "latest"},
        ("getVersion", "getVersionSchema", "listReferencing", "deleteVersion", "compareWithVersion"),
    ),
]
"""Requests that may follow the registration of a schema."""


def document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document, as JSON values."""
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), operation in OPERATIONS.items():
        paths.setdefault(path, {})[method.lower()] = _described(path, operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headrace schema registry",
            "version": __version__,
            "description": "Confluent's REST API for Avro schemas. A status is the first three digits of its error code.",
        },
        "paths": paths,
        "components": {"schemas": SCHEMAS},
    }


def _described(path: str, operation: Operation) -> dict[str, Any]:
    parameters = [
        *(_parameter("path", name, *PATH[name]) for name in PATH if f"{{{name}}}" in path),
        *(_parameter("query", name, *QUERY[name]) for name in operation.query),
    ]
    words: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.about,
        **({"parameters": parameters} if parameters else {}),
        "responses": _responses(operation),
    }
    if operation.body is not None:
        content = {kind: {"schema": ref(operation.body)} for kind in BODY_TYPES}
        words["requestBody"] = {"required": True, "content": content}
    return words


def _parameter(place: str, name: str, about: str, schema: Schema) -> dict[str, Any]:
    return {"in": place, "name": name, "description": about, "required": place == "path", "schema": schema}


def _responses(operation: Operation) -> dict[str, Any]:
    is_parsed = any(QUERY[name][1].get("type") in ("boolean", "integer") for name in operation.query)
    by_status: dict[int, list[int]] = {}
    for code in sorted({400, 406, *((422,) if is_parsed else ()), *operation.codes}):
        by_status.setdefault(int(str(code)[:3]), []).append(code)
    unready = _content(operation.answer) if operation.unready else {}
    answer: dict[str, Any] = {"description": "the answer", "content": _content(operation.answer)}
    if operation.name == "register":
        answer["links"] = {name: {"operationId": name, "parameters": given} for given, names in LINKS for name in names}
    return {
        "200": answer,
        **{str(status): _refused(codes) for status, codes in by_status.items()},
        "503": {"description": "too many connections: ask again", "content": {"text/plain": {"schema": TEXT}, **unready}},
    }


def _refused(codes: list[int]) -> dict[str, Any]:
    exact = {"allOf": [ref("Error")], "properties": {"error_code": {"enum": codes}}}
    return {"description": "; ".join(f"{code}: {CODES[code]}" for code in codes), "content": _content(exact)}


def _content(schema: Schema) -> dict[str, Any]:
    return {kind: {"schema": schema} for kind in MEDIA_TYPES}
