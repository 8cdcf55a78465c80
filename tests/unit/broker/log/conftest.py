"""Leaves out the slow part of the file system, for tests that open thousands of logs."""

import os

import pytest


@pytest.fixture
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing wait for the disk. For tests that do not look at what is on disk."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
