"""The errors of the schema registry's rooms. Their root carries the code that travels in the REST API's error body."""

from typing import ClassVar

from ..errors import HeadraceError


class RegistryError(HeadraceError):
    """Something about schemas was refused or failed. `error_code` is the Confluent API's (42201, 40403, …) or 0."""

    def __init__(self, message: str, *, error_code: int = 0) -> None:
        super().__init__(message)
        self.error_code = error_code


class InvalidSchema(RegistryError):
    """The text is no valid Avro schema, or names a type that none of its references defines."""

    def __init__(self, message: str, *, error_code: int = 42201) -> None:
        super().__init__(message, error_code=error_code)


class IncompatibleSchema(RegistryError):
    """The schema does not keep the subject's compatibility level; the message lists each path and reason."""

    def __init__(self, message: str, *, error_code: int = 409) -> None:
        super().__init__(message, error_code=error_code)


class UnknownSchemaId(RegistryError):
    """No schema has this id. Not retriable at once: ids are given in order, and the one who framed it did not get it here."""

    def __init__(self, message: str, *, schema_id: int) -> None:
        super().__init__(message, error_code=40403)
        self.schema_id = schema_id


class RegistryUnavailable(RegistryError):
    """The registry did not answer, or says that it cannot now; the same call may succeed later."""

    retriable: ClassVar[bool] = True
