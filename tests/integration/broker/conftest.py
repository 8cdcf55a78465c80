"""The settings of the module's broker, and names of topics."""

import uuid

import pytest


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, object]:
    return {"message.max.bytes": 2_000_000}


@pytest.fixture
def topic() -> str:
    """A name that no other test uses."""
    return f"topic-{uuid.uuid4().hex[:8]}"
