"""The error of a process that cannot listen on its address, with advice for its cause."""

import errno
import socket

from ...errors import HeadraceError


class AddressInUse(HeadraceError):
    """The process cannot listen on the address."""

    @classmethod
    def from_os_error(
        cls, what: str, address: tuple[str, int], error: OSError, *, host_setting: str, port_setting: str
    ) -> "AddressInUse":
        """Return the error with advice for its cause. `what` failed on `address` (host, port); the two settings are the names by
        which the user gave host and port.
        """
        host, port = address
        if error.errno in (errno.EACCES, errno.EPERM):
            advice = f"this user may not listen on port {port}: give another with {port_setting}"
        elif isinstance(error, socket.gaierror) or error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            advice = f"{host} is not an address of this machine: give another with {host_setting}"
        else:
            advice = f"stop what listens there or give another {port_setting}"
        return cls(f"{what} on {host}:{port}: {error}: {advice}")
