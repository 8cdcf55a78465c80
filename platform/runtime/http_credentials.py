"""What our HTTP clients show to services of ours that ask who calls: from the environment, a file each, read at every call.

`HEADRACE_<SERVICE>_TOKEN_FILE` (bearer token), `…_LOGIN_FILE` (`user:password` of the cluster, for a service with `--logins`),
`…_CA_FILE` (who signed the service's certificate), `…_CERT_FILE` and `…_KEY_FILE` (the client's own, for mTLS). SERVICE is
REGISTRY or AUDIT.
"""

import base64
import os
from typing import TYPE_CHECKING

from .http_access import Unprotected

if TYPE_CHECKING:
    import ssl


def headers(service: str) -> dict[str, str]:
    """Return the header with the token, or none. Raises `Unprotected` for a file that cannot be read."""
    if login := _first_line(f"HEADRACE_{service}_LOGIN_FILE"):
        return {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
    path, token = os.environ.get(f"HEADRACE_{service}_TOKEN_FILE"), _first_line(f"HEADRACE_{service}_TOKEN_FILE").strip()
    if not path:
        return {}
    if not token.isascii() or not token.isprintable() or not token:
        raise Unprotected(f"HEADRACE_{service}_TOKEN_FILE={path}: its first line is not a token")
    return {"Authorization": f"Bearer {token}"}


def _first_line(variable: str) -> str:
    """Return the first line of the file that the variable names; empty without one. Raises `Unprotected`."""
    path = os.environ.get(variable)
    if not path:
        return ""
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline(4_096).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Unprotected(f"{variable}={path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def tls_context(service: str) -> "ssl.SSLContext | None":
    """Return the context for https; None: the system's CAs and no certificate. Raises `Unprotected`."""
    names = [f"HEADRACE_{service}_{what}_FILE" for what in ("CA", "CERT", "KEY")]
    ca, certificate, key = (os.environ.get(name) or None for name in names)
    if ca is None and certificate is None:
        return None
    import ssl

    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            context.load_cert_chain(certificate, key, lambda: "")
    except (OSError, ValueError) as error:
        raise Unprotected(f"{', '.join(names)}: {ca}, {certificate}, {key} cannot be used: {error}") from None
    return context
