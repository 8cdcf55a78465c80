"""The errors of the schema registry. Their root class carries the code of the REST API's error body."""

from typing import ClassVar

from ..errors import HeadraceError


class RegistryError(HeadraceError):
    """A request about schemas was refused or failed. `error_code` is the Confluent API's (42201, 40403, …) or 0."""

    def __init__(self, message: str, *, error_code: int = 0) -> None:
        super().__init__(message)
        self.error_code = error_code


class InvalidSchema(RegistryError):
    """The text is not a valid Avro schema, or names a type that none of its references defines."""

    def __init__(self, message: str, *, error_code: int = 42201) -> None:
        super().__init__(message, error_code=error_code)


class IncompatibleSchema(RegistryError):
    """The schema does not keep the subject's compatibility level; the message lists each path and reason."""

    def __init__(self, message: str, *, error_code: int = 409) -> None:
        super().__init__(message, error_code=error_code)


class UnknownSchemaId(RegistryError):
    """No schema has this id. Not retriable at once: ids are assigned in order, so the payload's id is not from this registry."""

    def __init__(self, message: str, *, schema_id: int) -> None:
        super().__init__(message, error_code=40403)
        self.schema_id = schema_id


class NotAvro(UnknownSchemaId):
    """The id stands for a JSON Schema or a .proto file: no data of it is decoded here."""


class RegistryUnavailable(RegistryError):
    """The registry did not answer, or answered that it cannot now; the same call may succeed later."""

    retriable: ClassVar[bool] = True
