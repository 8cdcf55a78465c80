"""Where a DAG's tasks find clusters, registry, audit and home: Airflow's Connections and a Variable, looked up when a task runs.

Nothing is looked up while a DAG is parsed, and no secret is in a template field, an argument or a variable: the clients'
settings are a file in memory that ends with the task (`spark/load/airflow_connection.py`). Without names, everything is as the
worker's environment says (`HEADRACE_HOME`, `PORT_SHIFT`, …).
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

PREFIX = "HEADRACE_"
CONNECTIONS = "HEADRACE_KAFKA_CONN_ID"


class BadPlaces(Exception):
    """A Connection or the Variable lacks what the tasks need; the message says what to write there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Names of Airflow's Connections and of its Variable."""

    live_conn_id: str | None = None
    """Type `kafka`: `bootstrap.servers` and the clients' settings in its extra."""
    offline_conn_id: str | None = None
    """Type `kafka`: the cluster that is loaded from."""
    registry_conn_id: str | None = None
    """Type `http`."""
    audit_conn_id: str | None = None
    """Type `http`."""
    variable: str | None = None
    """A Variable with a JSON object of settings: `{"home": "/srv/headrace"}` is HEADRACE_HOME for the tasks, and so on."""

    @contextmanager
    def environment(self) -> Iterator[dict[str, str]]:
        """Yield the environment variables for a task. They are good inside the `with`.

        Raises BadPlaces, and Airflow's error for a Connection that it does not have.
        """
        from ..spark.load.airflow_connection import client_config

        found = self._settings()
        secured = []
        for name, conn_id in (("LIVE_BOOTSTRAP", self.live_conn_id), ("OFFLINE_BOOTSTRAP", self.offline_conn_id)):
            if conn_id is not None:
                extra = _connection(conn_id).extra_dejson
                found[PREFIX + name] = bootstrap_of(extra, conn_id)
                secured += [conn_id] if "security.protocol" in extra else []
        for name, conn_id in (("REGISTRY_URL", self.registry_conn_id), ("AUDIT_URL", self.audit_conn_id)):
            if conn_id is not None:
                found[PREFIX + name] = url_of(_connection(conn_id), conn_id)
        named = [*filter(None, [os.environ.get(CONNECTIONS)]), *secured]
        with client_config(",".join(dict.fromkeys(named))) as variables:
            yield {**found, **variables}

    def _settings(self) -> dict[str, str]:
        if self.variable is None:
            return {}
        from airflow.sdk import Variable

        return settings_of(Variable.get(self.variable), self.variable)


def settings_of(text: str, name: str) -> dict[str, str]:
    """Return the variables that the Variable's text stands for. Raises BadPlaces."""
    try:
        words = json.loads(text)
    except ValueError as error:
        raise BadPlaces(
            f"Airflow Variable {name!r} is not JSON ({error}): an object of texts is wanted, as {_EXAMPLE}"
        ) from error
    if not isinstance(words, dict) or not all(isinstance(one, (str, int)) for one in words.values()):
        raise BadPlaces(f"Airflow Variable {name!r} is not an object of texts, as {_EXAMPLE}")
    return {PREFIX + key.upper(): str(value) for key, value in words.items()}


_EXAMPLE = '{"home": "/srv/headrace"}'


def bootstrap_of(extra: Mapping[str, Any], conn_id: str) -> str:
    """Return the cluster's addresses. Raises BadPlaces."""
    found = extra.get("bootstrap.servers") or extra.get("metadata.broker.list")
    if not isinstance(found, str):
        raise BadPlaces(f'Airflow Connection {conn_id!r}: its extra has no "bootstrap.servers": write "host:port,…" there')
    return found


def url_of(connection: Any, conn_id: str) -> str:
    """Return the service's URL. Raises BadPlaces."""
    host = connection.host or ""
    if not host:
        raise BadPlaces(f"Airflow Connection {conn_id!r} has no host")
    if "://" in host:
        return str(host).rstrip("/") if not connection.port else f"{host.rstrip('/')}:{connection.port}"
    port = f":{connection.port}" if connection.port else ""
    return f"{connection.schema or 'http'}://{host}{port}"


def _connection(conn_id: str) -> Any:
    from airflow.sdk import Connection

    return Connection.get(conn_id)
