"""One pair of clusters with a mirror for tests that leave it running, and fresh ones for tests that do not."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.mirror.pair import Pair


@pytest.fixture(scope="module")
def standing(zookeeper_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder: Path = tmp_path_factory.mktemp("pair")
    with Pair(folder, f"{zookeeper_address}/pair-{uuid.uuid4().hex[:8]}") as pair:
        pair.start_mirror()
        yield pair


@pytest.fixture
def fresh(zookeeper_chroot: str, tmp_path: Path) -> Iterator[Pair]:
    """A pair of its own, the mirror not started."""
    with Pair(tmp_path, zookeeper_chroot) as pair:
        yield pair
