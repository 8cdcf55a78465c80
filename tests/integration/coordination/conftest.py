"""Sessions that are closed at the end of the test."""

from collections.abc import Callable, Iterator

import pytest

from headrace.coordination.session import Session

OpenSession = Callable[..., Session]


@pytest.fixture
def open_session(zookeeper_chroot: str) -> Iterator[OpenSession]:
    """Open sessions in this test's chroot (or at `hosts`), with a short session time; close what is still open at the end."""
    opened: list[Session] = []

    def open_one(name: str = "test", *, hosts: str = zookeeper_chroot, session_timeout_ms: int = 2_000) -> Session:
        session = Session(hosts, session_timeout_ms=session_timeout_ms, name=name)
        opened.append(session)
        return session.start()

    yield open_one
    for session in opened:
        session.close()
