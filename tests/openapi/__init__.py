"""The registry's OpenAPI document, held against the real service by schemathesis. Opt-in: schemathesis lives in an environment of
its own, since the project's lock does not hold it."""
