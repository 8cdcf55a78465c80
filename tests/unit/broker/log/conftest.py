"""The file system's slow part, left out where a test opens thousands of logs."""

import os

import pytest


@pytest.fixture
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing wait for the disk: what is on it is not what these tests are about."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
