"""Where the warehouse lives: its files and its catalog, by environment or by a TOML file. Without either: a local folder, SQLite.

    HEADRACE_WAREHOUSE          file:///…, a path, or s3://bucket/prefix                    warehouse = "…"
    HEADRACE_CATALOG_URI        sqlite:///…, postgresql://…, or http(s)://… of a REST one   uri = "…"
    HEADRACE_LEASES_URI         sqlite or postgresql; wanted beside a REST catalog          leases-uri = "…"
    AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION, AWS_DEFAULT_REGION                   s3.endpoint, s3.region
                                                                                            s3.path-style-access = true
    HEADRACE_WAREHOUSE_CONFIG   the TOML file; default `<home>/warehouse.toml`, if there is one. The environment goes first.

Names are Iceberg's. Credentials of the store are not settings here: see `object_path`. A password of PostgreSQL may be in the
URI, in PGPASSWORD or in PGPASSFILE. No error, no log, no argument of a process and nothing of Spark's holds a URI with it.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from ...runtime.layout import Layout
from ..errors import WarehouseError
from .object_path import SCHEMES, S3Settings
from .store import StorePath, local_path, path_of

CONFIG = "HEADRACE_WAREHOUSE_CONFIG"
FILE = "warehouse.toml"
_TEXTS = ("warehouse", "uri", "leases-uri", "s3.endpoint", "s3.region")
_REST = ("token", "credential", "oauth2-server-uri", "scope", "prefix", "catalog-warehouse")
"""Settings of a REST catalog. `catalog-warehouse`: what the server calls the warehouse, if not by its location."""
_POSTGRESQL = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
    "options": "-c lock_timeout=60s -c statement_timeout=60s -c idle_in_transaction_session_timeout=60s",
}
"""libpq's settings, unless the URI names them."""
_KNOWN = (*_TEXTS, "s3.path-style-access", *_REST)


@dataclass(frozen=True, slots=True, kw_only=True)
class WarehouseSettings:
    """One warehouse."""

    folder: StorePath
    catalog: str = field(repr=False)
    """A SQLAlchemy URL, or the address of a REST catalog."""
    leases: str = field(repr=False)
    """A SQLAlchemy URL: the database that knows who works on what."""
    s3: S3Settings = field(default_factory=S3Settings)
    rest: Mapping[str, str] = field(default_factory=dict, repr=False)
    home: Path | None = None
    """The folder of the failpoints."""

    @classmethod
    def of_folder(cls, folder: Path) -> "WarehouseSettings":
        """Return the default: a local folder with its catalog in it."""
        folder = folder.absolute()
        catalog = sqlite(folder / "catalog.db")
        return cls(folder=folder, catalog=catalog, leases=catalog, home=folder.parent)

    @classmethod
    def of(cls, layout: Layout, environment: Mapping[str, str] | None = None) -> "WarehouseSettings":
        """Return the settings of a platform. Raises WarehouseError for what cannot be."""
        environment = os.environ if environment is None else environment
        words = _words(layout, environment)
        s3 = S3Settings(
            endpoint=words.get("s3.endpoint"),
            region=words.get("s3.region", S3Settings().region),
            path_style=words.get("s3.path-style-access"),
        )
        folder = _folder(words.get("warehouse", str(layout.warehouse)), s3)
        home = folder if isinstance(folder, Path) else layout.warehouse
        catalog = _catalog(words.get("uri") or sqlite(home / "catalog.db"))
        leases = _catalog(words.get("leases-uri") or catalog)
        if leases.startswith("http"):
            raise WarehouseError(
                "a REST catalog cannot say who works on what: name a database beside it, HEADRACE_LEASES_URI or `leases-uri`, "
                "as postgresql://user@host/database"
            )
        rest = {name: str(words[name]) for name in _REST if name in words}
        return cls(folder=folder, catalog=catalog, leases=leases, s3=s3, rest=rest, home=layout.home)


def _bounded(url: str) -> str:
    """Return the URL with all waits bounded that it does not bound itself: a machine without power holds no lock for hours."""
    path, _, query = url.partition("?")
    named = {word.partition("=")[0] for word in query.split("&") if word}
    more = [f"{name}={quote(value)}" for name, value in _POSTGRESQL.items() if name not in named]
    return f"{path}?{'&'.join([*([query] if query else []), *more])}"


def sqlite(file: Path) -> str:
    """Return the URL of a database in a file."""
    return f"sqlite:///{quote(str(file))}?timeout=30"


def sqlite_file(url: str) -> Path | None:
    """Return the file of a SQLite database; None for any other."""
    return Path(unquote(urlsplit(url).path).removeprefix("/")) if url.startswith("sqlite:") else None


def _words(layout: Layout, environment: Mapping[str, str]) -> dict[str, Any]:
    words = _of_file(Path(environment.get(CONFIG, "") or layout.home / FILE), is_named=bool(environment.get(CONFIG)))
    for name, variables in {
        "warehouse": ("HEADRACE_WAREHOUSE",),
        "uri": ("HEADRACE_CATALOG_URI",),
        "leases-uri": ("HEADRACE_LEASES_URI",),
        "s3.endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        "s3.region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    }.items():
        found = next((environment[one] for one in variables if environment.get(one)), None)
        if found is not None:
            words[name] = found
    return words


def _of_file(path: Path, *, is_named: bool) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        if is_named:
            raise WarehouseError(f"{CONFIG} names {path}, which is not there") from error
        return {}
    except (OSError, ValueError) as error:
        raise WarehouseError(f"{path} cannot be read: {error}") from error
    s3 = found.pop("s3", {})
    words = {**found, **({f"s3.{name}": one for name, one in s3.items()} if isinstance(s3, dict) else {"s3": s3})}
    for name, value in words.items():
        if name not in _KNOWN:
            raise WarehouseError(f"{path}: {name!r} is not a setting of a warehouse; known are {', '.join(_KNOWN)}")
        kind = bool if name == "s3.path-style-access" else str
        if not isinstance(value, kind):
            raise WarehouseError(f"{path}: {name} wants {'true or false' if kind is bool else 'a text'}")
    return words


def _folder(location: str, s3: S3Settings) -> StorePath:
    if location.startswith(SCHEMES):
        if not urlsplit(location).netloc:
            raise WarehouseError(f"warehouse {location!r} names no bucket: s3://bucket/prefix does")
        return path_of(location, s3)
    if "://" in location and not location.startswith("file:///"):
        scheme = location.partition("://")[0]
        raise WarehouseError(f"no warehouse can be in {scheme}://: a path, file:///… and s3://bucket/prefix are known")
    return local_path(location) if location.startswith("file:") else Path(location).absolute()


def _catalog(uri: str) -> str:
    """Return the catalog's URL with the driver that is there. The message names no URI: it may hold a password."""
    scheme, _, rest = uri.partition(":")
    if scheme in ("postgresql", "postgres"):
        return _bounded(f"postgresql+psycopg:{rest}")
    if scheme == "sqlite":
        return uri if "?" in uri else f"{uri}?timeout=30"
    if scheme == "postgresql+psycopg":
        return _bounded(uri)
    if scheme in ("http", "https"):
        return uri
    raise WarehouseError(f"no catalog is known with {scheme}: sqlite:///file, postgresql://user@host/database, https://… are")
