"""Connects to other brokers: with TLS and a login where their listener for brokers has them. A worker's thread calls it."""

import secrets
import socket

from ...wire import scram_client
from ..errors import TlsRefused
from ..network.tls_context import client_context
from ..partitions.catalog import BrokerAddress
from ..partitions.other_brokers import Connect, ask, connect_in_the_clear
from ..settings.broker_settings import BrokerSettings
from ..settings.login_settings import PLAIN, BetweenBrokers
from .scram_credential import HASHES

HANDSHAKE, AUTHENTICATE = (17, 1), (36, 1)


class LoginRefused(ConnectionError):
    """Another broker does not accept this one's login, or does not prove itself."""


def connect_to_other(settings: BrokerSettings) -> Connect:
    """Return what connects to another broker's listener for brokers. It raises OSError."""
    (between,) = (one for one in settings.listeners if one.name == settings.inter_broker_listener)
    tls = settings.tls.get(between.name)
    login = None if settings.logins is None else settings.logins.between

    def connect(other: BrokerAddress, within_s: float) -> socket.socket:
        if between.has_login and login is None:
            raise LoginRefused("sasl.inter.broker.username and sasl.inter.broker.password are not given")
        connected = connect_in_the_clear(other, within_s)
        try:
            if tls is not None:
                # Made for each connection, of which there are few, so that a new certificate is used at once.
                connected = client_context(tls).wrap_socket(connected, server_hostname=other.host)
            if between.has_login and login is not None:
                log_in(connected, login)
        except TlsRefused as refused:
            connected.close()
            raise ConnectionError(str(refused)) from refused
        except BaseException:
            connected.close()
            raise
        return connected

    return connect


def log_in(connected: socket.socket, login: BetweenBrokers) -> None:
    """Log in on a new connection. Raises: OSError, WireError."""
    answer = ask(connected, *HANDSHAKE, {"mechanism": login.mechanism})
    if answer.error_code:
        raise LoginRefused(f"it takes {', '.join(answer.mechanisms) or 'no login'}, not {login.mechanism}")
    if login.mechanism == PLAIN:
        _authenticate(connected, f"\0{login.username}\0{login.password}".encode())
        return
    try:
        steps = scram_client.exchange(HASHES[login.mechanism], login.username, login.password, secrets.token_urlsafe(24))
        message = next(steps)
        while True:
            message = steps.send(_authenticate(connected, message))
    except StopIteration:
        return
    except scram_client.ScramRefused as error:
        raise LoginRefused(str(error)) from None


def _authenticate(connected: socket.socket, message: bytes) -> bytes:
    answer = ask(connected, *AUTHENTICATE, {"auth_bytes": message})
    if answer.error_code:
        raise LoginRefused(f"it refuses the login: {answer.error_message}")
    return bytes(answer.auth_bytes)
