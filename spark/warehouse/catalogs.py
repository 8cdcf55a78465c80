"""Opens the warehouse's catalog, whichever it is, and tells when it does not answer."""

import importlib.util
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    ServerError,
    ServiceUnavailableError,
)
from requests.exceptions import RequestException
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError, ProgrammingError

from ..errors import CatalogUnreachable, WarehouseError
from .object_path import ObjectPath
from .settings import WarehouseSettings, sqlite_file
from .store import uri_of

NAMESPACE = "warehouse"
OPENINGS = 5
"""Several processes that open a new catalog at once all create its tables; all but one are refused, and try again."""


@contextmanager
def reaching_catalog() -> Iterator[None]:
    """Turn the errors of a catalog that does not answer into CatalogUnreachable."""
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise CatalogUnreachable(_reason(error)) from error
    except RequestException as error:
        raise CatalogUnreachable(type(error).__name__) from error
    except (ServerError, ServiceUnavailableError, CommitStateUnknownException) as error:
        raise CatalogUnreachable(" ".join(str(error).split())[:300]) from error


def open_catalog(settings: WarehouseSettings) -> Catalog:
    """Return the catalog; what is missing of it is created. Raises CatalogUnreachable."""
    file = sqlite_file(settings.catalog)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
    with reaching_catalog():
        for number in range(OPENINGS):
            try:
                catalog = _opened(settings)
                make_namespace(catalog, NAMESPACE)
                return catalog
            except (IntegrityError, ProgrammingError, OperationalError):
                if number == OPENINGS - 1:
                    raise
                time.sleep(0.1 * (number + 1))
    raise AssertionError("unreachable")


def _opened(settings: WarehouseSettings) -> Catalog:
    words = {"warehouse": uri_of(settings.folder), "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
    if isinstance(settings.folder, ObjectPath):
        words |= settings.s3.properties()
    if settings.catalog.startswith("http"):
        from pyiceberg.catalog.rest import RestCatalog

        rest = dict(settings.rest)
        words["warehouse"] = rest.pop("catalog-warehouse", words["warehouse"])
        return RestCatalog(NAMESPACE, uri=settings.catalog, **words, **rest)
    from pyiceberg.catalog.sql import SqlCatalog

    if settings.catalog.startswith("postgresql") and importlib.util.find_spec("psycopg") is None:
        raise WarehouseError("a catalog in PostgreSQL needs psycopg: pip install 'psycopg[binary]'")
    return SqlCatalog(NAMESPACE, uri=settings.catalog, pool_pre_ping="true", **words)


def metadata_places(catalog: Catalog) -> dict[str, str] | None:
    """Return table → where its metadata is now, of all tables of topics; None for a catalog that is not in a database."""
    from pyiceberg.catalog.sql import IcebergTables, SqlCatalog

    if not isinstance(catalog, SqlCatalog):
        return None
    wanted = select(IcebergTables.table_name, IcebergTables.metadata_location)
    wanted = wanted.where(IcebergTables.catalog_name == catalog.name, IcebergTables.table_namespace == NAMESPACE)
    with catalog.engine.connect() as connection:
        return {name: place for name, place in connection.execute(wanted) if place is not None}


def make_namespace(catalog: Catalog, name: str) -> None:
    """Create a namespace if there is none. Another process may do so at the same moment."""
    try:
        catalog.load_namespace_properties(name)
    except NoSuchNamespaceError:
        try:
            catalog.create_namespace(name)
        except (NamespaceAlreadyExistsError, IntegrityError):
            pass


def _reason(error: DBAPIError) -> str:
    """Return the driver's own words: SQLAlchemy's hold the statement and its values."""
    return " ".join(str(error.orig).split())[:300]
