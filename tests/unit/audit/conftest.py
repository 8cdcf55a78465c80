"""The audit service's parts, closed at the end of the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.audit.service_parts import Service


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path / "audit" / "books.sqlite")
    yield made
    made.database.close()
