"""A real ZooKeeper that speaks TLS only, a folder of `headrace security init`, and a stranger's certificate of the same CA."""

from pathlib import Path

from headrace.coordination.security import ZooKeeperSecurity
from headrace.coordination.session import Session
from headrace.local.security.certificates import Authority
from headrace.local.security.files import init
from headrace.local.supervisor import zookeeper
from tests.support.processes import Process, accepts, eventually, free_port


class SecuredZooKeeper:
    """`start` returns when it accepts connections. `folder` is the one of `headrace security init`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "security"
        init(self.folder, hosts={"zookeeper": ("127.0.0.1",)})
        stranger = self.folder / "stranger" / "keystore.pem"
        Authority.read(self.folder).issue(stranger, "headrace-stranger", hosts=(), days=2)
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

    def session(self, role: str, chroot: str = "", *, sets_rights: bool = True) -> Session:
        """Return a session that is not started."""
        return Session(self.address + chroot, name=role, security=self.security(role, sets_rights=sets_rights))
