"""The figures that every driver's result has."""

from ..drivers.run import Driven
from ..peers.way import MESSAGE_BYTES


def figures_of(driven: Driven, message_bytes: int = MESSAGE_BYTES) -> dict[str, float]:
    """Return rates, the server's CPU, and how busy client and server were."""
    return {
        "messages_per_s": driven.count / driven.seconds,
        "mb_per_s": driven.count * message_bytes / driven.seconds / 1e6,
        "server_cpu_s_per_million": driven.server_cpu_s / driven.count * 1e6,
        "client_busy": driven.client_cpu_s / driven.seconds,
        "server_busy": driven.server_cpu_s / driven.seconds,
        "seconds": driven.seconds,
    }
