"""The database that an address names: a SQLite file, or PostgreSQL."""

from pathlib import Path

from ..errors import StoreError
from .database import Database


def database_at(store: str | Path) -> Database:
    """Return the database, not yet opened: PostgreSQL for a URL `postgresql://…`, else a SQLite file. Raises StoreError."""
    if str(store).startswith(("postgresql://", "postgres://")):
        from .postgresql import PostgresqlDatabase

        return PostgresqlDatabase(str(store))
    if "://" in str(store):
        raise StoreError(
            f"--store {str(store).partition('://')[0]}://…: give the path of a file or postgresql://user@host/database"
        )
    from .sqlite import SqliteDatabase

    return SqliteDatabase(Path(store))
