"""The TLS of a listener: TLS 1.2 or newer, and clients' certificates where an authority for them is given.

The files are checked before each connection, so that renewed certificates are used from the next one on. While certificate and
key do not belong together (between two writes), the last good ones are used.
"""

import os
import ssl
from pathlib import Path

from ...runtime.http_access import HttpAccess
from ...runtime.logs import get_logger
from ..errors import AgentError

log = get_logger(__name__)

_Facts = tuple[tuple[int, int, int] | None, ...]


class ServerTls:
    """Gives the context of the next connection. Belongs to the thread that accepts."""

    def __init__(
        self, certificate: Path, key: Path, client_authorities: Path | None = None, *, only_listens: bool = False
    ) -> None:
        """`only_listens`: nothing is sent behind the handshake, no session tickets either. A client that never reads would have
        them in its socket when it closes that, and what it sent and nobody read yet would be lost with the reset.

        Raises AgentError, which names files and holds no key.
        """
        self._only_listens = only_listens
        self._files = (certificate, key, client_authorities)
        self._seen = self._facts()
        self._context = self._made()

    def context(self) -> ssl.SSLContext:
        """Return the context of what is in the files now, or was there last and could be used."""
        facts = self._facts()
        if facts != self._seen:
            self._seen = facts
            try:
                self._context = self._made()
                log.info("certificate_renewed", certificate=str(self._files[0]))
            except AgentError as error:
                log.warning("certificate_not_renewed", error=str(error), then="the last good one is used")
        return self._context

    def _facts(self) -> _Facts:
        return tuple(None if path is None else _facts_of(path) for path in self._files)

    def _made(self) -> ssl.SSLContext:
        certificate, key, authorities = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        if self._only_listens:
            context.num_tickets = 0
        try:
            # Given as a function, always: without one OpenSSL would ask for the password at the terminal.
            context.load_cert_chain(certificate, str(key), lambda: "")
        except (OSError, ValueError) as error:
            raise AgentError(
                f"tls_cert {certificate}, tls_key {key}: {_reason(error)}: both must be PEM, the key without a password, and "
                "the certificate's own"
            ) from None
        if authorities is not None:
            try:
                context.load_verify_locations(authorities)
            except (OSError, ValueError) as error:
                raise AgentError(f"tls_client_ca {authorities}: {_reason(error)}: it must hold PEM certificates") from None
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def tls_of(access: HttpAccess, *, only_listens: bool = False) -> ServerTls | None:
    """Return the TLS that these settings ask for, None for none. Raises AgentError."""
    if access.certificate is None or access.key is None:
        return None
    return ServerTls(access.certificate, access.key, access.client_authorities, only_listens=only_listens)


def _facts_of(path: Path) -> tuple[int, int, int] | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_ino, facts.st_size


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)
