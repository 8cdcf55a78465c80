"""What each SASL mechanism says to the broker: a generator of the client's messages that receives the broker's.

Sources: PLAIN: RFC 4616; OAUTHBEARER: RFC 7628, section 3, without host and port, as Kafka does (KIP-255, KIP-342).
"""

import base64
import os
from collections.abc import Callable, Generator, Mapping
from typing import TypeAlias

from ...wire import scram_client
from .secret_value import Secret

Exchange: TypeAlias = Generator[bytes, bytes, None]


class MechanismRefused(ValueError):
    """The broker refused the credentials, or did not prove itself."""


def plain(username: str, password: Secret) -> Exchange:
    """Yield the one message."""
    yield f"\0{username}\0{password.reveal()}".encode()


def scram_login(mechanism: str, username: str, password: Secret) -> Exchange:
    """Yield both messages. Raises `MechanismRefused`."""
    nonce = base64.b64encode(os.urandom(24)).decode()
    try:
        yield from scram_client.exchange(scram_client.HASHES[mechanism], username, password.reveal(), nonce)
    except scram_client.ScramRefused as error:
        raise MechanismRefused(str(error)) from None


def oauth_bearer(token: Callable[[], Secret], extensions: Mapping[str, str]) -> Exchange:
    """Yield the token; if the broker refuses it, yield the message that makes the broker say so. Raises `MechanismRefused`, and
    what `token` raises.
    """
    words = [f"auth=Bearer {token().reveal()}", *(f"{name}={value}" for name, value in extensions.items())]
    answer = yield ("n,,\x01" + "\x01".join(words) + "\x01\x01").encode()
    if answer:
        yield b"\x01"
        raise MechanismRefused(f"the broker refused the token: {answer[:200].decode(errors='replace')}")
