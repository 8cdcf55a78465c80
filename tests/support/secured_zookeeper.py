"""A real ZooKeeper that speaks TLS only, with certificates for every role that opens a session."""

from pathlib import Path

from headrace.coordination.security import ROLES, ZooKeeperSecurity
from headrace.coordination.session import Session
from headrace.local.security.certificates import Authority, make_folder
from headrace.local.supervisor import zookeeper
from tests.support.processes import Process, accepts, eventually, free_port


class SecuredZooKeeper:
    """`start` returns when it accepts connections. `folder` is as `headrace security init` makes it, as far as it needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "security"
        make_folder(self.folder)
        authority = Authority.made(self.folder)
        authority.issue(self.folder / "zookeeper" / "keystore.pem", "headrace-zookeeper", hosts=("127.0.0.1",), days=2)
        for role in (*ROLES, "stranger"):
            authority.issue(self.folder / role / "keystore.pem", f"headrace-{role}", hosts=(), days=2)
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        command = zookeeper.command(self.port, folder / "server", secured=self.folder)
        self.process = Process(command, folder / "server.log")

    def start(self) -> "SecuredZooKeeper":
        self.process.start()
        eventually(lambda: accepts(self.port), within_ms=60_000, what="ZooKeeper's port open")
        return self

    def security(self, role: str, *, sets_rights: bool = True) -> ZooKeeperSecurity:
        """Return how a process of this role speaks to the server."""
        keystore = self.folder / role / "keystore.pem"
        return ZooKeeperSecurity(truststore=self.folder / "ca.pem", keystore=keystore, sets_rights=sets_rights)

    def config(self, role: str) -> Path:
        """Return a properties file with the same."""
        file = self.folder / role / "zookeeper.properties"
        lines = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.keystore.location": self.folder / role / "keystore.pem",
            "zookeeper.ssl.truststore.location": self.folder / "ca.pem",
            "zookeeper.set.acl": "true",
        }
        file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        return file

    def session(self, role: str, chroot: str = "", *, sets_rights: bool = True) -> Session:
        """Return a session that is not started."""
        return Session(self.address + chroot, name=role, security=self.security(role, sets_rights=sets_rights))
