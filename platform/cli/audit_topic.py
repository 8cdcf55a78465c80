"""How an operator's word gets onto the audit topic, and how a command knows that the audit has taken it."""

import getpass
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from ..errors import HeadraceError

if TYPE_CHECKING:
    from ..client.producer.producer import Producer

T = TypeVar("T")

TAKEN_IN_MS = 30_000


def login_name() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError, ImportError):
        return f"somebody@{socket.gethostname()}"


@contextmanager
def sender(bootstrap: str) -> Iterator["Producer"]:
    """Give a producer of the live cluster. Its caller waits for the acknowledgement."""
    from ..client.connection.cluster import Cluster
    from ..client.errors import ClientError
    from ..client.producer.producer import Producer

    cluster = Cluster(bootstrap, client_id="headrace-audit-word")
    producer = Producer(cluster)
    try:
        yield producer
    finally:
        with suppress(ClientError):  # if it did not arrive, an error was raised above
            producer.close(1_000)
        cluster.close()


def await_taken(what: str, ask: Callable[[], T | None]) -> T:
    """Return the first answer of `ask` that is not None. Raises HeadraceError if the audit does not take the word in time."""
    deadline = time.monotonic() + TAKEN_IN_MS / 1000
    while (found := ask()) is None:
        if time.monotonic() > deadline:
            within = f"within {TAKEN_IN_MS // 1000} s"
            raise HeadraceError(f"{what} is on the audit topic, but the audit service has not taken it {within}: see its log")
        time.sleep(0.1)
    return found
