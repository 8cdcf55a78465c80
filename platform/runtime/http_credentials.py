"""What our HTTP clients show to services of ours that ask who calls: from the environment, a file each, read at every call.

`HEADRACE_<SERVICE>_TOKEN_FILE` (bearer token), `…_CA_FILE` (who signed the service's certificate), `…_CERT_FILE` and `…_KEY_FILE`
(the client's own, for mTLS). SERVICE is REGISTRY or AUDIT.
"""

import os
from typing import TYPE_CHECKING

from .http_access import Unprotected

if TYPE_CHECKING:
    import ssl


def headers(service: str) -> dict[str, str]:
    """Return the header with the token, or none. Raises `Unprotected` for a file that cannot be read."""
    path = os.environ.get(f"HEADRACE_{service}_TOKEN_FILE")
    if not path:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            token = file.readline(4_096).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Unprotected(f"HEADRACE_{service}_TOKEN_FILE={path} cannot be read: {reason}") from None
    if not token.isascii() or not token.isprintable() or not token:
        raise Unprotected(f"HEADRACE_{service}_TOKEN_FILE={path}: its first line is not a token")
    return {"Authorization": f"Bearer {token}"}


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
