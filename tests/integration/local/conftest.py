"""A topic's name for each test."""

import uuid

import pytest


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid.uuid4().hex[:8]}"
