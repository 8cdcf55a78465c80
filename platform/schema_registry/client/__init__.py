"""The registry's client: standard library only, so that the SDK stays light. Start with `RegistryClient`."""

from ..errors import IncompatibleSchema, InvalidSchema, RegistryError, RegistryUnavailable, UnknownSchemaId
from ..model.reference import CompatibilityAnswer, Reference, RegisteredSchema
from .registry_client import RegistryClient

__all__ = [
    "CompatibilityAnswer",
    "IncompatibleSchema",
    "InvalidSchema",
    "Reference",
    "RegisteredSchema",
    "RegistryClient",
    "RegistryError",
    "RegistryUnavailable",
    "UnknownSchemaId",
]
