"""TLS contexts from PEM files: for each listener, and for connections to other brokers.

`ServerTls` reads its files again when they have changed. New connections use the new certificate, open ones stay. While the files
do not belong together (between two writes), the last good ones are used."""

import os
import ssl
from pathlib import Path

from ...runtime.logs import get_logger
from ..errors import TlsRefused
from ..settings.tls_settings import TlsSettings

log = get_logger(__name__)

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

Signature = tuple[tuple[int, int, int], ...]
"""Modification time (ns), size and inode of each file."""


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a listener. Raises: TlsRefused."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_versions(context, settings)
    # A renegotiation would let a client make the broker calculate again and again.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    _load_own(context, settings)
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    if settings.truststore is not None:
        _load_trusted(context, settings.truststore)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context for connections to other brokers, which show this broker's certificate. Raises: TlsRefused."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _set_versions(context, settings)
    context.check_hostname = settings.checks_host_names
    _load_own(context, settings)
    if settings.truststore is None:
        context.load_default_certs()
    else:
        _load_trusted(context, settings.truststore)
    return context


class ServerTls:
    """The present context of one listener."""

    def __init__(self, settings: TlsSettings) -> None:
        """Raises: TlsRefused."""
        self._settings = settings
        self._signature = self._look()
        self.principal_rules = settings.principal_rules
        self._make()

    def refresh(self) -> None:
        """Read the files again if they have changed."""
        signature = self._look()
        if signature == self._signature:
            return
        self._signature = signature
        try:
            self._make()
        except TlsRefused as refused:
            log.warning("certificates_not_reloaded", why=str(refused))
        else:
            log.info("certificates_reloaded", keystore=str(self._settings.keystore))

    def _make(self) -> None:
        self.context = server_context(self._settings)

    def _look(self) -> Signature | None:
        """Return None while a file is missing."""
        paths = [self._settings.keystore] + ([] if self._settings.truststore is None else [self._settings.truststore])
        try:
            found = [os.stat(path) for path in paths]
        except OSError:
            return None
        return tuple((one.st_mtime_ns, one.st_size, one.st_ino) for one in found)


def _set_versions(context: ssl.SSLContext, settings: TlsSettings) -> None:
    versions = sorted(_VERSIONS[one] for one in settings.versions)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]


def _load_own(context: ssl.SSLContext, settings: TlsSettings) -> None:
    def password() -> str:
        # Without this function OpenSSL would ask on the terminal.
        return settings.key_password or ""

    try:
        context.load_cert_chain(settings.keystore, password=password)
    except (OSError, ValueError) as error:
        why = str(error)
        if isinstance(error, ssl.SSLError) and settings.key_password is None:
            why += "; if the key is encrypted, give ssl.key.password"
        raise TlsRefused(
            "ssl.keystore.location", settings.keystore, why, "It must hold a private key and its certificate chain, in PEM."
        ) from error


def _load_trusted(context: ssl.SSLContext, truststore: Path) -> None:
    try:
        context.load_verify_locations(truststore)
    except OSError as error:
        raise TlsRefused("ssl.truststore.location", truststore, str(error), "It must hold CA certificates, in PEM.") from error
