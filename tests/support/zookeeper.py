"""A real ZooKeeper process for tests, on a free loopback port, its data kept over kills; and the end of a client's session."""

from pathlib import Path

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from headrace.coordination.session import Session
from headrace.local.supervisor import zookeeper
from tests.support.processes import Process, accepts, eventually, free_port


class ZooKeeperProcess:
    """A ZooKeeper server. `start` returns when it accepts connections; `address` is the same over restarts."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.process = Process(zookeeper.command(self.port, folder), folder / "log")

    @property
    def pid(self) -> int:
        return self.process.pid

    def start(self) -> "ZooKeeperProcess":
        self.process.start()
        eventually(lambda: accepts(self.port), what="ZooKeeper's port open")
        return self

    def kill(self) -> None:
        """`kill -9`."""
        self.process.kill()

    def __enter__(self) -> "ZooKeeperProcess":
        try:
            return self.start()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_: object) -> None:
        self.kill()


def expire(session: Session) -> None:
    """End the session as the server would: a second client closes it under its id and password, and return once it is lost."""
    client, before = session._client, session.generation
    assert client is not None
    identity = client.client_id
    assert identity is not None

    def steal_and_close() -> bool:
        # The owner may reconnect between the two steps and take its session back, or even while the thief connects: again.
        thief = KazooClient(session.hosts.partition("/")[0], client_id=identity)
        try:
            thief.start(3)
        except KazooTimeoutError:
            pass
        finally:
            thief.stop()
            thief.close()
        return session.generation > before

    eventually(steal_and_close, within_ms=40_000, what="the session ended")
