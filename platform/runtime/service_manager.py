"""Notifies systemd of the state of a service of `Type=notify`, by the protocol of sd_notify(3). Does nothing without systemd.

So units that are ordered behind one another start when the one before serves, and `systemctl status` shows why one does not.
"""

import os
import socket

from .logs import get_logger

log = get_logger(__name__)

SOCKET = "NOTIFY_SOCKET"
_WORDS = {"ready": "READY=1", "stopping": "STOPPING=1"}


class ServiceManager:
    """Tells each state once. Used by one thread."""

    def __init__(self) -> None:
        self._told: tuple[str, str] | None = None

    def tell(self, state: str, reason: str | None) -> None:
        """Tell `state` (one of `StatusFile.write`) and why it is so. A manager that cannot be reached is logged, no error."""
        address = os.environ.get(SOCKET, "")
        told = (state, reason or "")
        if not address or told == self._told:
            return
        self._told = told
        lines = [f"STATUS={state}{': ' if reason else ''}{reason or ''}".replace("\n", " ")]
        if state in _WORDS:
            lines.append(_WORDS[state])
        # An abstract socket's name begins with a zero byte, which systemd writes as @.
        place = f"\0{address[1:]}" if address.startswith("@") else address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.setblocking(False)
                out.sendto("\n".join(lines).encode(), place)
        except OSError as error:
            log.warning("service_manager_not_told", socket=address, state=state, reason=str(error))
