"""Secures a node of Apache Kafka with the files of `headrace security init`: its `server.properties`, and, once it runs, the
users and rules of every role.

The controller knows no users, so the node shows it the certificate of the role `broker`, and its name counts as that user's. The
users `broker` and `operator` are there when the data is formatted; the operator adds the others.

`python -m headrace.local.kafka.secured SECURITY CLUSTER PORT STATUS PID` waits for the node with this process id, gives it users
and rules, and says `ready` in the status file.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...client.connection.cluster import Cluster
from ...client.errors import ClientError
from ...errors import HeadraceError
from ...runtime.layout import LOOPBACK
from ...runtime.status import StatusFile
from ..security import apply
from ..security.files import MECHANISM, password_of
from ..security.roles import ROLES, super_users

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
READY_MS = 120_000
"""How long a node may take until its operator can log in."""
AGAIN_MS = 300


def properties(port: int, controller_port: int, security: Path) -> Mapping[str, str]:
    """Return the lines that replace those of a node in the clear. They hold no password: Kafka reads it where it is."""
    login = f"${{file:{security / 'broker' / 'client.properties'}:sasl.jaas.config}}"
    return {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "listeners": f"SASL_SSL://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": f"SASL_SSL://{LOOPBACK}:{port}",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SSL",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": MECHANISM,
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": login,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(security / "broker" / "keystore.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(security / "ca.pem"),
        "listener.name.controller.ssl.client.auth": "required",
        "listener.name.controller.ssl.principal.mapping.rules": "RULE:^CN=headrace-([a-z]+)$/$1/,DEFAULT",
        "authorizer.class.name": AUTHORIZER,
        "super.users": super_users(),
    }


def first_users(security: Path) -> list[str]:
    """Return the words of the storage tool that add the users without whom nothing begins. They hold passwords."""
    names = [role.name for role in ROLES if role.is_super_user]
    return [
        word
        for name in names
        for word in ("--add-scram", f'{MECHANISM}=[name="{name}",password="{password_of(security, name)}"]')
    ]


def begin(security: Path, cluster: str, port: int, status: Path) -> None:
    """Start this module beside the node that this process becomes, as a child of the supervisor: the JVM would not reap it."""
    words = [sys.executable, "-m", __name__, str(security), cluster, str(port), str(status), str(os.getpid())]
    between = os.fork()
    if between == 0:
        subprocess.Popen(words, stdin=subprocess.DEVNULL)
        os._exit(0)
    os.waitpid(between, 0)


def give_users_and_rules(security: Path, cluster: str, port: int, *, within_ms: int = READY_MS) -> None:
    """Give a node that is starting its users and rules, once it answers. Raises ClientError, SecurityError."""
    plan = apply.wanted(security, cluster)
    deadline = time.monotonic() + within_ms / 1000
    while True:
        node = Cluster(f"{LOOPBACK}:{port}", client_id="headrace-security", security=security / "operator" / "client.properties")
        try:
            apply.by_brokers(node, plan, keeps_users=True)
            return
        except ClientError:
            if time.monotonic() > deadline:
                raise
        finally:
            node.close()
        time.sleep(AGAIN_MS / 1000)


def main(words: Sequence[str]) -> None:
    security, cluster, port, path, pid = words
    status = StatusFile(Path(path))
    status.write("starting", pid=int(pid), reason="waits for its broker, to give it users and rules")
    try:
        give_users_and_rules(Path(security), cluster, int(port))
    except HeadraceError as error:
        status.write("stalled", pid=int(pid), reason=f"it has not its users and rules: {error}")
        sys.exit(f"headrace: {error}")
    status.write("ready", pid=int(pid), port=int(port))


if __name__ == "__main__":
    main(sys.argv[1:])
