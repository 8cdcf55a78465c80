"""Three real ZooKeeper processes as one ensemble, on free loopback ports, their data kept over kills."""

import shutil
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from headrace.local.supervisor import zookeeper
from headrace.runtime.layout import LOOPBACK
from tests.support.processes import Process, eventually, free_port

SERVERS = 3
ENSEMBLE_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


def _command(number: int, port: int, folder: Path, peers: Sequence[tuple[int, int]]) -> list[str]:
    """Write the files of server `number` (from 1) into `folder` and return the command that runs it. A peer is its ports for
    followers and for elections.
    """
    words = [*zookeeper.command(port, folder)]
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / "myid").write_text(str(number))
    servers = "".join(f"server.{n}={LOOPBACK}:{follow}:{elect}\n" for n, (follow, elect) in enumerate(peers, start=1))
    with Path(words[-1]).open("a") as settings:
        settings.write("initLimit=20\nsyncLimit=4\n" + servers)
    words[words.index(zookeeper.MAIN_CLASS)] = ENSEMBLE_CLASS
    return words


class ZooKeeperEnsemble:
    """Serves while entered, and continues while two of the three live."""

    def __init__(self, folder: Path) -> None:
        peers = [(free_port(), free_port()) for _ in range(SERVERS)]
        self._folder = folder
        self._ports = [free_port() for _ in range(SERVERS)]
        self.address = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        self._servers = [
            Process(_command(number, port, folder / str(number), peers), folder / str(number) / "log")
            for number, port in enumerate(self._ports, start=1)
        ]

    def __enter__(self) -> "ZooKeeperEnsemble":
        try:
            for server in self._servers:
                server.start()
            eventually(self._is_whole, within_ms=40_000, what="an ensemble")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.kill()

    def modes(self) -> list[str]:
        """Return what each server says it is; an empty text where it does not serve."""
        return [_mode(port) for port in self._ports]

    def kill_leader(self) -> int:
        """`kill -9` the leader, and return its number."""
        number = eventually(lambda: self.modes().index("leader") + 1 if "leader" in self.modes() else 0, what="a leader")
        self._servers[number - 1].kill()
        return number

    def lose_disk(self, number: int) -> None:
        """`kill -9` a server, and leave nothing of what it had stored but who it is."""
        self._servers[number - 1].kill()
        data = self._folder / str(number) / "data"
        shutil.rmtree(data)
        data.mkdir()
        (data / "myid").write_text(str(number))

    def lose_all_disks(self) -> None:
        """Do so with all of them, and return when they serve again, with an empty tree."""
        for number in range(1, SERVERS + 1):
            self.lose_disk(number)
        for server in self._servers:
            server.start()
        eventually(self._is_whole, within_ms=40_000, what="an empty ensemble")

    def heal(self) -> None:
        """Start the servers that do not run, and return when all three serve."""
        for server in self._servers:
            if not server.is_running():
                server.start()
        eventually(self._is_whole, within_ms=60_000, what="a whole ensemble")

    def _is_whole(self) -> bool:
        return sorted(self.modes()) == ["follower", "follower", "leader"]

    def restart(self, number: int) -> None:
        self._servers[number - 1].start()
        eventually(lambda: self.modes()[number - 1] in ("leader", "follower"), within_ms=40_000, what="back in the ensemble")


def _mode(port: int) -> str:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2) as asking:
        asking.sendall(b"srvr")
        told = b""
        while more := asking.recv(4096):
            told += more
        return next((line.split()[1] for line in told.decode().splitlines() if line.startswith("Mode:")), "")
    return ""
