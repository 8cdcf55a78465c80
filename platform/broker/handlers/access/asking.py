"""One request's questions about its rights. Lives on the loop thread."""

from typing import NamedTuple, Protocol

from ...rights.authorizer import Authorizer
from ...rights.rule import CLUSTER_NAME, Operation, Resource


class Asker(NamedTuple):
    """Who asks, and with which request."""

    principal: str
    host: str
    api: str
    client_id: str = ""


Fields = tuple[str, str, str, str]
"""Of an `Asker`. Where each 0.1 µs counts, they are passed as they are."""


class Reasons(Protocol):
    """Says what a decision follows from (the authorizer)."""

    def reason(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> str: ...


class Denials(Protocol):
    """Takes note of what was denied (the trail)."""

    def denied(self, reasons: Reasons, asker: Fields, operation: Operation, resource: Resource, name: str) -> None: ...


class Asking:
    """What one client may do now."""

    __slots__ = ("_authorizer", "_denials", "asker")

    def __init__(self, authorizer: Authorizer, denials: Denials, asker: Asker) -> None:
        self._authorizer = authorizer
        self._denials = denials
        self.asker = asker

    def may(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        """Return whether it may. A denial goes into the trail."""
        if self.could(operation, resource, name):
            return True
        self._denials.denied(self._authorizer, self.asker, operation, resource, name)
        return False

    def could(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        """Return whether it may, where a no is no denial: it hides something, or another right would do."""
        principal, host, _, _ = self.asker
        return self._authorizer.allows(principal, host, operation, resource, name)

    def could_some(self, operation: Operation, resource: Resource) -> bool:
        """Return whether it may do this with at least one resource of the type."""
        principal, host, _, _ = self.asker
        return self._authorizer.allows_some(principal, host, operation, resource)

    def operations(self, resource: Resource, name: str = CLUSTER_NAME) -> int:
        """Return which of the operations that the type of resource has it may do, as a bit field."""
        principal, host, _, _ = self.asker
        return self._authorizer.operations(principal, host, resource, name, OPERATIONS_OF[resource])


OPERATIONS_OF = {
    Resource.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""As Kafka's `AclEntry.supportedOperations`."""
