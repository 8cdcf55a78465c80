"""The columns of a topic's writers: from every version of its subject in the registry.

Subject: `<topic>-value` (Confluent's TopicNameStrategy).
"""

from collections.abc import Iterable

import pyarrow as pa

from ...runtime.logs import get_library_logger
from ...schema_registry.client.registry_client import RegistryClient
from ...schema_registry.errors import UnknownSchemaId
from .columns import SchemaRefused, union, writer_columns

log = get_library_logger(__name__)


def subject_schemas(registry: RegistryClient, topic: str) -> dict[int, str]:
    """Return schema id → schema of every version of the topic's subject, oldest first; empty if there is no such subject.

    Works from the cache on disk while the registry is away. Raises RegistryUnavailable, RegistryError.
    """
    return registry.schemas_of(f"{topic}-value")


def schemas_by_id(registry: RegistryClient, schema_ids: Iterable[int]) -> dict[int, str]:
    """Return the schemas of these ids, without those that the registry does not know."""
    found = {}
    for schema_id in sorted(schema_ids):
        try:
            found[schema_id] = registry.schema(schema_id)
        except UnknownSchemaId:
            continue
    return found


def event_columns(table: pa.Schema, schemas: Iterable[str]) -> pa.Schema:
    """Return the table's event columns, and those that the schemas add.

    A schema that contradicts the table adds nothing. This is logged, and the tasks quarantine its records.
    """
    columns = table
    for schema in schemas:
        try:
            columns = union(columns, writer_columns(schema).fields())
        except SchemaRefused as error:
            log.warning("schema_adds_no_columns", reason=str(error))
    return columns
