"""Holds an answer of the registry against its OpenAPI document."""

import re
from typing import Any

import jsonschema

from headrace.schema_registry.service.web.openapi import document

DOCUMENT = document()


def described(method: str, path: str) -> tuple[str, dict[str, Any]] | None:
    """Return the path's template and the operation that the document has for it, None where it has none."""
    without_query = path.partition("?")[0]
    for template, operations in sorted(DOCUMENT["paths"].items(), key=lambda item: item[0].count("{")):
        pattern = "/".join("[^/]+" if part.startswith("{") else re.escape(part) for part in template.split("/"))
        if re.fullmatch(pattern, without_query) and method.lower() in operations:
            return template, operations[method.lower()]
    return None


def check_answer(method: str, path: str, status: int, media_type: str, words: Any) -> None:
    """Fail unless the document says that this may be answered."""
    found = described(method, path)
    if found is None:
        assert status in (404, 405), f"{method} {path} is not described and answers {status}"
        return
    template, operation = found
    where = f"{method} {template} answering {status}"
    assert str(status) in operation["responses"], f"{where}: the document does not know the status"
    content = operation["responses"][str(status)]["content"]
    assert media_type in content, f"{where}: {media_type} is not described"
    schema = {**content[media_type]["schema"], "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(schema).validate(words)
