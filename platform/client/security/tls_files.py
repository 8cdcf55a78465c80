"""TLS contexts of a client, made from PEM files or PEM text. Source: Python's `ssl`, whose defaults (TLS 1.2 or newer) stay."""

import os
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from .settings import TlsSettings


class BadCertificates(ValueError):
    """A certificate, a key or a CA cannot be used."""


def context_of(tls: TlsSettings) -> ssl.SSLContext:
    """Return a client's context. Raises `BadCertificates`, which names the setting and the file and holds no key."""
    context = _with_authorities(tls.ca_file, tls.ca_pem)
    context.check_hostname = tls.checks_host
    if tls.certificate_file is None and tls.certificate_pem is None:
        return context
    password = tls.key_password
    is_asked = False

    def key_password() -> str:
        nonlocal is_asked
        is_asked = True
        return "" if password is None else password.reveal()

    with ExitStack() as texts:
        certificate = tls.certificate_file or texts.enter_context(_as_file(tls.certificate_pem or ""))
        key = tls.key_file if tls.key_pem is None else texts.enter_context(_as_file(tls.key_pem.reveal()))
        where = f"certificate {tls.certificate_file or '(text)'}, key {tls.key_file or ('(text)' if tls.key_pem else 'in it')}"
        try:
            # Given as a function, always: without one OpenSSL would ask for the password at the terminal.
            context.load_cert_chain(certificate, key, key_password)
        except ssl.SSLError as error:
            if is_asked:
                why = "the key is encrypted, and ssl.key.password " + ("is not given" if password is None else "does not open it")
            else:
                why = f"{_reason(error)}: both must be PEM, and the key must be the certificate's"
            raise BadCertificates(f"{where}: {why}") from None
        except (OSError, ValueError) as error:
            raise BadCertificates(f"{where}: {getattr(error, 'strerror', None) or error}") from None
    return context


def authorities_context(ca_file: str | None) -> ssl.SSLContext:
    """Return a context that trusts the file's CAs, or the system's. Raises `BadCertificates`."""
    return _with_authorities(ca_file, None)


def _with_authorities(ca_file: str | None, ca_pem: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file, cadata=ca_pem)
    except ssl.SSLError as error:
        raise BadCertificates(f"CA {ca_file or '(text)'}: {_reason(error)}: it must hold PEM certificates") from None
    except (OSError, ValueError) as error:
        raise BadCertificates(f"CA {ca_file or '(text)'}: {getattr(error, 'strerror', None) or error}") from None


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Give the text a path, in memory: `load_cert_chain` takes only paths, and a key must not be written to a disk."""
    descriptor = os.memfd_create("headrace-pem", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
