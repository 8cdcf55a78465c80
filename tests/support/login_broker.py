"""A broker in this process whose clients log in, and a raw client that does."""

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.broker.logins.scram_credential import ScramCredential
from headrace.client.security import mechanisms
from headrace.client.security.secret_value import Secret
from tests.support.raw_kafka import RawClient
from tests.support.serving_broker import ServingBroker

HANDSHAKE, AUTHENTICATE = (17, 1), (36, 2)
ALL = "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN"


def stored(password: str, *wanted: str, iterations: int = 4_096) -> dict[str, str]:
    """Return a user's settings in ZooKeeper."""
    return {one: ScramCredential.of_password(one, password, os.urandom(16), iterations).to_text() for one in wanted}


class LoginBroker(ServingBroker):
    """A `ServingBroker` with one SASL_PLAINTEXT listener. The user alice has the password `secret`."""

    def __init__(self, folder: Path, *, topics: Mapping[str, Any] | None = None, **settings: object) -> None:
        words = {name.replace("_", "."): value for name, value in settings.items()}
        own = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": ALL, **words}
        super().__init__(folder, topics=topics, settings=own)
        self.user_registry.users["alice"] = stored("secret", "SCRAM-SHA-256", "SCRAM-SHA-512")
        self.users.load()


def begin(client: RawClient, mechanism: str) -> Any:
    """Send SaslHandshake and return its response."""
    return client.ask(*HANDSHAKE, {"mechanism": mechanism})


def authenticate(client: RawClient, message: bytes) -> Any:
    """Send SaslAuthenticate and return its response."""
    return client.ask(*AUTHENTICATE, {"auth_bytes": message})


def log_in(client: RawClient, user: str = "alice", password: str = "secret", mechanism: str = "SCRAM-SHA-512") -> Any:
    """Log in as far as the broker allows, and return its last response."""
    answer = begin(client, mechanism)
    if answer.error_code:
        return answer
    steps = (
        mechanisms.plain(user, Secret(password))
        if mechanism == "PLAIN"
        else mechanisms.scram_login(mechanism, user, Secret(password))
    )
    message = next(steps)
    while True:
        answer = authenticate(client, message)
        if answer.error_code:
            return answer
        try:
            message = steps.send(answer.auth_bytes)
        except StopIteration:
            return answer


def nonce() -> str:
    return base64.b64encode(os.urandom(18)).decode()
