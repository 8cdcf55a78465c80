"""The client configuration of a load that runs as an Airflow task: from an Airflow Connection, handed on without a trace.

`HEADRACE_KAFKA_CONN_ID` names the Connection (type `kafka`, as Airflow's Kafka provider has it: the settings are its extra; its
login and password stand for sasl.username and sasl.password), or several with commas between them: one for each cluster. The
task's process writes each into a file in memory, which only this user can open and which ends with the task. So the secrets are
in no template field, no argument, no variable and on no disk.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from ...client.security.chosen import VARIABLE as CLIENT_CONFIG
from ..errors import WarehouseError

VARIABLE = "HEADRACE_KAFKA_CONN_ID"
_OURS = ("security.", "sasl.", "ssl.", "https.", "bootstrap.servers", "metadata.broker.list", "config.providers")
"""Beginnings of the settings that are taken: the Connection may hold others, for Airflow's own Kafka operators."""


@contextmanager
def client_config(named: str | None = None) -> Iterator[dict[str, str]]:
    """Yield the environment variables for the load; none without names. They are good inside the `with`.

    `named`: the Connections, with commas between; None: as `HEADRACE_KAFKA_CONN_ID` says.

    Raises WarehouseError, and Airflow's error for a Connection that it does not have.
    """
    named = os.environ.get(VARIABLE, "") if named is None else named
    names = [name.strip() for name in named.split(",") if name.strip()]
    if not names:
        yield {}
        return
    from airflow.sdk import Connection

    with ExitStack() as opened:
        paths: list[str] = []
        for name in names:
            found = Connection.get(name)
            descriptor = os.memfd_create("headrace-client-config", os.MFD_CLOEXEC)
            opened.callback(os.close, descriptor)
            os.fchmod(descriptor, 0o600)
            os.write(descriptor, properties_of(found.extra_dejson, found.login, found.password, name).encode())
            # The process's own number, not `self`: its children open the file too.
            paths.append(f"/proc/{os.getpid()}/fd/{descriptor}")
        paths += filter(None, [os.environ.get(CLIENT_CONFIG)])
        yield {CLIENT_CONFIG: os.pathsep.join(paths)}


def properties_of(extra: Mapping[str, object], login: str | None, password: str | None, name: str) -> str:
    """Return the properties file. Raises WarehouseError for an extra without security."""
    words = {key: str(value) for key, value in extra.items() if key.startswith(_OURS)}
    if "security.protocol" not in words:
        raise WarehouseError(
            f"Airflow Connection {name!r}: its extra has no security.protocol: write the client's settings there as JSON, as in "
            '{"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}'
        )
    if words["security.protocol"].upper().startswith("SASL_"):
        for key, value in (("sasl.username", login), ("sasl.password", password)):
            if value and "sasl.jaas.config" not in words:
                words.setdefault(key, value)
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in words.items())


def _escaped(text: str) -> str:
    marks = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"} | {mark: f"\\{mark}" for mark in "\\ =:#!"}
    return "".join(marks.get(one, one) for one in text)
