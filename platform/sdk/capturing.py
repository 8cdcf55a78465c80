"""What `headrace.sdk.testing` puts in the place of the network, while it captures. Nothing else writes here."""

from collections.abc import Callable

from .transport import LoggerRun, Transport

transport_for: Callable[[LoggerRun], Transport] | None = None
"""None: nothing captures; loggers make their own transports."""
