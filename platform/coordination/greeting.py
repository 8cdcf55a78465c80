"""Connections to a ZooKeeper server with TLS, and a second look at servers with which no session could be opened."""

import socket
import ssl

from .security import VARIABLE, ZooKeeperSecurity

LOOK_S = 2.0
"""How long a second look waits for each step of one server."""
MOST_LOOKED_AT = 3


def connected(address: tuple[str, int], host: str, context: ssl.SSLContext, timeout_s: float | None) -> ssl.SSLSocket:
    """Return a connection. `host` is what the server's certificate must name. Raises OSError."""
    plain = socket.create_connection(address, timeout_s)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return context.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def why_no_session(hosts: str, security: ZooKeeperSecurity | None) -> str | None:
    """Return what prevents a session with these servers, as far as TLS has to do with it; None: nothing that is known."""
    for word in hosts.split(",")[:MOST_LOOKED_AT]:
        host, _, port = word.strip().rpartition(":")
        if port.isdigit() and (why := _why_not(host.strip("[]"), int(port), security)) is not None:
            return f"{word}: {why}"
    return None


def _why_not(host: str, port: int, security: ZooKeeperSecurity | None) -> str | None:
    if security is None:
        if _speaks_tls(host, port):
            return (
                "it speaks TLS, and this process speaks in the clear: name the file of `headrace security init` with "
                f"--zookeeper-config or {VARIABLE}"
            )
        return None
    try:
        with connected((host, port), host, security.context(), LOOK_S) as connection:
            # With TLS 1.3 a server refuses a client's certificate after the handshake.
            if connection.recv(1) == b"":
                return "it closed the connection after the TLS handshake: does it know the CA of this process's certificate?"
    except TimeoutError:
        return None
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is refused: {error.verify_message}"
    except ssl.SSLError as error:
        if _speaks_tls(host, port):
            return f"TLS failed: {error.reason or error}; is this process's certificate of a CA that the server knows, and valid?"
        return "it does not speak TLS on this port, but this process does: is it the port of secureClientPort?"
    except OSError as error:
        return f"{error.strerror or error}"
    return None


def _speaks_tls(host: str, port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        connected((host, port), host, context, LOOK_S).close()
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except OSError:
        return False
    return True
