"""`headrace_native` is used where it is installed, of the known shape, and not switched off."""

import sys
from types import ModuleType

import pytest

from headrace.runtime.native import SHAPE, load


def _installed(monkeypatch: pytest.MonkeyPatch, shape: int) -> ModuleType:
    module = ModuleType("headrace_native")
    module.SHAPE = shape  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "headrace_native", module)
    monkeypatch.delenv("HEADRACE_NATIVE", raising=False)
    return module


def test_the_module_of_the_known_shape_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    module = _installed(monkeypatch, SHAPE)
    assert load() is module


def test_it_is_left_alone_when_it_is_switched_off_of_another_shape_or_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch, SHAPE + 1)
    assert load() is None
    _installed(monkeypatch, SHAPE)
    monkeypatch.setenv("HEADRACE_NATIVE", "0")
    assert load() is None
    monkeypatch.delenv("HEADRACE_NATIVE")
    monkeypatch.setitem(sys.modules, "headrace_native", None)
    assert load() is None
