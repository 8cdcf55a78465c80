"""Names of topics for tests of commands."""

import uuid

import pytest


@pytest.fixture
def topic() -> str:
    return f"t_{uuid.uuid4().hex[:8]}"
